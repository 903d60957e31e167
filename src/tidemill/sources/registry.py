"""The connector for a declared source: Tidemill's own kinds, those of entry points, then any Spark data source."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from tidemill.engine.jars import POSTGRES, ensure_jars
from tidemill.engine.session import is_embedded
from tidemill.errors import did_you_mean
from tidemill.sources.failures import failures_of, unknown_kind
from tidemill.sources.protocol import Measured, OfFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidemill.declare.cursors import Cursor
    from tidemill.declare.sources import Source
    from tidemill.sources.files.source import FileSource
    from tidemill.sources.protocol import Connector, Reading

GROUP = "tidemill.sources"
_FILES = "tidemill.sources.files.source:file_source"
_DATABASES = "tidemill.sources.jdbc:jdbc_source"
_HTTP = "tidemill.sources.http.rest:rest_source"
_OWN = {
    "csv": _FILES,
    "tsv": _FILES,
    "json": _FILES,
    "parquet": _FILES,
    "orc": _FILES,
    "delta": _FILES,
    "postgres": _DATABASES,
    "postgresql": _DATABASES,
    "jdbc": _DATABASES,
    "rest": _HTTP,
    "http": _HTTP,
    "python": "tidemill.sources.functions:function_source",
}
_ANY = "tidemill.sources.formats:spark_source"
_OF_SPARK = ("avro", "binaryFile", "iceberg", "image", "kafka", "libsvm", "rate", "text", "xml")


def connector_for(source: Source) -> Connector:
    """The connector for this source, by its kind in any case. Starts no Spark; wrong params are an error here.

    Whatever it raises later is a `ConnectorError` that names the source and shows none of its secrets.
    """
    with failures_of(source):
        if not is_known(source.kind) and did_you_mean(source.kind, known_kinds()):
            raise unknown_kind(source)
        return _Named(source, _factory(source.kind)(source))


def size_of(source: Source) -> int | None:
    """How many bytes a source of files has; None for other kinds, which do not tell."""
    if _OWN.get(source.kind.lower()) != _FILES:
        return None
    from tidemill.sources.files.source import file_source  # noqa: PLC0415  with pyarrow

    with failures_of(source):
        return file_source(source).size


def columns_of(source: Source) -> tuple[str, ...] | None:
    """The names of a source's columns; None where they are not known without Spark."""
    if _OWN.get(source.kind.lower()) != _FILES:
        return None
    from tidemill.sources.files.known import known_columns  # noqa: PLC0415  with pyarrow
    from tidemill.sources.files.source import file_source  # noqa: PLC0415

    with failures_of(source):
        return known_columns(file_source(source))


def in_place(source: Source) -> FileSource | None:
    """The files of a source that Spark's catalog can hold as they are; None where its rows have to be read first."""
    if _OWN.get(source.kind.lower()) != _FILES:
        return None
    from tidemill.sources.files.source import file_source  # noqa: PLC0415  with pyarrow

    with failures_of(source):
        files = file_source(source)
        return files if files.place else None


def fetch_drivers(sources: Iterable[Source]) -> None:
    """Fetches the drivers that these sources need; best called before Spark starts.

    One that a running engine gets later works too, but what a database says when a query fails is lost then.
    """
    kinds = {source.kind.lower() for source in sources}
    if kinds & {"postgres", "postgresql"} and not is_embedded():
        ensure_jars([POSTGRES])


def is_known(kind: str) -> bool:
    """Whether it is a kind of Tidemill's, of an entry point or of Spark's own, or a class; else Spark may know it."""
    return "." in kind or kind.upper() in {*known_kinds(), *map(str.upper, _OF_SPARK)}


def known_kinds() -> list[str]:
    """The kinds that need no Spark data source."""
    return sorted({*(name.upper() for name in _OWN), *(point.name.upper() for point in entry_points(group=GROUP))})


def _factory(kind: str) -> Callable[[Source], Connector]:
    name = kind.lower()
    if name in _OWN:
        return _loaded(_OWN[name])
    for point in entry_points(group=GROUP):
        if point.name.lower() == name:
            factory: Callable[[Source], Connector] = point.load()
            return factory
    return _loaded(_ANY)


def _loaded(place: str) -> Callable[[Source], Connector]:
    module, _, name = place.partition(":")
    factory: Callable[[Source], Connector] = getattr(import_module(module), name)
    return factory


class _Named:
    """A connector whose errors name its source."""

    def __init__(self, source: Source, connector: Connector) -> None:
        self.source, self._connector = source, connector

    def __str__(self) -> str:
        return str(self.source)

    def schema(self, reading: Reading) -> StructType:
        with failures_of(self.source):
            return self._connector.schema(reading)

    def read(self, reading: Reading, columns: Sequence[str] = ()) -> DataFrame:
        with failures_of(self.source):
            return self._connector.read(reading, columns)

    def read_since(self, reading: Reading, column: str, value: Cursor, columns: Sequence[str] = ()) -> DataFrame:
        with failures_of(self.source):
            return self._connector.read_since(reading, column, value, columns)

    def version(self) -> str | None:
        with failures_of(self.source):
            return self._connector.version()

    @property
    def settled(self) -> bool:
        with failures_of(self.source):
            return self._connector.settled

    @property
    def is_plain(self) -> bool:
        with failures_of(self.source):
            return isinstance(self._connector, OfFiles) and self._connector.is_plain

    def bytes_read(self, start: Cursor | None) -> int | None:
        with failures_of(self.source):
            return self._connector.bytes_read(start) if isinstance(self._connector, Measured) else None
