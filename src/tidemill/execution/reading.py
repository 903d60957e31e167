"""The window of a table's next run, and errors of a source while the rows of that window are read."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from tidemill.changes.columns import require
from tidemill.changes.profile import exact, highest, time_kind
from tidemill.errors import FileError, FilesGoneError, SourceError
from tidemill.execution.joins import JoinSource
from tidemill.formats.base import Conflict
from tidemill.model.names import quote
from tidemill.model.query import Loaded, Query
from tidemill.model.variables import NOTHING_GIVEN
from tidemill.planning.windows import WindowPlan, plan_window
from tidemill.sources.frames import FrameSource
from tidemill.sources.registry import failures_of
from tidemill.spark.errors import one_line
from tidemill.spark.failures import SPARK_FAILURES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from tidemill.formats.port import Store
    from tidemill.model.cursor import Cursor, CursorKind
    from tidemill.model.record import Snapshot
    from tidemill.model.table import Table
    from tidemill.planning.request import Part
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
    except SPARK_FAILURES as failure:
        what = "query, or what it reads," if isinstance(producer, Query) else "source"
        raise _unreadable(table, source, one_line(failure), f"Fix the {what} and run again.") from failure


def _unreadable(table: Table, source: Connector, why: str, remedy: str) -> SourceError:
    return SourceError(
        "source.unreadable", f"{source} could not be read: {why}", f"{remedy} {table.name} is unchanged."
    )


def window_of(
    spark: SparkSession,
    store: Store,
    table: Table,
    schema: StructType,
    snapshot: Snapshot | None,
    now: datetime,
    part: Part | None = None,
    variables: Mapping[str, str] = NOTHING_GIVEN,
    source: Connector | None = None,
) -> WindowPlan | None:
    """What the next run reads of a source with this schema, or one batch of a backfill does.

    Without a snapshot it is a first run. `variables` are those that the run is given.
    """
    if table.window is None:
        return None
    name = table.name
    column, kind = cursor_of(table, schema)

    def held_highest(version: int) -> Cursor | None:
        """The highest time that a version holds, by a query: file statistics still know deleted rows."""
        assert snapshot is not None  # noqa: S101  asked only of a table that is there
        held = store.read(spark, None if version == snapshot.version else version)
        spelling = require([column], held.columns, "The time column", name)[0]
        held_kind = time_kind(spelling, held.schema[spelling].dataType, name)
        found = held.agg(exact(F.max(quote(spelling)), held_kind).alias("highest")).first()
        return highest(found["highest"] if found else None, held_kind)

    if isinstance(source, JoinSource):
        return source.window(spark, snapshot, held_highest, part, variables)
    return plan_window(table, kind, schema.names, snapshot, held_highest, now, part, variables)


def cursor_of(table: Table, schema: StructType) -> tuple[str, CursorKind]:
    """The time column of a table's window as its source spells it, and its kind."""
    assert table.window is not None  # noqa: S101  asked only for tables that have one
    column = require([table.window.time_column], schema.names, "The time column", f"the source of {table.name}")[0]
    return column, time_kind(column, schema[column].dataType, table.name)
