"""The join itself: pairs, outdated and waiting rows of one window, as one Spark join and a filter."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from tidemill.declare.joins import JoinStatus, JoinType
from tidemill.declare.names import of
from tidemill.join.ticks import ticks, time_at

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from tidemill.declare.cursors import CursorKind

TARGET, STATUS, WAITED, SINCE = (f"__tidemill_{name}" for name in ("target", "status", "waited", "since"))
OWN = (TARGET, STATUS, WAITED, SINCE)
_SPARK = {
    JoinType.FULL_OUTER: "full_outer",
    JoinType.LEFT_ANTI: "left_anti",
    JoinType.RIGHT_ANTI: "left_anti",
    JoinType.RIGHT: "right",
    JoinType.LEFT: "left",
    JoinType.INNER: "inner",
}


@dataclass(frozen=True, slots=True)
class Side:
    """Rows under the name by which conditions call them, and their time column, which is never NULL."""

    rows: DataFrame
    name: str
    time: str

    def column(self, name: str) -> Column:
        return F.col(of(self.name, name))


@dataclass(frozen=True, slots=True)
class Ticks:
    """The window, half-open, and the waits of a join, as columns that may differ from row to row."""

    start: Column
    end: Column
    look_back: Column
    look_forward: Column


@dataclass(frozen=True)
class Joining:
    """A join of rows that are in its scope. `rows` has all columns under the names of their sides, and those of `OWN`.

    SINCE is the time at which a row came that has no partner, in ticks.
    """

    a: Side
    b: Side
    on: Column
    how: JoinType
    kind: CursorKind
    bounds: Ticks
    waiting: bool = False

    @cached_property
    def rows(self) -> DataFrame:
        met = self._met()
        judged = met.select("*", self._target.alias(TARGET), self._since.alias(SINCE))
        kept = judged.where(self._in_window | self._still_waits)
        return kept.select(
            *[F.col(of(side.name, name)) for side in self._sides for name in side.rows.columns],
            time_at(F.col(TARGET), self.kind).alias(TARGET),
            self._status.alias(STATUS),
            self._waited.alias(WAITED),
            SINCE,
        )

    def _met(self) -> DataFrame:
        a, b = (side.rows.alias(side.name) for side in (self.a, self.b))
        apart = self._b_time - self._a_time
        near = apart.between(-self.bounds.look_back, self.bounds.look_forward)
        condition = self.on & near
        if self.how is JoinType.RIGHT_ANTI:
            return b.join(a, condition, "left_anti")
        shows_waiting = self.waiting and self.how is JoinType.INNER
        return a.join(b, condition, "left" if shows_waiting else _SPARK[self.how])

    @property
    def _sides(self) -> tuple[Side, ...]:
        """Those whose columns the join has."""
        match self.how:
            case JoinType.LEFT_ANTI:
                return (self.a,)
            case JoinType.RIGHT_ANTI:
                return (self.b,)
            case _:
                return (self.a, self.b)

    @property
    def _a_time(self) -> Column:
        return ticks(self.a.column(self.a.time), self.kind)

    @property
    def _b_time(self) -> Column:
        return ticks(self.b.column(self.b.time), self.kind)

    @property
    def _alone_a(self) -> Column:
        return F.lit(self.how is JoinType.LEFT_ANTI) if not self.how.has_pairs else self.b.column(self.b.time).isNull()

    @property
    def _alone_b(self) -> Column:
        return F.lit(self.how is JoinType.RIGHT_ANTI) if not self.how.has_pairs else self.a.column(self.a.time).isNull()

    @property
    def _target(self) -> Column:
        match self.how:
            case JoinType.LEFT_ANTI:
                return self._a_time + self.bounds.look_forward
            case JoinType.RIGHT_ANTI:
                return self._b_time + self.bounds.look_back
            case _:
                return (
                    F.when(self._alone_a, self._a_time + self.bounds.look_forward)
                    .when(self._alone_b, self._b_time + self.bounds.look_back)
                    .otherwise(F.greatest(self._a_time, self._b_time))
                )

    @property
    def _since(self) -> Column:
        match self.how:
            case JoinType.LEFT_ANTI:
                return self._a_time
            case JoinType.RIGHT_ANTI:
                return self._b_time
            case _:
                return F.when(self._alone_a, self._a_time).when(self._alone_b, self._b_time)

    @property
    def _in_window(self) -> Column:
        return (F.col(TARGET) >= self.bounds.start) & (F.col(TARGET) < self.bounds.end) & self._may_be_in_history

    @property
    def _may_be_in_history(self) -> Column:
        """An inner join has pairs only, though it may show rows that wait for one."""
        return F.lit(True) if self.how is not JoinType.INNER else ~self._alone_a  # noqa: FBT003

    @property
    def _still_waits(self) -> Column:
        """Only what both sides have before the end of the window is known, so who is alone may still be met."""
        return F.lit(self.waiting) & (self._alone_a | self._alone_b) & (F.col(TARGET) >= self.bounds.end)

    @property
    def _status(self) -> Column:
        alone = F.when(F.col(TARGET) < self.bounds.end, JoinStatus.OUTDATED).otherwise(JoinStatus.WAITING)
        if not self.how.has_pairs:
            return alone
        return (
            F.when(self._alone_a | self._alone_b, alone)
            .when(self._a_time == self._b_time, JoinStatus.SAME_TIME)
            .when(self._a_time > self._b_time, JoinStatus.A_LATE)
            .otherwise(JoinStatus.B_LATE)
        )

    @property
    def _waited(self) -> Column:
        if not self.how.has_pairs:
            return F.lit(None).cast("bigint")
        return F.abs(self._a_time - self._b_time)
