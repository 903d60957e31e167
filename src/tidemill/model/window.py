"""What bounds a window: days and zones, starts that only a run knows, and SQL with @names in it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from tidemill.errors import ArgumentError
from tidemill.model.cursor import Cursor, cursor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidemill.errors import Origin

SESSION_ZONE = "spark.sql.session.timeZone"
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")


def zone_named(name: str) -> tzinfo:
    """The zone of a region (Europe/Berlin) or an offset (+02:00, UTC+2)."""
    if name in {"UTC", "Z"}:
        return UTC
    offset = _OFFSET.fullmatch(name)
    try:
        return _zone_at(*offset.groups()) if offset else ZoneInfo(name)
    except (KeyError, ValueError, OSError) as unknown:  # no such zone; no name at all; the name of a folder of zones
        raise ArgumentError(
            "engine.unknown_zone",
            f"The Spark session has the time zone {name}, which is not known here.",
            f"Set {SESSION_ZONE} to a region such as Europe/Berlin, to an offset such as +02:00, or to UTC.",
        ) from unknown


def _zone_at(sign: str, hours: str, minutes: str | None, seconds: str | None) -> tzinfo:
    offset = timedelta(hours=int(hours), minutes=int(minutes or 0), seconds=int(seconds or 0))
    return timezone(-offset if sign == "-" else offset)


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


@dataclass(frozen=True, slots=True)
class StartVariable:
    """`@name`: a later run begins at the value that it is given; a first run neither uses nor needs it."""

    name: str
    origin: Origin | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return f"@{self.name}"


@dataclass(frozen=True, slots=True)
class CurrentDate:
    """The midnight with which the day of the run begins; it bounds every run, as a literal does."""

    def __str__(self) -> str:
        return "CURRENT_DATE"


MovingStart = StartVariable | CurrentDate

WINDOW_PARAMETERS = ("start_dt", "end_dt", "start_date", "end_date")  # every window gives these


@dataclass(frozen=True, slots=True)
class Template:
    """`pieces` are its text, cut where `parameters` stand; there is one piece more than parameters."""

    pieces: tuple[str, ...]
    parameters: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """As its author wrote it."""
        return self.put({name: f"@{name}" for name in self.parameters})

    def missing(self, known: Mapping[str, str]) -> list[str]:
        """The names that have no value, each once."""
        return [name for name in dict.fromkeys(self.parameters) if name not in known]

    def put(self, literals: Mapping[str, str]) -> str:
        """The text with SQL literals in the place of its @names, all of which are given."""
        values = [*(literals[name] for name in self.parameters), ""]
        return "".join(piece + value for piece, value in zip(self.pieces, values, strict=True))


@dataclass(frozen=True, slots=True)
class Condition(Template):
    """A condition on rows. Where it stands takes no part in comparisons, so that moving a line changes no table."""

    origin: Origin | None = field(default=None, repr=False, compare=False)
