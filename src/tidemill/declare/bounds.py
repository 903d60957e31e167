"""What the bounds of a window mean as users give them: a day is the whole day, whatever the type of the column."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, tzinfo

from tidemill.declare.cursors import Cursor, cursor

_WHOLE_DAY = timedelta(days=1)
_AS_TEXT = ("%Y-%m-%d", "%Y%m%d")


def day_of(given: object) -> date | None:
    """The day that a bound names; None for a moment or a number. A text is read as users write days: 2024-01-31."""
    match given:
        case datetime():
            return None
        case date():
            return given
        case str():
            try:
                return date.fromisoformat(given.strip())
            except ValueError:
                return None
        case _:
            return None


def first_behind(end: Cursor, given: str, zone: tzinfo | None = UTC) -> Cursor | None:
    """The first value behind an end: a day and a whole number are included, a moment is not.

    None behind the last day that there is: no bound is needed there.
    """
    try:
        return _behind(end, given, zone)
    except OverflowError:
        return None


def _behind(end: Cursor, given: str, zone: tzinfo | None) -> Cursor:
    day = day_of(given)
    match end.value:
        case datetime():
            return cursor(end.kind, (day + _WHOLE_DAY).isoformat(), zone) if day else end
        case date() as last:
            return Cursor(end.kind, last + _WHOLE_DAY)
        case int() as number:
            return Cursor(end.kind, number + 1)
        case str() as text if day:
            form = next((each for each in _AS_TEXT if day.strftime(each) == text), None)
            return Cursor(end.kind, (day + _WHOLE_DAY).strftime(form)) if form else end
        case _:
            return end
