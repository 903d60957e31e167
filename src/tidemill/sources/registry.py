"""The connector for a declared source, and its failures as errors that name it and hide its secrets."""

from __future__ import annotations

import contextlib
import traceback
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, cast

from tidemill.errors import ArgumentError, ConnectorError, TidemillError, did_you_mean
from tidemill.model.query import DATABASE_KINDS
from tidemill.sources import Measured, OfFiles
from tidemill.sources.kinds import kind_named, own_kinds
from tidemill.spark import disk_full
from tidemill.spark.errors import condition_of, no_room, one_line
from tidemill.spark.jars import POSTGRES, ensure_jars
from tidemill.spark.jvm import is_embedded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidemill.errors import Origin
    from tidemill.model.cursor import Cursor
    from tidemill.model.project import Masking
    from tidemill.model.source import Source
    from tidemill.sources import Connector, Reading
    from tidemill.sources.files import FileSource

_UNKNOWN_KIND = "DATA_SOURCE_NOT_FOUND"
_ANY = "tidemill.sources.declared:spark_source"
GROUP = "tidemill.sources"  # the entry points of connectors of others


@contextlib.contextmanager
def failures_of(source: Source) -> Iterator[None]:
    """Errors that leave the block are `ConnectorError`s of this source, with its origin and without its secrets.

    Frames are lazy, so whoever computes one does it in such a block too. `ArgumentError`s stay what they are.
    """
    try:
        yield
    except Exception as failure:  # connectors may be anybody's
        error = _as_connector_error(source, failure)
        if error is failure:
            raise
        raise error from _harmless(failure, source.masking)


def _as_connector_error(source: Source, failure: Exception) -> Exception:
    masking = source.masking
    if isinstance(failure, TidemillError):
        return _hide_secrets(failure, masking, source)
    if condition_of(failure) == _UNKNOWN_KIND:
        return unknown_kind(source)
    full = None if source.kind.lower() in DATABASE_KINDS else no_room(failure)  # a server's disk is not here
    if full:
        return _hide_secrets(disk_full(f"Reading the source {source}", full), masking, source)
    return ConnectorError(
        "source.unreadable",
        f"The source {source} could not be read: {masking.mask(said(failure))}",
        "Fix it, or its declaration, and run again.",
        origin=source.origin,
    )


def said(failure: Exception) -> str:
    """Spark's errors in one line; others with their class, because `KeyError: 'id'` says more than `'id'`."""
    if hasattr(failure, "java_exception") or hasattr(failure, "getCondition"):
        return one_line(failure)
    text = " ".join(str(failure).split())
    return f"{type(failure).__name__}: {text}" if text else type(failure).__name__


def _hide_secrets(failure: TidemillError, masking: Masking, source: Source) -> TidemillError:
    problem, remedy = masking.mask(failure.problem), masking.mask(failure.remedy)
    if isinstance(failure, ConnectorError) and f"source {source}" not in problem:
        problem = f"The source {source} could not be read: {problem}"
    return with_texts(failure, problem, remedy, source.origin)


def with_texts(failure: TidemillError, problem: str, remedy: str, origin: Origin | None) -> TidemillError:
    """The same error in other words; what it came from is dropped then, because it may hold the first ones."""
    failure.origin = failure.origin or origin
    if (problem, remedy) != (failure.problem, failure.remedy):
        failure.problem, failure.remedy = problem, remedy
        failure.args = (failure.code, problem, remedy)
        failure.__cause__, failure.__suppress_context__ = None, True
    return failure


def _harmless(failure: Exception, masking: Masking) -> Exception | None:
    """The error as a cause, for logs; none when its texts hold a secret."""
    whole = "".join(traceback.format_exception(failure))
    return failure if masking.mask(whole) == whole else None


def unknown_kind(source: Source) -> ArgumentError:

    known = known_kinds()
    close = did_you_mean(source.kind, known)
    return ArgumentError(
        "source.unknown_kind",
        f"{source.kind.upper()} is no kind of source that Tidemill or Spark knows.",
        f"Did you mean {close}?" if close else f"Use one of {', '.join(known)}, or the name of a Spark data source.",
        origin=source.origin,
    )


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
    with failures_of(source):
        files = _files_of(source)
        return files.size if files else None


def columns_of(source: Source) -> tuple[str, ...] | None:
    """The names of a source's columns; None where they are not known without Spark."""
    with failures_of(source):
        files = _files_of(source)
        return files.known_columns() if files else None


def in_place(source: Source) -> FileSource | None:
    """The files of a source that Spark's catalog can hold as they are; None where its rows have to be read first."""
    with failures_of(source):
        files = _files_of(source)
        return files if files and files.place else None


def files_of(source: Source) -> FileSource | None:
    """The files of a source, wherever they are read; None for other kinds."""
    with failures_of(source):
        return _files_of(source)


def _files_of(source: Source) -> FileSource | None:
    """The connector of a source of files; None for other kinds, whose connectors are not made for it."""
    kind = kind_named(source.kind)
    of_files = kind is not None and bool(kind.endings or kind.is_table)
    return cast("FileSource", _factory(source.kind)(source)) if of_files else None


def fetch_drivers(sources: Iterable[Source]) -> None:
    """Fetches the drivers that these sources need; best called before Spark starts.

    One that a running engine gets later works too, but what a database says when a query fails is lost then.
    """
    kinds = {source.kind.lower() for source in sources}
    if kinds & {"postgres", "postgresql"} and not is_embedded():
        ensure_jars([POSTGRES])


def is_known(kind: str) -> bool:
    """Whether it is a kind of Tidemill's, of an entry point or of Spark's own, or a class; else Spark may know it."""
    return "." in kind or kind_named(kind) is not None or kind.upper() in known_kinds()


def known_kinds() -> list[str]:
    """The kinds that need no Spark data source."""
    return sorted({*map(str.upper, own_kinds()), *(point.name.upper() for point in entry_points(group=GROUP))})


def _factory(name: str) -> Callable[[Source], Connector]:
    kind = kind_named(name)
    if kind and kind.connector:
        return _load(kind.connector)
    for point in entry_points(group=GROUP):
        if point.name.lower() == name.lower():
            factory: Callable[[Source], Connector] = point.load()
            return factory
    return _load(_ANY)


def _load(place: str) -> Callable[[Source], Connector]:
    module, _, name = place.partition(":")
    factory: Callable[[Source], Connector] = getattr(import_module(module), name)
    return factory


class _Named:
    """A connector whose errors name its source."""

    def __init__(self, source: Source, connector: Connector) -> None:
        self.source, self._connector = source, connector

    def __str__(self) -> str:
        return str(self.source)

    def failures(self) -> AbstractContextManager[None]:
        """Errors that leave it name the source: frames are lazy, so whoever computes one does it in such a block."""
        return failures_of(self.source)

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

    def spans_in_order(self, files: Sequence[str], key: str) -> list[tuple[int, int, int]] | None:
        with failures_of(self.source):
            return self._connector.spans_in_order(files, key) if isinstance(self._connector, OfFiles) else None

    def bytes_read(self, start: Cursor | None) -> int | None:
        with failures_of(self.source):
            return self._connector.bytes_read(start) if isinstance(self._connector, Measured) else None
