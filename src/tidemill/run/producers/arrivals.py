"""The arrival differences of a declared join, counted in the unit in which its waits are declared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from tidemill.declare.cursors import CursorKind
from tidemill.declare.durations import Duration
from tidemill.declare.tables import lookback
from tidemill.declare.ticks import waits_of
from tidemill.join.arrivals import Arrivals, counts_apart

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemill.run.producers.join import JoinSource


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
