"""The rows of several LOADs: each source read as if it were alone, then put together where keys meet.

Stored rows do not say where they came from: the keys in doubt, and only these, are looked up in the sources.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import TYPE_CHECKING, cast

from pyspark.sql.types import StructType

from tidemill.changes import align, require
from tidemill.changes.apply import apart, applied, from_two_sources, in_one, met_in, newest_of_all, not_as_stored
from tidemill.changes.compare import held_twice
from tidemill.changes.compile import has_rows
from tidemill.changes.profile import profile
from tidemill.errors import TidemillError
from tidemill.execution.prepare import Prepared, prepare
from tidemill.execution.step import cursor_of, reading_of
from tidemill.formats.base import Change
from tidemill.model import quote
from tidemill.model.project import NOTHING_GIVEN
from tidemill.model.source import Loads, common_cursor, strategy_of
from tidemill.model.strategy import Append, Merge
from tidemill.model.table import SchemaPolicy
from tidemill.planning.notices import Facts, table_window
from tidemill.spark.session import settle

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame
    from pyspark.sql import types as t

    from tidemill.execution.producers import LoadPart, LoadsSource
    from tidemill.model.cursor import Cursor
    from tidemill.model.record import Snapshot
    from tidemill.model.strategy import Strategy
    from tidemill.model.table import Table
    from tidemill.planning import Part
    from tidemill.planning.windows import WindowPlan
    from tidemill.sources import Reading


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
class AppliedLoads:
    """What applying all LOADs to an empty table gives, and what each of them read for it."""

    prepared: Prepared
    reads: tuple[Read, ...]


@dataclass(frozen=True)
class LoadRows:
    """All sources of a table, as they are now."""

    source: LoadsSource
    reading: Reading

    def schema(self) -> t.StructType:
        """The columns that any of the sources has."""
        found: dict[str, t.StructField] = {}
        for part in self.source.parts:
            with reading_part(part):
                for field in part.source.schema(self.reading).fields:
                    found.setdefault(field.name.lower(), field)
        return StructType(list(found.values()))

    def whole(self, batch: Part | None = None) -> AppliedLoads:
        """All LOADs applied to an empty table, with what each source gave; `batch` is a part of a backfill."""
        source, held = self.source, None
        reads: list[Read] = []
        changes: list[Prepared] = []
        for together in source.rounds:
            found = _all_read(together, self.reading, held, source.now, batch)
            changes.append(put_together(source.table, found))
            reads += found
            held = applied(changes[-1].strategy, changes[-1].change, held, source.table.name)
        _check_order(source.table, reads)
        assert held is not None  # noqa: S101  there is a LOAD
        return AppliedLoads(_as_one(source.table, changes, held), tuple(reads))


@contextmanager
def reading_part(part: LoadPart) -> Iterator[None]:
    """What goes wrong within it is of this source, and of the place of this LOAD."""
    try:
        with reading_of(part.table, part.source):
            yield
    except TidemillError as failure:
        failure.origin = failure.origin or part.load.origin
        raise


def whole_read(
    part: LoadPart, reading: Reading, held: DataFrame | None, now: datetime, batch: Part | None = None
) -> Read:
    """All rows of a source, as a first run reads them, in the columns of these rows where there are any."""
    with reading_part(part):
        rows = part.source.read(reading if reading.like or held is None else replace(reading, like=held.schema))
        window = _first_window(part.table, rows.schema, now, batch)
    return ready(part, rows, window, held, None)


def ready(
    part: LoadPart, rows: DataFrame, window: WindowPlan | None, held: DataFrame | None, snapshot: Snapshot | None
) -> Read:
    """The rows of one source as a change, checked as if it were the only one."""
    with reading_part(part):
        columns = held.schema if held is not None else None
        prepared = prepare(part.table, rows, window, columns, snapshot, settled=part.source.settled)
        return Read(part, prepared, window, prepared.change.profile.highest)


def put_together(table: Table, reads: Sequence[Read]) -> Prepared:
    """The rows of a round as one change. Where MERGEs meet in a key, the highest cursor wins, then the later LOAD."""
    if len(reads) == 1:
        return reads[0].prepared
    strategy = _spelled(strategy_of(tuple(read.part.load for read in reads)), reads)
    volatile, frames = reads[0].prepared.change.volatile, [read.rows for read in reads]
    keys = strategy.keys
    if keys:
        cursor = common_cursor(tuple(read.part.load for read in reads))
        rows = newest_of_all(frames, keys, cursor) if cursor else apart(frames, volatile)
    else:
        cursor, rows = common_cursor(tuple(read.part.load for read in reads)), in_one(frames)
    change = profiled(settle(rows), strategy, cursor, volatile)
    if keys and change.profile.rows > change.profile.keys:
        raise from_two_sources(change.rows, keys, table.name, [str(read.part) for read in reads])
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
    return table_window(table, None, NOTHING_GIVEN, now, batch, Facts(kind, schema.names)).window


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
    """Settled rows of several sources as a change."""
    keys = strategy.keys
    time = require([cursor], rows.columns, "The time column", "the sources")[0] if cursor else None
    return Change(rows, profile(rows, keys=keys, time_column=time), volatile, time, kept=True)


@singledispatch
def _spelled(strategy: Strategy, reads: Sequence[Read]) -> Strategy:  # noqa: ARG001  dispatched on
    """The strategy of the round with its columns as the rows spell them."""
    return strategy


@_spelled.register(Merge)
def _(strategy: Merge, reads: Sequence[Read]) -> Strategy:
    first = cast("Merge", reads[0].prepared.strategy)  # all LOADs of a round have the same
    return replace(strategy, keys=first.keys, only_newer=first.only_newer)


def _check_order(table: Table, reads: Sequence[Read]) -> None:
    """All APPENDs are applied before the MERGEs: that must not show in a key of a MERGE that stands before one."""
    if not isinstance(table.producer, Loads) or table.producer.recomputed:
        return
    order = [load.input for load in table.producer.loads]
    for merge, append in ((m, a) for m in reads for a in reads if is_before(m.part, a.part, order)):
        keys = merge.prepared.strategy.keys
        names = [quote(key) for key in keys]
        both = merge.rows.select(*names).join(append.rows.select(*names), [*keys], "left_semi").distinct()
        if has_rows(both):
            raise met_in(both, keys, table.name, [str(merge.part), str(append.part)])


def is_before(merge: LoadPart, append: LoadPart, order: Sequence[str]) -> bool:
    """Whether this is a MERGE that stands before this APPEND."""
    kinds = merge.load.strategy.keys and append.load.strategy.appends
    return bool(kinds) and order.index(merge.load.input) < order.index(append.load.input)


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


@dataclass(frozen=True)
class MeetingLoads:
    """The LOADs of a table that holds these rows."""

    sources: LoadsSource
    reading: Reading
    held: DataFrame

    def without_overridden(self, read: Read) -> Read:
        """An APPEND without rows that a MERGE behind it has put another in the place of.

        A row of an APPEND whose key comes from a MERGE before it is an error.
        """
        merges = [part for part in self.sources.parts if part.load.strategy.keys]
        if not read.part.load.strategy.appends or not merges:
            return read
        change, keys = read.prepared.change, self._keys(merges[0])
        suspects = not_as_stored(change.rows, self.held, keys, change.volatile)
        if not has_rows(suspects):
            return read
        rows = change.rows
        for merge in merges:
            met = self._keys_of(merge, keys).join(suspects, [*keys], "left_semi").distinct()
            if is_before(merge, read.part, self._order) and has_rows(met):
                raise met_in(met, keys, self.sources.table.name, [str(merge), str(read.part)])
            rows = rows.join(met, [*keys], "left_anti")
        left = settle(rows.select(*map(quote, change.rows.columns)))
        again = profiled(left, read.part.load.strategy, change.time_column, change.volatile)
        return replace(read, prepared=replace(read.prepared, change=again))

    def check(self, prepared: Prepared, parts: Sequence[LoadPart]) -> None:
        """Raises where a stored row of another source would be replaced, and nothing says which of them counts."""
        keys, change = prepared.strategy.keys, prepared.change
        if not keys or not self._may_meet(parts):
            return
        suspects = settle(not_as_stored(change.rows, self.held, keys, change.volatile))
        if not has_rows(suspects):
            return
        self._check_merges(parts, keys, suspects, change.volatile)
        for merge, append in self._ordered(parts):
            met = self._keys_of(merge, keys).join(suspects, [*keys], "left_semi").distinct()
            met = met.join(self._keys_of(append, keys), [*keys], "left_semi")
            if has_rows(met):
                raise met_in(met, keys, self.sources.table.name, [str(merge), str(append)])

    def _check_merges(
        self, parts: Sequence[LoadPart], keys: Sequence[str], suspects: DataFrame, volatile: frozenset[str]
    ) -> None:
        """All sources are asked for these keys, whatever their windows: what was read before must not decide."""
        if len(parts) == 1 or common_cursor(tuple(part.load for part in parts)):
            return
        frames = [whole_read(part, self.reading, self.held, self.sources.now).rows for part in parts]
        rows = settle(apart([frame.join(suspects, [*keys], "left_semi") for frame in frames], volatile))
        if has_rows(held_twice(rows, keys)):
            raise from_two_sources(rows, keys, self.sources.table.name, [str(part) for part in parts])

    def _may_meet(self, parts: Sequence[LoadPart]) -> bool:
        several = len(parts) > 1 and not common_cursor(tuple(part.load for part in parts))
        return several or any(True for _ in self._ordered(parts))

    def _ordered(self, parts: Sequence[LoadPart]) -> Iterator[tuple[LoadPart, LoadPart]]:
        """Each MERGE of these with each APPEND behind it."""
        return ((m, a) for m in parts for a in self.sources.parts if is_before(m, a, self._order))

    @property
    def _order(self) -> list[str]:
        return [part.load.input for part in self.sources.parts]

    def _keys(self, merge: LoadPart) -> tuple[str, ...]:
        return require(merge.load.strategy.keys, self.held.columns, "The key column", self.sources.table.name)

    def _keys_of(self, part: LoadPart, keys: Sequence[str]) -> DataFrame:
        """All keys that a source has, in the types of the table."""
        with reading_part(part):
            rows = part.source.read(self.reading)
            spelled = require(keys, rows.columns, "The key column", str(part))
            like = StructType([self.held.schema[key] for key in keys])
            return align(rows.select(*map(quote, spelled)), like, SchemaPolicy.FAIL, self.sources.table.name)[0]
