"""What a connector is, and what a table function is called with.

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
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload, runtime_checkable

from tidemill.errors import ConnectorError, TidemillError, did_you_mean
from tidemill.model import quote, spelled

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from tidemill.model.cursor import Cursor


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
