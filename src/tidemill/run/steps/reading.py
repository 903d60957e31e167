"""Errors of a source while its rows are read and profiled: reported as the source's own, without its secrets."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tidemill.contracts.store import Conflict
from tidemill.declare.producers import Loaded, Query
from tidemill.engine.translate import one_line
from tidemill.errors import FileError, FilesGoneError, SourceError
from tidemill.sources.failures import failures_of
from tidemill.sources.frames import FrameSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidemill.declare.tables import Table
    from tidemill.sources.protocol import Connector


@contextmanager
def reading_of(table: Table, source: Connector) -> Iterator[None]:
    """Spark's errors within it are the source's; a declared one hides its secrets."""
    producer = table.producer
    try:
        with failures_of(producer.source) if isinstance(producer, Loaded) else nullcontext():
            yield
    except FileError as failure:
        if failure.is_of(table.path):
            raise
        if isinstance(failure, FilesGoneError) and not isinstance(source, FrameSource):  # it can be read again
            raise Conflict(failure.problem) from failure
        raise _unreadable(table, source, failure.problem, failure.remedy) from failure
    except (PySparkException, Py4JError) as failure:
        what = "query, or what it reads," if isinstance(producer, Query) else "source"
        raise _unreadable(table, source, one_line(failure), f"Fix the {what} and run again.") from failure


def _unreadable(table: Table, source: Connector, why: str, remedy: str) -> SourceError:
    return SourceError(
        "source.unreadable", f"{source} could not be read: {why}", f"{remedy} {table.name} is unchanged."
    )
