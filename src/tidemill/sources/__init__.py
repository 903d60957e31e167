"""What a connector is, what a table function is called with, and the params of a source, where an unknown name is an
error.

To add a kind of source, write a class with the methods of `Connector`, a factory that makes one from a
`Source`, and an entry point:

    [project.entry-points."tidemill.sources"]
    salesforce = "my_package:SalesforceConnector"

`SOURCE accounts TYPE SALESFORCE PARAMS {…}` then reads by it. A connector may raise whatever it likes: the error
reaches the user as a `ConnectorError` that names the source and shows none of its secrets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, overload, runtime_checkable

from tidemill.errors import ArgumentError, ConnectorError, TidemillError, did_you_mean
from tidemill.model import absolute, quote, spelled
from tidemill.model.project import as_text as shown
from tidemill.model.source import SHARED, as_count, as_names, as_text, bad_param
from tidemill.sources.kinds import ANYTHING, reader_options, remedy, spark_name, unknown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from tidemill.model.cursor import Cursor
    from tidemill.model.source import Source


@dataclass(frozen=True, slots=True)
class Reading:
    """What a connector may use while it reads.

    `like` has the types of the table that the rows are for, where it is there: text and JSON take them, so that
    types do not drift from run to run. Rows at or above `until` of the cursor are not wanted: a source that can leave
    them out saves work, the caller filters in any case. `run` is what a table function gets; only functions look at it.
    """

    spark: SparkSession
    like: StructType | None = None
    run: Any = None
    until: Cursor | None = None


class Connector(Protocol):
    """Reads one source. Making one starts no Spark and asks nobody; wrong params are an `ArgumentError` there.

    What is implemented here suits a source that knows nothing better; a class may inherit it.
    """

    def schema(self, reading: Reading) -> StructType:
        """The columns and their types, without reading rows where that is possible."""
        return self.read(reading).schema

    def read(self, reading: Reading, columns: Sequence[str] = ()) -> DataFrame:
        """All rows, lazily where possible; only these columns, if any are named."""

    def read_since(self, reading: Reading, column: str, value: Cursor, columns: Sequence[str] = ()) -> DataFrame:
        """At least the rows whose `column` is at or above `value`, and those where it is NULL.

        It may give more: the caller filters. `columns`, if any are named, hold `column`.
        """
        del column, value
        return self.read(reading, columns)

    def version(self) -> str | None:
        """A text that differs whenever the rows may; None where that cannot be known. Asked without Spark."""
        return None

    @property
    def settled(self) -> bool:
        """Whether reading the frame twice gives the same rows, and costs less than keeping them would."""
        return False


@runtime_checkable
class OfFiles(Protocol):
    """What a connector may tell besides."""

    @property
    def is_plain(self) -> bool:
        """Whether its rows are those of Parquet files, all of them and as they are."""

    def spans_in_order(self, files: Sequence[str], key: str) -> list[tuple[int, int, int]] | None:
        """By each of these files how many rows it holds, and its first and last key, from the lowest keys on.

        None where only Spark can tell, or there are no rows; no key is in two of them.
        """


@runtime_checkable
class Measured(Protocol):
    """What a connector may tell besides."""

    def bytes_read(self, start: Cursor | None) -> int | None:
        """The size of the files that hold what is read from `start` on; None where it is not known."""


def bytes_of(source: Connector, start: Cursor | None) -> int | None:
    """The size of the files that hold what is read from `start` on; no step fails because they cannot be measured."""
    if not isinstance(source, Measured):
        return None
    with suppress(TidemillError, OSError):
        return source.bytes_read(start)
    return None


def sum_of_known(numbers: Iterable[int | None]) -> int | None:
    """The sum of all of them; None where one is not known."""
    found = list(numbers)
    return None if None in found else sum(each or 0 for each in found)


Mode = Literal["first", "incremental", "backfill"]
_DAY = timedelta(days=1)


class Dates(Sequence[date]):
    """All dates from `start` to `end`, both included; none without a start. Each is reported as it comes.

    >>> run = tidemill.Run(date(2026, 1, 30), date(2026, 2, 1))
    >>> len(run.dates), run.dates[-1]
    (3, datetime.date(2026, 2, 1))
    """

    def __init__(self, start: date | None, end: date | None, report: Callable[[date], None] = lambda _: None) -> None:
        self._start, self._end, self._report = start, end, report

    def __len__(self) -> int:
        return 0 if self._start is None or self._end is None else max(0, (self._end - self._start).days + 1)

    @overload
    def __getitem__(self, index: int) -> date: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[date]: ...

    def __getitem__(self, index: int | slice) -> date | Sequence[date]:
        return self._all()[index]

    def __iter__(self) -> Iterator[date]:
        for day in self._all():
            self._report(day)
            yield day

    def __repr__(self) -> str:
        return f"Dates({self._start} … {self._end})" if len(self) else "Dates()"

    def _all(self) -> list[date]:
        assert self._start is not None or not len(self)  # noqa: S101
        return [self._start + _DAY * number for number in range(len(self))] if self._start else []


def _no_spark() -> SparkSession:
    raise LookupError("this run has no Spark session")


def _no_table(name: str) -> DataFrame:
    raise LookupError(f"this run has no table {name}")


@dataclass(frozen=True, slots=True)
class Run:
    """One call of a function: it is asked for the rows of `dates`, those from `start` to `end`, both included.

    A function without a time column has no dates: `start` and `end` are None. `mode` is "first" where the table is not
    there yet or is empty, "backfill" where somebody said which dates, else "incremental". `vars` are the variables
    of the run.

    >>> @tidemill.table(name="bronze.stats", keys=["player", "game"], time_column="day", start="2026-02-01")
    ... def stats(run: tidemill.Run):
    ...     for day in run.dates:
    ...         yield fetch(day, region=run.vars["region"])
    """

    start: date | None = None
    end: date | None = None
    mode: Mode = "first"
    vars: Mapping[str, str] = field(default_factory=dict)
    session: Callable[[], SparkSession] = field(default=_no_spark, repr=False)
    held: Callable[[], DataFrame | None] = field(default=lambda: None, repr=False)
    table: Callable[[str], DataFrame] = field(default=_no_table, repr=False)
    report: Callable[[date], None] = field(default=lambda _: None, repr=False)

    @property
    def dates(self) -> Dates:
        """The dates to fetch, in order. Going through them is what a run shows as its progress."""
        return Dates(self.start, self.end, self.report)

    @property
    def spark(self) -> SparkSession:
        """A session in which tables have their names."""
        return self.session()

    def existing(self) -> DataFrame | None:
        """The table as it is; None where it is not there yet."""
        return self.held()

    def read(self, name: str) -> DataFrame:
        """A table that the function declares in `reads`."""
        return self.table(name)


Value = TypeVar("Value")


class Params:
    """Names count without case, as Spark's options do. A value of another type is an `ArgumentError`, "" is none."""

    def __init__(self, source: Source, given: Mapping[str, object] | None = None, inside: str = "") -> None:
        self.source = source
        self._inside = f"{inside}." if inside else ""
        self._left = dict(source.params if given is None else given)
        self._asked: list[str] = []

    def text(self, *names: str) -> str | None:
        """The value of the first of these names that is there."""
        return self._first(names, as_text, "a text")

    def needed(self, *names: str) -> str:
        found = self.text(*names)
        if found is None:
            close = did_you_mean(names[0], self._left)
            raise ArgumentError(
                "source.missing_param",
                f"The source {self.source} needs {self._inside}{' or '.join(names)}.",
                f"Did you mean {names[0]} instead of {close}?" if close else "Give it in its PARAMS.",
                origin=self.source.origin,
            )
        return found

    def names(self, name: str) -> tuple[str, ...]:
        return self._take(name, as_names, "a text or a list of texts") or ()

    def count(self, name: str, default: int) -> int:
        found = self._take(name, as_count, "a whole number above zero")
        return default if found is None else found

    def seconds(self, name: str, default: float) -> float:
        found = self._take(name, _number, "a number of seconds above zero")
        return default if found is None else found

    def rate(self, name: str) -> float | None:
        return self._take(name, _number, "a number of requests a second, above zero")

    def retries(self, name: str, default: int) -> int:
        found = self._take(name, _whole, "a whole number")
        return default if found is None else found

    def texts(self, name: str) -> dict[str, str]:
        """A JSON object as texts."""
        found = self._take(name, _object, "an object") or {}
        if any(isinstance(value, Mapping | list | tuple) or value is None for value in found.values()):
            raise bad_param(self.source, f"{self._inside}{name}", "an object of texts and numbers")
        return {key: shown(value) for key, value in found.items()}

    def mapping(self, name: str) -> Mapping[str, object] | None:
        return self._take(name, _object, "an object")

    def path(self, path: str) -> str:
        """The path as it is from anywhere: relative ones start at the source's folder."""
        return absolute(path, self.source.folder)

    def options(self) -> dict[str, str]:
        """What nobody asked for, as Spark's options are: texts. A name that its reader does not have is an error.

        Those of `spark` are passed as they are, and so are all where the reader is somebody else's.
        """
        free = self.mapping(ANYTHING) or {}
        self._left = {spark_name(name, self._left): value for name, value in self._left.items()}
        known = reader_options(self.source.kind) if self._left else None
        if known is not None:
            self._end([*self._asked, *known], unknown(self._left, known))
        return self._texts(self._left) | self._texts(free)

    def _texts(self, given: Mapping[str, object]) -> dict[str, str]:
        options: dict[str, str] = {}
        for name, value in given.items():
            if isinstance(value, Mapping | list | tuple):
                raise bad_param(self.source, f"{self._inside}{name}", "a text, a number, true or false")
            if value is not None:
                options[name] = shown(value)
        return options

    def end(self) -> None:
        """What is left is an error that names the nearest param there is."""
        self._end(self._asked, next(iter(self._left), None))

    def _end(self, known: Sequence[str], name: str | None) -> None:
        if name is None:
            return
        shared = () if self._inside else SHARED
        raise ArgumentError(
            "source.unknown_param",
            f"The source {self.source} of kind {self.source.kind.upper()} has no param {self._inside}{name}.",
            remedy(name, [*dict.fromkeys([*known, *shared])], "Its params"),
            origin=self.source.origin,
        )

    def _first(self, names: Iterable[str], read: Callable[[object], Value | None], wanted: str) -> Value | None:
        found = [value for name in names if (value := self._take(name, read, wanted)) is not None]
        return found[0] if found else None

    def _take(self, name: str, read: Callable[[object], Value | None], wanted: str) -> Value | None:
        self._asked.append(name)
        key = next((each for each in self._left if each.lower() == name.lower()), None)
        given = None if key is None else self._left.pop(key)
        if given is None or given == "":  # as ${env:PASSWORD|} is where there is none
            return None
        value = read(given)
        if value is None:
            raise bad_param(self.source, f"{self._inside}{name}", wanted)
        return value


def _number(value: object) -> float | None:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    return float(value) if fits and isinstance(value, int | float) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _object(value: object) -> Mapping[str, object] | None:
    return value if isinstance(value, Mapping) else None


def select_columns(rows: DataFrame, columns: Sequence[str], source: object) -> DataFrame:
    """These columns as the rows spell them, or all where none are named; one that is not there is an error."""
    if not columns:
        return rows
    return rows.select(*(quote(find_column(name, rows.columns, source)) for name in columns))


def rows_since(rows: DataFrame, column: str, value: Cursor, source: object) -> DataFrame:
    """The rows at or above the value, and those without one; Spark hands that on to what can skip by it."""
    name = quote(find_column(column, rows.columns, source))
    return rows.where(f"{name} >= {value.literal()} OR {name} IS NULL")


def find_column(name: str, columns: Sequence[str], source: object) -> str:
    found = spelled(name, columns)
    if found is None:
        close = did_you_mean(name, columns)
        raise ConnectorError(
            "source.no_column",
            f"The source {source} has no column {name}.",
            f"Did you mean {close}?" if close else f"It has {', '.join(columns)}.",
        )
    return found


def spark_source(source: Source) -> SparkSource:
    params = Params(source)
    schema, path = params.text("schema"), params.text("path")
    options = params.options()
    if path:  # where nothing is there it may be a name, as Iceberg's tables have
        options["path"] = params.path(path) if Path(params.path(path)).exists() else path
    return SparkSource(source.kind, options, schema, source.columns, source.name)


@dataclass(frozen=True)
class SparkSource(Connector):
    """Reads by `spark.read.format(kind)`. Filters reach it as far as its own connector lets them."""

    kind: str
    options: Mapping[str, str]
    schema_text: str | None
    columns: tuple[str, ...]
    name: str

    def __str__(self) -> str:
        return self.name

    def read(self, reading: Reading, columns: Sequence[str] = ()) -> DataFrame:
        return select_columns(self._all(reading), columns or self.columns, self)

    def read_since(self, reading: Reading, column: str, value: Cursor, columns: Sequence[str] = ()) -> DataFrame:
        return select_columns(rows_since(self._all(reading), column, value, self), columns or self.columns, self)

    def _all(self, reading: Reading) -> DataFrame:
        reader = reading.spark.read.format(self.kind).options(**self.options)
        return (reader.schema(self.schema_text) if self.schema_text else reader).load()
