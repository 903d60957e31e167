"""What the @names of a query or of a condition stand for in one run: SQL literals, never text."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import TYPE_CHECKING

from tidemill.declare.cursors import Cursor, CursorKind

if TYPE_CHECKING:
    from collections.abc import Mapping

_BEGINNING = datetime(1900, 1, 1)  # noqa: DTZ001  in whichever zone
_MIDNIGHT = time()
_DAY = timedelta(days=1)


def literals_of(
    start: Cursor | None, end: Cursor | None, now: datetime, given: Mapping[str, str], variable: str | None = None
) -> dict[str, str]:
    """Literals by name, for a run whose window has these bounds and which begins `now`, in the zone of its session.

    Days are those of that zone: there a day in a query or a condition begins for Spark.
    Bounds of the window come first, because it is made of what is given; then what is `given`, as literals; then the
    year 1900 for a start, and the start of the run for an end. `variable` is the name at which the table's runs start:
    it stands for the start of the window, and for nothing else.
    """
    begins, ends = _moment(start, now.tzinfo), _moment(end, now.tzinfo)
    beginning = _BEGINNING.replace(tzinfo=now.tzinfo)
    found = {**_starts(beginning), **_ends(now)}
    found |= {name: literal for name, literal in given.items() if name != variable}
    found |= _starts(begins) if begins else {}
    found |= _ends(ends, is_bound=True) if ends else {}
    if variable and (variable not in found or (start and not begins)):
        found[variable] = start.literal() if start else _timestamp(beginning)
    return found


def _starts(moment: datetime) -> dict[str, str]:
    return {"start_dt": _timestamp(moment), "start_date": _date(moment.date())}


def _ends(moment: datetime, *, is_bound: bool = False) -> dict[str, str]:
    """The day that ends a window lies outside of it; that of a run belongs to it."""
    last = moment.date() if is_bound and moment.time() == _MIDNIGHT else moment.date() + _DAY
    return {"end_dt": _timestamp(moment), "end_date": _date(last)}


def _timestamp(moment: datetime) -> str:
    return Cursor(CursorKind.TIMESTAMP, moment.astimezone(UTC)).literal()


def _date(day: date) -> str:
    return Cursor(CursorKind.DATE, day).literal()


def _moment(bound: Cursor | None, zone: tzinfo | None) -> datetime | None:
    """A bound of a time column as a moment in this zone; other columns have none."""
    match bound.value if bound else None:
        case datetime() as moment:
            return moment.astimezone(zone) if moment.tzinfo else moment.replace(tzinfo=zone)
        case date() as day:
            return datetime(day.year, day.month, day.day, tzinfo=zone)
        case _:
            return None
