"""The window of a table's next run, asked of its log and, where that does not tell, of its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from tidemill.change.columns import require
from tidemill.change.cursors import exact, highest, time_kind
from tidemill.declare.names import quote
from tidemill.declare.variables import NOTHING_GIVEN
from tidemill.plan.windows import WindowPlan, plan_window
from tidemill.run.producers.join import JoinSource

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from tidemill.contracts.snapshots import Snapshot
    from tidemill.declare.cursors import Cursor, CursorKind
    from tidemill.declare.tables import Table
    from tidemill.plan.backfills import Part
    from tidemill.sources.protocol import Connector
    from tidemill.stores.opened import AnyStore


def window_of(
    spark: SparkSession,
    store: AnyStore,
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
