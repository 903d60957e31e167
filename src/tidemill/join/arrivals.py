"""How far apart the two rows of a match came: what look back and look forward are chosen by."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from tidemill.join.rows import ticks
from tidemill.model.cursor import CursorKind, Duration
from tidemill.model.join import waits_of
from tidemill.model.table import lookback

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column, SparkSession

    from tidemill.execution.joins import JoinSource
    from tidemill.join.call import Sides

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
