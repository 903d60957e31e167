"""The options that Spark's readers and writers know, by kind. Spark ignores any other name, and so hides typos."""

from __future__ import annotations

import ast
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

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
