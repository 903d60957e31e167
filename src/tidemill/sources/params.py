"""The params of a source and the options of Spark's readers and writers; an unknown name is an error."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tidemill.errors import ArgumentError, ConnectorError, did_you_mean
from tidemill.model.names import absolute, quote, spelled
from tidemill.model.source import SHARED, as_count, as_names, as_text, bad_param
from tidemill.model.variables import as_text as shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidemill.model.cursor import Cursor
    from tidemill.model.source import Source
    from tidemill.sources.protocol import Reading

ANYTHING = "spark"  # the name under which options that nobody checks are given
_ALIASES = {"has_header": "header"}
_FORMS = {"tsv": "csv"}
_ELSEWHERE = {"separator": "sep", "quotechar": "quote", "escapechar": "escape", "na_values": "nullValue"}
_NO_OPTIONS = frozenset({"self", "path", "paths", "schema", "partitionBy"})
# What Spark documents, or has as another spelling, beside the signatures of PySpark.
_FILES = (
    "pathGlobFilter",
    "recursiveFileLookup",
    "modifiedBefore",
    "modifiedAfter",
    "ignoreCorruptFiles",
    "ignoreMissingFiles",
    "basePath",
)
_TIMES = ("timeZone", "timestampNTZFormat", "enableDateTimeParsingFallback")
_READ = {
    "csv": (*_FILES, *_TIMES, "delimiter", "charset", "preferDate", "inputBufferSize", "columnPruning"),
    "json": (*_FILES, *_TIMES, "charset", "inferTimestamp", "allowNumericLeadingZeros", "singleVariantColumn"),
    "parquet": (*_FILES, "mergeSchema", "datetimeRebaseMode", "int96RebaseMode"),
    "orc": _FILES,
    "text": _FILES,
    "xml": (*_FILES, *_TIMES, "charset"),
    "delta": (
        *("versionAsOf", "timestampAsOf", "readChangeFeed"),
        *("startingVersion", "startingTimestamp", "endingVersion", "endingTimestamp"),
    ),
}
_JDBC = (
    *("driver", "partitionColumn", "lowerBound", "upperBound", "numPartitions", "queryTimeout", "fetchsize"),
    *("isolationLevel", "sessionInitStatement", "customSchema", "prepareQuery", "preferTimestampNTZ", "hint"),
    *("pushDownPredicate", "pushDownAggregate", "pushDownLimit", "pushDownOffset", "pushDownTableSample"),
    *("pushDownJoin", "keytab", "principal", "refreshKrb5Config", "connectionProvider"),
)
_WRITTEN = ("maxRecordsPerFile", "codec")
_WRITE = {
    "csv": (*_WRITTEN, "delimiter", "charset", "timeZone", "timestampNTZFormat"),
    "json": (*_WRITTEN, "charset", "timeZone", "timestampNTZFormat", "pretty", "writeNonAsciiCharacterAsCodePoint"),
    "parquet": _WRITTEN,
    "orc": _WRITTEN,
    "jdbc": (
        *("driver", "numPartitions", "queryTimeout", "batchsize", "isolationLevel", "sessionInitStatement"),
        *("createTableOptions", "createTableColumnTypes", "tableComment"),
        *("keytab", "principal", "refreshKrb5Config", "connectionProvider"),
    ),
}


def reader_options(kind: str) -> tuple[str, ...] | None:
    """The options for reading this kind; None where they are not known, as of a data source of somebody else's."""
    name = _FORMS.get(kind.lower(), kind.lower())
    if name in {"jdbc", "postgres", "postgresql"}:
        return _JDBC
    return _joined(_signatures("DataFrameReader", name), _READ[name]) if name in _READ else None


def writer_options(kind: str) -> tuple[str, ...]:
    """The options for writing this kind of files, or by JDBC."""
    found = [name for name in _signatures("DataFrameWriter", kind.lower()) if name != "mode"]
    return _joined([] if kind.lower() == "jdbc" else found, _WRITE[kind.lower()])


def spark_name(name: str, given: Iterable[str]) -> str:
    """The name by which Spark knows an option; beside that one, an alias is none."""
    known = _ALIASES.get(name.lower(), name)
    return name if known.lower() in {each.lower() for each in given} else known


def unknown(names: Iterable[str], known: Iterable[str]) -> str | None:
    """The first of these names that is not known, in any case; None when all are."""
    spellings = {each.lower() for each in known}
    return next((name for name in names if name.lower() not in spellings), None)


def remedy(name: str, known: Sequence[str], what: str) -> str:
    """What to do about a name that is not known: the nearest that is, or all of them; and the way around."""
    close = _nearest(name, known)
    around = f' "{ANYTHING}": {{…}} passes names to Spark as they are.' if ANYTHING in known else ""
    return f"Did you mean {close}?" if close else f"{what} are {', '.join(sorted(known))}.{around}"


def given_options(kind: str, options: Mapping[str, str]) -> dict[str, str]:
    """The options of a command line for files of this kind. `spark.NAME` passes any NAME."""
    known = reader_options(kind) or ()
    prefix = f"{ANYTHING}."
    free = {name.removeprefix(prefix): value for name, value in options.items() if name.startswith(prefix)}
    named = {spark_name(name, options): value for name, value in options.items() if not name.startswith(prefix)}
    if name := unknown(named, known):
        close = _nearest(name, known)
        raise ArgumentError(
            "source.unknown_option",
            f"Spark has no option {name} for reading {kind.upper()} files.",
            f"Did you mean {close}?" if close else f"Write {prefix}{name}=… to pass it to Spark as it is.",
        )
    return named | free


def _nearest(name: str, known: Sequence[str]) -> str | None:
    """The known name that looks most like this one, or that means what other tools call so."""
    elsewhere = {word: spark for word, spark in _ELSEWHERE.items() if spark in known}
    close = did_you_mean(name, [*known, *elsewhere])
    return elsewhere.get(close, close) if close else None


@cache
def _signatures(which: str, kind: str) -> tuple[str, ...]:
    """The parameters of PySpark's own reader or writer, read from its text: to import PySpark takes a second."""
    place = find_spec("pyspark")
    folders = place.submodule_search_locations if place else None
    if not folders:
        return ()
    tree = ast.parse((Path(folders[0]) / "sql" / "readwriter.py").read_text("utf-8"))
    methods = [
        method
        for each in tree.body
        if isinstance(each, ast.ClassDef) and each.name == which
        for method in each.body
        if isinstance(method, ast.FunctionDef) and method.name == kind and not method.decorator_list
    ]
    names = [each.arg for method in methods for each in (*method.args.args, *method.args.kwonlyargs)]
    return tuple(name for name in names if name not in _NO_OPTIONS)


def _joined(*names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for some in names for name in some))


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


def kept(rows: DataFrame) -> DataFrame:
    """The same rows, on disk beside the executors until nobody refers to the frame any more."""
    from tidemill.spark.frames import settle  # noqa: PLC0415  imports PySpark

    return settle(rows)


def spark_source(source: Source) -> SparkSource:
    params = Params(source)
    schema, path = params.text("schema"), params.text("path")
    options = params.options()
    if path:  # where nothing is there it may be a name, as Iceberg's tables have
        options["path"] = params.path(path) if Path(params.path(path)).exists() else path
    return SparkSource(source.kind, options, schema, source.columns, source.name)


@dataclass(frozen=True)
class SparkSource:
    """Reads by `spark.read.format(kind)`. Filters reach it as far as its own connector lets them."""

    kind: str
    options: Mapping[str, str]
    schema_text: str | None
    columns: tuple[str, ...]
    name: str
    settled: bool = False

    def __str__(self) -> str:
        return self.name

    def schema(self, reading: Reading) -> StructType:
        return self.read(reading).schema

    def read(self, reading: Reading, columns: Sequence[str] = ()) -> DataFrame:
        return select_columns(self._all(reading), columns or self.columns, self)

    def read_since(self, reading: Reading, column: str, value: Cursor, columns: Sequence[str] = ()) -> DataFrame:
        return select_columns(rows_since(self._all(reading), column, value, self), columns or self.columns, self)

    def version(self) -> str | None:
        return None

    def _all(self, reading: Reading) -> DataFrame:
        reader = reading.spark.read.format(self.kind).options(**self.options)
        return (reader.schema(self.schema_text) if self.schema_text else reader).load()
