"""The join itself: pairs, outdated and waiting rows of one window, as one Spark join and a filter; and how far apart
the two rows of a match came, by which look back and look forward are chosen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from tidemill.model import of
from tidemill.model.cursor import CursorKind, Duration
from tidemill.model.join import JoinStatus, JoinType, waits_of
from tidemill.model.table import lookback

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

    from tidemill.execution.joins import JoinSource
    from tidemill.join.call import Sides

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


_STEPS = (0, 1, 2, 3, 5, 7, 10, 14, 21, 30, 45, 60, 90, 120, 180, 270, 365)
_WHOLE = 1.0


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How many matches came so many units apart: `b` after `a` above zero, before it below.

    A part of a unit counts as a whole one, so a look forward of n units catches what came at most n apart.
    """

    counts: Mapping[int, int] = field(default_factory=dict)
    unit: str = "day"
    look_back: int = 0
    look_forward: int = 0

    @property
    def matches(self) -> int:
        return sum(self.counts.values())

    def forward(self, units: int) -> float:
        """The share of the matches whose `b` came at most so long after its `a`, or before it."""
        return self._share(lambda apart: apart <= units)

    def back(self, units: int) -> float:
        """The share of the matches whose `b` came at most so long before its `a`, or after it."""
        return self._share(lambda apart: -apart <= units)

    @property
    def caught(self) -> float:
        """The share of the matches that the join finds as it is declared."""
        return self._share(lambda apart: -self.look_back <= apart <= self.look_forward)

    def steps_forward(self) -> list[int]:
        """Lengths worth a look, up to the first that catches all; the declared one is among them."""
        return _steps(max((*self.counts, 0)), self.look_forward)

    def steps_back(self) -> list[int]:
        return _steps(-min((*self.counts, 0)), self.look_back)

    def to_json(self) -> dict[str, Any]:
        back = {str(length): self.back(length) for length in self.steps_back()}
        forward = {str(length): self.forward(length) for length in self.steps_forward()}
        return {
            "matches": self.matches,
            "unit": self.unit,
            "look_back": {"declared": self.look_back, "caught": back},
            "look_forward": {"declared": self.look_forward, "caught": forward},
            "caught": self.caught,
            "apart": {str(apart): self.counts[apart] for apart in sorted(self.counts)},
        }

    def _share(self, is_caught: Callable[[int], bool]) -> float:
        found = sum(count for apart, count in self.counts.items() if is_caught(apart))
        return found / self.matches if self.matches else _WHOLE


def counts_apart(sides: Sides, on: Column, unit: int, within: int | None = None) -> dict[int, int]:
    """How many pairs meet the condition so many units of ticks apart, whenever they came; or within so many ticks."""
    a, b = (side.rows.alias(side.name) for side in (sides.a, sides.b))
    times = [ticks(side.column(side.time), sides.kind) for side in (sides.a, sides.b)]
    apart = times[1] - times[0]
    near = on if within is None else on & apart.between(-within, within)
    units = F.signum(apart) * F.ceil(F.abs(apart) / F.lit(unit))
    found = a.join(b, near).groupBy(units.cast("bigint").alias("apart")).count().collect()
    return {row["apart"]: row["count"] for row in found}


def _steps(last: int, declared: int) -> list[int]:
    below = [step for step in _STEPS if step < last]
    return sorted({*below, last, declared})


def arrivals_of(spark: SparkSession, source: JoinSource, within: str | None) -> Arrivals:
    """All pairs that meet the condition of the join, by how many units they came apart."""
    rows = source.rows(spark)
    sides, join = rows.sides, rows.join
    limit = lookback(int(within) if within and within.isdecimal() else within)
    span = None if limit is None else waits_of(limit, limit, sides.kind).look_forward
    waits, unit = waits_of(join.look_back, join.look_forward, sides.kind), _unit(join.look_forward, sides.kind)
    size = 1 if sides.kind in {CursorKind.DATE, CursorKind.INTEGER} else waits_of(f"1 {unit}", 0, sides.kind).look_back
    counts = counts_apart(sides, F.expr(join.on.text), size, span)
    return Arrivals(counts, unit, waits.look_back // size, waits.look_forward // size)


def _unit(length: Duration | int, kind: CursorKind) -> str:
    if kind is CursorKind.INTEGER:
        return "increment"
    given = length.unit if isinstance(length, Duration) else "day"
    return "day" if kind is CursorKind.DATE or given == "week" else given
