"""An incremental join as the source of a table: its windows, what they have met, and what still waits."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from tidemill.formats.base import KeyRange
from tidemill.model.join import Span, at_tick, scope_of, tick_of, waits_of
from tidemill.planning.joins import (
    JoinFacts,
    SideState,
    big_window,
    join_facts_by_log,
    joined_up_to,
    side_by_log,
    side_by_progress,
)
from tidemill.sources import sum_of_known

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from tidemill.execution.catalog import Catalog
    from tidemill.execution.join_rows import JoinRows
    from tidemill.model.cursor import Cursor, CursorKind
    from tidemill.model.join import Join, JoinSide
    from tidemill.model.record import Snapshot
    from tidemill.model.table import Table
    from tidemill.planning.windows import WindowPlan
    from tidemill.sources import Reading

_NOWHERE, _ALL = Span(0, 0), Span(-(2**62), 2**62)


@dataclass(frozen=True, slots=True)
class Tally:
    """What a window has met: pairs, those among them of which one side came later, and rows that were alone.

    `waiting` rows have no partner at its end and are not outdated yet; `oldest` is the time of the first of them.
    """

    matched: int = 0
    late: int = 0
    outdated: int = 0
    waiting: int = 0
    oldest: str | None = None

    def to_json(self) -> dict[str, int | str]:
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass
class JoinSource:
    """The rows of a join over tables of the catalog. `tally` and `scope` are of the window that was read last.

    `given` are literals for the @names of its condition and its columns.
    """

    table: Table
    join: Join
    catalog: Catalog
    given: Mapping[str, str] = field(default_factory=dict)
    tally: Tally | None = None
    scope: Mapping[JoinSide, KeyRange] | None = None

    def __str__(self) -> str:
        return f"the join of {self.table.name}"

    @property
    def settled(self) -> bool:
        return True

    def schema(self, reading: Reading) -> StructType:
        return self.rows(reading.spark).window(_NOWHERE).schema

    def read(self, reading: Reading, columns: Sequence[str] = ()) -> DataFrame:
        """The rows of all windows that there can be, lazily."""
        rows = self.rows(reading.spark).window(_ALL)
        return rows.select(*columns) if columns else rows

    def read_since(self, reading: Reading, column: str, value: Cursor, columns: Sequence[str] = ()) -> DataFrame:
        """The rows of the window from `value` up to where reading ends. They are counted on the way."""
        del column
        end = tick_of(reading.until) if reading.until else _ALL.end
        both, span = self.rows(reading.spark), Span(tick_of(value), end)
        self.scope = _scope(both.join, span, both.kind)
        rows, self.tally = both.counted(span)
        return rows.select(*columns) if columns else rows

    def version(self) -> str | None:
        """Those of both sides, and how far a run may go; None where one is not ours to know, or a variable decides."""
        if any(self.join.variables()):
            return None
        versions = {name: self.catalog.version(name) for name in (self.join.a.table, self.join.b.table)}
        if None in versions.values():
            return None
        return json.dumps({**versions, "up to": self.join.up_to}, sort_keys=True)

    def bytes_read(self, start: Cursor | None) -> int | None:
        """The size of the files that may hold rows of the last window, by the statistics in the logs of both sides."""
        del start
        if self.scope is None:
            return None
        return sum_of_known(self.catalog.size(side.table, [times]) for side, times in self.scope.items())

    def rows(self, spark: SparkSession) -> JoinRows:
        """Both sides as they are now, in Spark."""
        from tidemill.execution.join_rows import JoinRows  # noqa: PLC0415  plans look at versions without Spark

        return JoinRows.of(self.join.filled(self.given), self.table.name, self.catalog, spark)

    def all_windows(self, spark: SparkSession, snapshot: Snapshot) -> WindowPlan:
        """What the table has joined so far, as one window."""
        rows = self.rows(spark)
        return big_window(self.table, rows.kind, self._facts(rows, snapshot, lambda _: None))

    def facts(
        self, spark: SparkSession, snapshot: Snapshot | None, held_highest: Callable[[int], Cursor | None]
    ) -> JoinFacts:
        """How far both sides go, by their logs and their rows."""
        return self._facts(self.rows(spark), snapshot, held_highest)

    def facts_by_log(self, snapshot: Snapshot | None) -> JoinFacts:
        """How far both sides go, by logs alone: no rows are asked, and what they would tell is a gap."""
        sides = (self.join.a, self.join.b)
        found = [side_by_log(each, self._table(each), self._path(each), self._short(each)) for each in sides]
        return join_facts_by_log(self.table, snapshot, found)

    def _facts(
        self, rows: JoinRows, snapshot: Snapshot | None, held_highest: Callable[[int], Cursor | None]
    ) -> JoinFacts:
        since = joined_up_to(self.table, snapshot, rows.kind)
        sides = (rows.join.a, rows.join.b)
        logged = {side: found for side in sides if (found := self._progress(side, rows.kind))}
        newest = rows.highest([side for side in sides if side not in logged], since)
        states = [
            logged.get(side) or SideState(self._short(side), newest.get(side), newest.get(side)) for side in sides
        ]
        return JoinFacts(snapshot, states, rows.lowest, held_highest, rows.kind)

    def _progress(self, side: JoinSide, kind: CursorKind) -> SideState | None:
        """What the log of a side says, where it is about times of this kind."""
        found = side_by_progress(self._table(side), self._short(side), side.time)
        return found if found and found.newest and found.newest.kind is kind else None

    def _table(self, side: JoinSide) -> Table | None:
        return self.catalog.tables.get(side.table.lower())

    def _path(self, side: JoinSide) -> str | None:
        """Where the table of a side is: one of ours, or of others."""
        outside = self.catalog.outside.get(side.table)
        return outside.table_path if outside else self.catalog.path_of(side.table)

    def _short(self, side: JoinSide) -> str:
        return side.table.removeprefix(f"{self.catalog.naming.schema}.")


def _scope(join: Join, window: Span, kind: CursorKind) -> dict[JoinSide, KeyRange] | None:
    """The times of either side that matter for a window; None for one that is open, which no run reads."""
    scope = scope_of(join.how, window, waits_of(join.look_back, join.look_forward, kind), waiting=True)
    found = {}
    for side, span in ((join.a, scope.a), (join.b, scope.b)):
        low, high = at_tick(kind, span.start), at_tick(kind, span.end - 1)
        if low is None or high is None:
            return None
        found[side] = KeyRange(side.time, low, high)
    return found
