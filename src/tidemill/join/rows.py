"""The join itself: pairs, outdated and waiting rows of one window, as one Spark join and a filter."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from tidemill.model.cursor import CursorKind
from tidemill.model.join import JoinStatus, JoinType
from tidemill.model.names import of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_BEGINNING = "TIMESTAMP_NTZ '1970-01-01 00:00:00'"
_MICROS = 1_000_000
_UNITS = {"DAY": 86_400 * _MICROS, "HOUR": 3_600 * _MICROS, "MINUTE": 60 * _MICROS, "SECOND": _MICROS}


def ticks(time: Column, kind: CursorKind) -> Column:
    """Days, microseconds or increments since the first, as a bigint."""
    match kind:
        case CursorKind.DATE:
            return F.unix_date(time).cast("bigint")
        case CursorKind.TIMESTAMP:
            return F.unix_micros(time)
        case CursorKind.TIMESTAMP_NTZ:
            since = time - F.expr(_BEGINNING)
            parts = [_micros(F.extract(F.lit(unit), since), size) for unit, size in _UNITS.items()]
            return parts[0] + parts[1] + parts[2] + parts[3]
        case _:
            return time.cast("bigint")


def time_at(tick: Column, kind: CursorKind) -> Column:
    """The time of a number of ticks; a whole number stays one."""
    match kind:
        case CursorKind.DATE:
            return F.date_from_unix_date(tick.cast("int"))
        case CursorKind.TIMESTAMP:
            return F.timestamp_micros(tick)
        case CursorKind.TIMESTAMP_NTZ:
            seconds = (tick.cast("decimal(20,0)") / F.lit(_MICROS)).cast("decimal(18,6)")
            return F.expr(_BEGINNING) + F.make_dt_interval(F.lit(0), F.lit(0), F.lit(0), seconds)
        case _:
            return tick


def _micros(part: Column, size: int) -> Column:
    """Seconds have fractions, and minutes are tinyints."""
    return (part.cast("decimal(18,6)") * F.lit(size)).cast("bigint")


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
_WITH_WAITING = {JoinType.INNER: JoinType.LEFT, JoinType.RIGHT: JoinType.FULL_OUTER}  # to see an `a` that waits


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
        how = _WITH_WAITING.get(self.how, self.how) if self.waiting else self.how
        return a.join(b, condition, _SPARK[how])

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

    @cached_property
    def _a_time(self) -> Column:
        return ticks(self.a.column(self.a.time), self.kind)

    @cached_property
    def _b_time(self) -> Column:
        return ticks(self.b.column(self.b.time), self.kind)

    @cached_property
    def _alone_a(self) -> Column:
        return F.lit(self.how is JoinType.LEFT_ANTI) if not self.how.has_pairs else self.b.column(self.b.time).isNull()

    @cached_property
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
        """Inner and right joins have no `a` alone, though they may show those that wait for a partner."""
        return ~self._alone_a if self.how in _WITH_WAITING else F.lit(True)  # noqa: FBT003

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
