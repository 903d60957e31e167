"""Lengths of time as users write them: "3 hours", "7 days", "1 month"."""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import TypeVar

from tidemill.errors import ArgumentError

Moment = TypeVar("Moment", date, datetime)

_FIXED = {
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
}
_MONTHS = {"month": 1, "year": 12}
UNITS = (*_FIXED, *_MONTHS)
_WORDS = re.compile(r"\s*(\d+)\s+([a-z]+?)s?\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Duration:
    """Seconds to weeks are fixed lengths, months and years follow the calendar."""

    amount: int
    unit: str

    def __str__(self) -> str:
        return f"{self.amount} {self.unit}{'' if self.amount == 1 else 's'}"

    def before(self, moment: Moment) -> Moment:
        """The moment that lies this long before; a date is its midnight, and an hour before it is the day before."""
        if self.unit in _MONTHS:
            return _months_before(moment, self.amount * _MONTHS[self.unit])
        length = _FIXED[self.unit] * self.amount
        if isinstance(moment, datetime):
            return moment - length
        return (datetime(moment.year, moment.month, moment.day) - length).date()  # noqa: DTZ001

    def after(self, moment: Moment, times: int = 1) -> Moment:
        """The moment that lies this long behind, `times` times; a date moves by whole days, and by one at least."""
        if self.unit in _MONTHS:
            return _months_before(moment, -self.amount * _MONTHS[self.unit] * times)
        length = _FIXED[self.unit] * self.amount
        if isinstance(moment, datetime):
            return moment + length * times
        return moment + max(timedelta(days=-(-length // timedelta(days=1))), timedelta(days=1)) * times


def _months_before(moment: Moment, months: int) -> Moment:
    count = moment.year * 12 + moment.month - 1 - months
    year, month = count // 12, count % 12 + 1
    day = min(moment.day, calendar.monthrange(year, month)[1])
    return moment.replace(year=year, month=month, day=day)


def duration(text: str) -> Duration:
    """Reads "3 hours"; anything that is not a whole number and a unit is an error that lists the units."""
    found = _WORDS.fullmatch(text)
    unit = found.group(2).lower() if found else ""
    if found is None or unit not in UNITS:
        raise ArgumentError(
            "window.bad_duration",
            f"{text!r} is not a length of time.",
            f'Write a whole number and a unit, such as "3 hours": {", ".join(u + "s" for u in UNITS)}.',
        )
    return Duration(int(found.group(1)), unit)
