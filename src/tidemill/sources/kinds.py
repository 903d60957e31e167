"""The kinds of sources by the names that declarations have for them, and the options of their readers and writers.

The table formats that Spark reads at a path are kinds too, as soon as they are registered.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError, did_you_mean
from tidemill.formats import FORMATS, Capability, formats_that

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ANYTHING = "spark"  # the name under which options that nobody checks are given
_ALIASES = {"has_header": "header"}
_ELSEWHERE = {"separator": "sep", "quotechar": "quote", "escapechar": "escape", "na_values": "nullValue"}
_NO_OPTIONS = frozenset({"self", "path", "paths", "schema", "partitionBy"})
_FILES = "tidemill.sources.declared:file_source"
_DATABASES = "tidemill.sources.jdbc:jdbc_source"
_HTTP = "tidemill.sources.http.rest:rest_source"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of source: the `connector` that reads it, as module:function; without one it is Spark's own reader.

    Files of it end in `endings`, and Spark has the reader `reader` for them, which has the name of the kind unless
    another is given. Columns of text are separated by `separator`, unless options say otherwise. `is_columnar` files
    have types of their own. What the columns are is known without Spark where files have headers or footers. A kind
    that `is_table` has a log of its own. `reads` and `writes` are options that Spark documents, or has as another
    spelling, beside the signatures of PySpark; None where nobody knows them.
    """

    connector: str = ""
    endings: tuple[str, ...] = ()
    reader: str = ""
    separator: str | None = None
    is_columnar: bool = False
    has_footers: bool = False
    has_header: bool = False
    is_table: bool = False
    reads: tuple[str, ...] | None = None
    writes: tuple[str, ...] | None = None


OF_FILES = (
    "pathGlobFilter",
    "recursiveFileLookup",
    "modifiedBefore",
    "modifiedAfter",
    "ignoreCorruptFiles",
    "ignoreMissingFiles",
    "basePath",
)
_TIMES = ("timeZone", "timestampNTZFormat", "enableDateTimeParsingFallback")
_WRITTEN = ("maxRecordsPerFile", "codec")
_CSV = (*OF_FILES, *_TIMES, "delimiter", "charset", "preferDate", "inputBufferSize", "columnPruning")
_JDBC = (
    *("driver", "partitionColumn", "lowerBound", "upperBound", "numPartitions", "queryTimeout", "fetchsize"),
    *("isolationLevel", "sessionInitStatement", "customSchema", "prepareQuery", "preferTimestampNTZ", "hint"),
    *("pushDownPredicate", "pushDownAggregate", "pushDownLimit", "pushDownOffset", "pushDownTableSample"),
    *("pushDownJoin", "keytab", "principal", "refreshKrb5Config", "connectionProvider"),
)
_KINDS = {
    "parquet": Kind(
        _FILES,
        (".parquet",),
        is_columnar=True,
        has_footers=True,
        reads=(*OF_FILES, "mergeSchema", "datetimeRebaseMode", "int96RebaseMode"),
        writes=_WRITTEN,
    ),
    "csv": Kind(
        _FILES,
        (".csv",),
        has_header=True,
        reads=_CSV,
        writes=(*_WRITTEN, "delimiter", "charset", "timeZone", "timestampNTZFormat"),
    ),
    "tsv": Kind(_FILES, (".tsv",), reader="csv", separator="\t", has_header=True, reads=_CSV),
    "json": Kind(
        _FILES,
        (".json", ".jsonl", ".ndjson"),
        reads=(*OF_FILES, *_TIMES, "charset", "inferTimestamp", "allowNumericLeadingZeros", "singleVariantColumn"),
        writes=(
            *(*_WRITTEN, "charset", "timeZone", "timestampNTZFormat"),
            *("pretty", "writeNonAsciiCharacterAsCodePoint"),
        ),
    ),
    "orc": Kind(_FILES, (".orc",), is_columnar=True, reads=OF_FILES, writes=_WRITTEN),
    "jdbc": Kind(
        _DATABASES,
        reads=_JDBC,
        writes=(
            *("driver", "numPartitions", "queryTimeout", "batchsize", "isolationLevel", "sessionInitStatement"),
            *("createTableOptions", "createTableColumnTypes", "tableComment"),
            *("keytab", "principal", "refreshKrb5Config", "connectionProvider"),
        ),
    ),
    "postgres": Kind(_DATABASES, reads=_JDBC),
    "postgresql": Kind(_DATABASES, reads=_JDBC),
    "rest": Kind(_HTTP),
    "http": Kind(_HTTP),
    "python": Kind("tidemill.sources.functions:function_source"),
}
ENDINGS = {ending: name for name, kind in _KINDS.items() for ending in kind.endings}  # of files, and their kinds
# What Spark reads by itself.
_OF_SPARK = {
    **dict.fromkeys(("avro", "binaryFile", "iceberg", "image", "kafka", "libsvm", "rate"), Kind()),
    "text": Kind(reads=OF_FILES),
    "xml": Kind(reads=(*OF_FILES, *_TIMES, "charset")),
}


def kind_named(name: str) -> Kind | None:
    """The kind of this name in any case; None where neither Tidemill nor Spark has it by itself."""
    return own_kinds().get(name.lower()) or next(
        (k for each, k in _OF_SPARK.items() if each.lower() == name.lower()), None
    )


def own_kinds() -> dict[str, Kind]:
    """The kinds that need no Spark data source, by their names."""
    tables = {
        name: Kind(_FILES, is_columnar=True, is_table=True, reads=FORMATS[name].spark.reader_options)
        for name in formats_that(Capability.READ_BY_PATH)
    }
    return {**_KINDS, **tables}


def is_of_files(name: str) -> bool:
    """Whether a source of this kind is read file by file, each from its first row to its last."""
    kind = kind_named(name)
    return kind is not None and bool(kind.endings)


def tables_by_path() -> str:
    """What a table that is read at its path is called: a Delta table."""
    return " or ".join(FORMATS[name].noun for name in formats_that(Capability.READ_BY_PATH))


def reader_options(kind: str) -> tuple[str, ...] | None:
    """The options for reading this kind; None where they are not known, as of a data source of somebody else's."""
    known = kind_named(kind)
    if known is None or known.reads is None:
        return None
    if known.connector == _DATABASES:
        return known.reads
    return _joined(_signatures("DataFrameReader", known.reader or kind.lower()), known.reads)


def writer_options(kind: str) -> tuple[str, ...]:
    """The options for writing this kind of files, or by JDBC."""
    known = _KINDS[kind.lower()]
    found = [name for name in _signatures("DataFrameWriter", kind.lower()) if name != "mode"]
    return _joined([] if known.connector == _DATABASES else found, known.writes or ())


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
