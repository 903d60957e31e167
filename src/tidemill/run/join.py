"""An incremental join as the source of a table: a window of it, what it has met, and what still waits."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from tidemill.change.cursors import exact, highest
from tidemill.change.settled import settle
from tidemill.declare.joins import JoinStatus, JoinType, Span
from tidemill.declare.names import quote, quoted_name, spelled
from tidemill.declare.starts import StartVariable
from tidemill.declare.ticks import at_tick, tick_of, waits_of
from tidemill.engine.translate import one_line
from tidemill.errors import ArgumentError
from tidemill.join.call import rows_of
from tidemill.join.rows import SINCE, STATUS, TARGET, WAITED
from tidemill.join.sides import Sides
from tidemill.plan.joins import Known, SideState, big_window, join_window, progress_of, told_by_log

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from tidemill.contracts import Snapshot
    from tidemill.declare.cursors import Cursor
    from tidemill.declare.joins import Join, JoinSide
    from tidemill.declare.tables import Table
    from tidemill.join.rows import Side
    from tidemill.plan.backfills import Part
    from tidemill.plan.windows import WindowPlan
    from tidemill.run.catalog import Catalog
    from tidemill.sources.protocol import Reading

_ALL = Span(-(2**62), 2**62)
_WAITED = "waited"


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
    """The rows of a join over tables of the catalog. `tally` is of the window that was read last."""

    table: Table
    join: Join
    catalog: Catalog
    tally: Tally | None = None

    def __str__(self) -> str:
        return f"the join of {self.table.name}"

    @property
    def settled(self) -> bool:
        return True

    def schema(self, reading: Reading) -> StructType:
        return self._named(self._joined(self.sides(reading.spark), Span(0, 0))).drop(SINCE).schema

    def read(self, reading: Reading, columns: Sequence[str] = ()) -> DataFrame:
        """The rows of all windows that there can be, lazily."""
        rows = self._named(self._joined(self.sides(reading.spark), _ALL)).drop(SINCE)
        return rows.select(*columns) if columns else rows

    def read_since(self, reading: Reading, column: str, value: Cursor, columns: Sequence[str] = ()) -> DataFrame:
        """The rows of the window from `value` up to where reading ends. They are counted on the way."""
        del column
        sides = self.sides(reading.spark)
        sides.check_times()
        end = tick_of(reading.until) if reading.until else _ALL.end
        rows = settle(self._named(self._joined(sides, Span(tick_of(value), end), waiting=True)))
        self.tally = self._counted(rows, sides)
        history = rows.where(F.col(quote(self.join.status)) != JoinStatus.WAITING).drop(SINCE)
        return history.select(*columns) if columns else history

    def version(self) -> str | None:
        """Those of both sides, and how far a run may go; None where one is not ours to know, or a variable decides."""
        if isinstance(self.join.up_to, StartVariable):
            return None
        versions = {name: self.catalog.version(name) for name in (self.join.a.table, self.join.b.table)}
        if None in versions.values():
            return None
        return json.dumps({**versions, "up to": self.join.up_to}, sort_keys=True)

    # windows

    def window(
        self,
        spark: SparkSession,
        snapshot: Snapshot | None,
        held_highest: Callable[[int], Cursor | None],
        part: Part | None,
        variables: Mapping[str, str],
    ) -> WindowPlan:
        """The window of the next run, or of a batch of a backfill."""
        sides = self.sides(spark)
        return join_window(self.table, sides.kind, self._known(sides, snapshot, held_highest), part, variables)

    def all_windows(self, spark: SparkSession, snapshot: Snapshot) -> WindowPlan:
        """What the table has joined so far, as one window."""
        sides = self.sides(spark)
        return big_window(self.table, sides.kind, self._known(sides, snapshot, lambda _: None))

    def _known(self, sides: Sides, snapshot: Snapshot | None, held_highest: Callable[[int], Cursor | None]) -> Known:
        since = progress_of(self.table, snapshot, sides.kind)
        states = [
            self._state(declared, side, sides, since)
            for declared, side in ((self.join.a, sides.a), (self.join.b, sides.b))
        ]
        return Known(snapshot, states, lambda: _lowest(sides), held_highest)

    def _state(self, declared: JoinSide, side: Side, sides: Sides, since: Cursor | None) -> SideState:
        name = declared.table.removeprefix(f"{self.catalog.schema}.")
        told = told_by_log(self.catalog.tables.get(declared.table.lower()), name, declared.time)
        if told and told.newest and told.newest.kind is sides.kind:
            return told
        newest = _highest(side, sides, since) or (_highest(side, sides, None) if since else None)
        return SideState(name, newest, newest)

    # rows

    def sides(self, spark: SparkSession) -> Sides:
        """Both tables, under the names by which the condition calls them."""
        a, b = self.join.a, self.join.b
        session = self.catalog.session(spark, (a.table, b.table))
        frames = [session.table(quoted_name(each.table)) for each in (a, b)]
        return Sides.of(frames[0], frames[1], (a.time, b.time), (a.alias, b.alias))

    def _joined(self, sides: Sides, span: Span, *, waiting: bool = False) -> DataFrame:
        waits = waits_of(self.join.look_back, self.join.look_forward, sides.kind)
        return rows_of(sides, lambda: sides.window(F.expr(self.join.on), self.join.how, span, waits, waiting=waiting))

    def _named(self, joined: DataFrame) -> DataFrame:
        """The columns that SELECT names, then the join's own."""
        own = {TARGET: self.join.time, STATUS: self.join.status, WAITED: _WAITED}
        chosen = self._selected(joined)
        taken = [name for name in own.values() if spelled(name, chosen.columns)]
        if taken:
            raise ArgumentError(
                "join.column_taken",
                f"The SELECT of {self.table.name} gives a column {taken[0]}, which is one of the join's own.",
                f"Give it another name there, or leave it out: {self.join.a.alias}.* EXCEPT ({taken[0]}).",
                origin=self.join.origin,
            )
        added = [f"{name} AS {quote(other)}" for name, other in own.items()]
        return joined.selectExpr(*self._columns, *added, SINCE)

    @property
    def _columns(self) -> list[str]:
        """What SELECT says; its `*` stands for the columns of both sides, and not for those that are ours."""
        a, b = f"{quote(self.join.a.alias)}.*", f"{quote(self.join.b.alias)}.*"
        whole = {JoinType.LEFT_ANTI: [a], JoinType.RIGHT_ANTI: [b]}.get(self.join.how, [a, b])
        return [column for item in self.join.select for column in (whole if item.strip() == "*" else [item])]

    def _selected(self, joined: DataFrame) -> DataFrame:
        try:
            return joined.selectExpr(*self._columns)
        except AnalysisException as failure:
            raise ArgumentError(
                "join.bad_select",
                f"The SELECT of {self.table.name} cannot be read: {one_line(failure)}",
                f"Its columns are those of {self.join.a.alias} and {self.join.b.alias}.",
                origin=self.join.origin,
            ) from failure

    def _counted(self, rows: DataFrame, sides: Sides) -> Tally:
        counts = rows.groupBy(F.col(quote(self.join.status)).alias("status")).agg(
            F.count(F.lit(1)).alias("rows"), F.min(SINCE).alias("first")
        )
        found = {row["status"]: row for row in counts.collect()}
        count = {status: found[status]["rows"] if status in found else 0 for status in JoinStatus}
        late = count[JoinStatus.A_LATE] + count[JoinStatus.B_LATE]
        waits = found.get(JoinStatus.WAITING)
        oldest = at_tick(sides.kind, waits["first"]) if waits else None
        return Tally(
            matched=count[JoinStatus.SAME_TIME] + late,
            late=late,
            outdated=count[JoinStatus.OUTDATED],
            waiting=count[JoinStatus.WAITING],
            oldest=oldest.text() if oldest else None,
        )


def _highest(side: Side, sides: Sides, since: Cursor | None) -> Cursor | None:
    """The highest time from `since` on; files that lie before it are not read."""
    rows = side.rows.where(f"{quote(side.time)} >= {since.literal()}") if since else side.rows
    return _asked(rows, F.max(quote(side.time)), sides)


def _lowest(sides: Sides) -> Cursor | None:
    found = (_asked(side.rows, F.min(quote(side.time)), sides) for side in (sides.a, sides.b))
    return min((each for each in found if each is not None), default=None)


def _asked(rows: DataFrame, what: Column, sides: Sides) -> Cursor | None:
    row = rows.agg(exact(what, sides.kind).alias("found")).first()
    return highest(row["found"] if row else None, sides.kind)
