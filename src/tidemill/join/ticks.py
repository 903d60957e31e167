"""Times as whole numbers and back, by expressions that no session's time zone has a say in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from tidemill.declare.cursors import CursorKind

if TYPE_CHECKING:
    from pyspark.sql import Column

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
