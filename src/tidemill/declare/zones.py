"""Time zones by the names that Spark knows them by."""

from __future__ import annotations

import re
from datetime import UTC, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from tidemill.errors import ArgumentError

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
