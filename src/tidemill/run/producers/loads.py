"""Several sources of one table: each is read as if it were alone, and their rows are put together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidemill.change.applied import applied
from tidemill.change.columns import require
from tidemill.change.combined import apart, from_two_sources, in_one, met_in, newest_of_all
from tidemill.change.operation import has_rows
from tidemill.change.profile import profile
from tidemill.change.settled import settle
from tidemill.contracts.changes import Change
from tidemill.declare.loads import Loads, common_cursor, strategy_of
from tidemill.declare.names import quote
from tidemill.declare.strategies import Append, Merge
from tidemill.plan.windows import plan_window
from tidemill.run.steps.prepare import Prepared, prepare
from tidemill.run.steps.windows import cursor_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame
    from pyspark.sql import types as t

    from tidemill.contracts.snapshots import Snapshot
    from tidemill.declare.cursors import Cursor
    from tidemill.declare.strategies import Strategy
    from tidemill.declare.tables import Table
    from tidemill.plan.backfills import Part
    from tidemill.plan.windows import WindowPlan
    from tidemill.run.producers.several import LoadPart, LoadsSource
    from tidemill.sources.protocol import Reading


@dataclass(frozen=True)
class Read:
    """The rows of one source, ready to enter the table, the window in which it was read, and its highest time."""

    part: LoadPart
    prepared: Prepared
    window: WindowPlan | None
    highest: Cursor | None = None

    @property
    def rows(self) -> DataFrame:
        return self.prepared.change.rows


@dataclass(frozen=True)
class Whole:
    """What applying all LOADs to an empty table gives, and what each of them read for it."""

    prepared: Prepared
    reads: tuple[Read, ...]


def whole_of(source: LoadsSource, reading: Reading, batch: Part | None = None) -> Whole:
    """All LOADs applied to an empty table, with what each source gave; `batch` is a part of a backfill."""
    held: DataFrame | None = None
    reads: list[Read] = []
    changes: list[Prepared] = []
    for together in source.rounds:
        found = _all_read(together, reading, held, source.now, batch)
        changes.append(put_together(source.table, found))
        reads += found
        held = applied(changes[-1].strategy, changes[-1].change, held, source.table.name)
    _check_order(source.table, reads)
    assert held is not None  # noqa: S101  there is a LOAD
    return Whole(_as_one(source.table, changes, held), tuple(reads))


def whole_read(
    part: LoadPart, reading: Reading, held: DataFrame | None, now: datetime, batch: Part | None = None
) -> Read:
    """All rows of a source, as a first run reads them, in the columns of these rows where there are any."""
    with part.reading():
        rows = part.source.read(reading if reading.like or held is None else replace(reading, like=held.schema))
        window = _first_window(part.table, rows.schema, now, batch)
    return ready(part, rows, window, held, None)


def ready(
    part: LoadPart, rows: DataFrame, window: WindowPlan | None, held: DataFrame | None, snapshot: Snapshot | None
) -> Read:
    """The rows of one source as a change, checked as if it were the only one."""
    with part.reading():
        columns = held.schema if held is not None else None
        prepared = prepare(part.table, rows, window, columns, snapshot, settled=part.source.settled)
        return Read(part, prepared, window, prepared.change.profile.highest)


def put_together(table: Table, reads: Sequence[Read]) -> Prepared:
    """The rows of a round as one change. Where MERGEs meet in a key, the highest cursor wins, then the later LOAD."""
    if len(reads) == 1:
        return reads[0].prepared
    strategy = _spelled(strategy_of(tuple(read.part.load for read in reads)), reads)
    volatile, frames = reads[0].prepared.change.volatile, [read.rows for read in reads]
    if isinstance(strategy, Merge):
        cursor = common_cursor(tuple(read.part.load for read in reads))
        rows = newest_of_all(frames, strategy.keys, cursor) if cursor else apart(frames, volatile)
    else:
        cursor, rows = common_cursor(tuple(read.part.load for read in reads)), in_one(frames)
    change = profiled(settle(rows), strategy, cursor, volatile)
    if isinstance(strategy, Merge) and change.profile.rows > change.profile.keys:
        raise from_two_sources(change.rows, strategy.keys, table.name, [str(read.part) for read in reads])
    return Prepared(
        change, strategy, _rows_read(reads), _columns(reads), _notices(reads, change, newest=cursor is not None)
    )


def _all_read(
    together: Sequence[LoadPart], reading: Reading, held: DataFrame | None, now: datetime, batch: Part | None
) -> list[Read]:
    """The sources of a round, each in the columns of the table so far, or of those before it."""
    found: list[Read] = []
    for part in together:
        like = held if held is not None else in_one([read.rows for read in found]) if found else None
        found.append(whole_read(part, reading, like, now, batch))
    return found


def _first_window(table: Table, schema: t.StructType, now: datetime, batch: Part | None) -> WindowPlan | None:
    if table.window is None:
        return None
    _, kind = cursor_of(table, schema)
    return plan_window(table, kind, schema.names, None, lambda _: None, now, batch)


def _as_one(table: Table, changes: Sequence[Prepared], rows: DataFrame) -> Prepared:
    """The result of all rounds as one change, for a table that takes it whole."""
    if len(changes) == 1:
        return changes[0]
    last = changes[-1]
    column = table.window.time_column if table.window else None
    change = profiled(settle(rows), Append(), column, last.change.volatile)
    columns = dict.fromkeys(name for each in changes for name in each.columns)
    notices = tuple(notice for each in changes for notice in each.notices)
    return Prepared(change, last.strategy, sum(each.rows_read for each in changes), [*columns], notices)


def profiled(rows: DataFrame, strategy: Strategy, cursor: str | None, volatile: frozenset[str]) -> Change:
    """Rows of several sources as a change."""
    keys = strategy.keys if isinstance(strategy, Merge) else ()
    time = require([cursor], rows.columns, "The time column", "the sources")[0] if cursor else None
    return Change(rows, profile(rows, keys=keys, time_column=time), volatile, time)


def _spelled(strategy: Strategy, reads: Sequence[Read]) -> Strategy:
    """The strategy of the round with its columns as the rows spell them."""
    first = reads[0].prepared.strategy
    if not isinstance(strategy, Merge) or not isinstance(first, Merge):
        return strategy
    return replace(strategy, keys=first.keys, only_newer=first.only_newer)


def _check_order(table: Table, reads: Sequence[Read]) -> None:
    """All APPENDs are applied before the MERGEs: that must not show in a key of a MERGE that stands before one."""
    if not isinstance(table.producer, Loads) or table.producer.recomputed:
        return
    order = [load.input for load in table.producer.loads]
    for merge, append in ((m, a) for m in reads for a in reads if is_before(m.part, a.part, order)):
        keys = merge.prepared.strategy.keys if isinstance(merge.prepared.strategy, Merge) else ()
        names = [quote(key) for key in keys]
        both = merge.rows.select(*names).join(append.rows.select(*names), [*keys], "left_semi").distinct()
        if has_rows(both):
            raise met_in(both, keys, table.name, [str(merge.part), str(append.part)])


def is_before(merge: LoadPart, append: LoadPart, order: Sequence[str]) -> bool:
    """Whether this is a MERGE that stands before this APPEND."""
    kinds = isinstance(merge.load.strategy, Merge) and isinstance(append.load.strategy, Append)
    return kinds and order.index(merge.load.input) < order.index(append.load.input)


def _rows_read(reads: Sequence[Read]) -> int:
    return sum(read.prepared.rows_read for read in reads)


def _columns(reads: Sequence[Read]) -> list[str]:
    found: dict[str, str] = {}
    for name in (name for read in reads for name in read.prepared.columns):
        found.setdefault(name.lower(), name)
    return list(found.values())


def _notices(reads: Sequence[Read], change: Change, *, newest: bool) -> tuple[str, ...]:
    own = tuple(f"{read.part}: {notice}" for read in reads for notice in read.prepared.notices)
    passed = sum(read.prepared.change.profile.rows for read in reads) - change.profile.rows
    count = f"{passed:,} row{'' if passed == 1 else 's'}"
    why = "another source has a newer row of the same key" if newest else "another source has the same row"
    return (*own, *([f"{count} skipped: {why}"] if passed else ()))
