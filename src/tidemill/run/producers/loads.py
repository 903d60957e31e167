"""Several sources of one table: each is read as if it were alone, and their rows are put together."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import types as t

from tidemill.change.applied import applied
from tidemill.change.columns import require
from tidemill.change.combined import apart, from_two_sources, in_one, met_in, newest_of_all
from tidemill.change.operation import has_rows
from tidemill.change.profile import profile
from tidemill.change.settled import settle
from tidemill.contracts.changes import Change
from tidemill.declare.loads import Load, Loads, common_cursor, strategy_of
from tidemill.declare.names import quote
from tidemill.declare.strategies import Append, Merge
from tidemill.declare.tables import SchemaPolicy
from tidemill.errors import TidemillError
from tidemill.plan.windows import plan_window
from tidemill.run.steps.prepare import Prepared, prepare
from tidemill.run.steps.reading import reading_of
from tidemill.run.steps.windows import cursor_of
from tidemill.sources.measured import bytes_of, sum_of_known
from tidemill.sources.registry import connector_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame

    from tidemill.contracts.snapshots import Snapshot
    from tidemill.declare.cursors import Cursor
    from tidemill.declare.strategies import Strategy
    from tidemill.declare.tables import Table
    from tidemill.plan.backfills import Part
    from tidemill.plan.windows import WindowPlan
    from tidemill.sources.protocol import Connector, Reading


@dataclass(frozen=True)
class LoadPart:
    """One LOAD with its connector; `table` is the table as if this LOAD were its only one."""

    load: Load
    table: Table
    source: Connector

    def __str__(self) -> str:
        return self.load.source.name

    @contextmanager
    def reading(self) -> Iterator[None]:
        """What goes wrong within it is of this source, and of the place of this LOAD."""
        try:
            with reading_of(self.table, self.source):
                yield
        except TidemillError as failure:
            failure.origin = failure.origin or self.load.origin
            raise


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
class LoadsSource:
    """All sources of a table. Its rows are what applying all LOADs to an empty table gives."""

    table: Table
    parts: tuple[LoadPart, ...]
    now: datetime

    @classmethod
    def of(cls, table: Table, loads: Loads, now: datetime) -> LoadsSource:
        return cls(table, tuple(_part(table, load) for load in loads.loads), now)

    def __str__(self) -> str:
        return f"The sources of {self.table.name}"

    @property
    def loads(self) -> Loads:
        assert isinstance(self.table.producer, Loads)  # noqa: S101  made only for such tables
        return self.table.producer

    @property
    def rounds(self) -> tuple[tuple[LoadPart, ...], ...]:
        """The LOADs that enter as one change, in the order in which these are applied."""
        by_input = {part.load.input: part for part in self.parts}
        return tuple(tuple(by_input[load.input] for load in together) for together in self.loads.rounds)

    @property
    def settled(self) -> bool:
        return False

    def version(self) -> str | None:
        """The versions of all sources; None where one of them cannot tell."""
        versions = {part.load.input: part.source.version() for part in self.parts}
        return None if None in versions.values() else json.dumps(versions, sort_keys=True)

    def bytes_read(self, start: Cursor | None) -> int | None:
        """Of all sources, which are read whole."""
        del start
        return sum_of_known(bytes_of(part.source, None) for part in self.parts)

    def schema(self, reading: Reading) -> t.StructType:
        """The columns that any of the sources has."""
        found: dict[str, t.StructField] = {}
        for part in self.parts:
            with part.reading():
                for field in part.source.schema(reading).fields:
                    found.setdefault(field.name.lower(), field)
        return t.StructType(list(found.values()))

    def read(self, reading: Reading, columns: Sequence[str] = ()) -> DataFrame:
        rows = self.whole(reading).prepared.change.rows
        return rows.select(*map(quote, columns)) if columns else rows

    def read_since(self, reading: Reading, column: str, value: Cursor, columns: Sequence[str] = ()) -> DataFrame:
        del column, value
        return self.read(reading, columns)

    def whole(self, reading: Reading, batch: Part | None = None) -> Whole:
        """All LOADs applied to an empty table, with what each source gave; `batch` is a part of a backfill."""
        held: DataFrame | None = None
        reads: list[Read] = []
        changes: list[Prepared] = []
        for together in self.rounds:
            found = _all_read(together, reading, held, self.now, batch)
            changes.append(put_together(self.table, found))
            reads += found
            held = applied(changes[-1].strategy, changes[-1].change, held, self.table.name)
        _check_order(self.table, reads)
        assert held is not None  # noqa: S101  there is a LOAD
        return Whole(_as_one(self.table, changes, held), tuple(reads))


@dataclass(frozen=True)
class Whole:
    """What applying all LOADs to an empty table gives, and what each of them read for it."""

    prepared: Prepared
    reads: tuple[Read, ...]


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


def _part(table: Table, load: Load) -> LoadPart:
    alone = table.alone(load)
    if alone.schema_policy is SchemaPolicy.SYNC_ALL_COLUMNS:  # a column leaves the table when no source has it
        alone = replace(alone, schema_policy=SchemaPolicy.APPEND_NEW_COLUMNS)
    return LoadPart(load, alone, connector_for(load.source))


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
