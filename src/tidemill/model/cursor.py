"""Values of a cursor column with their type, and the durations that windows reach back."""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from enum import StrEnum
from typing import TypeVar

from tidemill.errors import ArgumentError
from tidemill.model.names import quoted_text

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
    """A length of time. Seconds to weeks are fixed lengths, months and years follow the calendar.

    >>> print(tidemill.Duration(3, "hour"))
    3 hours
    """

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


CursorType = date | datetime | int | Decimal | str


class CursorKind(StrEnum):
    """The type of a cursor's values."""

    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMP_NTZ = "timestamp_ntz"
    INTEGER = "integer"
    DECIMAL = "decimal"
    STRING = "string"

    @property
    def is_time(self) -> bool:
        return self in {CursorKind.DATE, CursorKind.TIMESTAMP, CursorKind.TIMESTAMP_NTZ}


@dataclass(frozen=True, slots=True)
class Cursor:
    """One value of a cursor column. Timestamps are aware and in UTC, timestamp_ntz are naive.

    >>> record = tidemill.history("shop/warehouse/main/raw_orders")[0].record
    >>> [each.value.year for each in record.progress.values()]
    [2024]
    """

    kind: CursorKind
    value: CursorType

    def __str__(self) -> str:
        match self.value:
            case datetime() as moment:
                text = moment.replace(tzinfo=None).isoformat(sep=" ")
                return f"{text} UTC" if self.kind is CursorKind.TIMESTAMP else text
            case value:
                return str(value)

    def __lt__(self, other: Cursor) -> bool:
        return self._compare(other) and self.value < other.value  # type: ignore[operator]

    def __le__(self, other: Cursor) -> bool:
        return self == other or self < other

    def _compare(self, other: Cursor) -> bool:
        if self.kind is not other.kind:
            raise ArgumentError(
                "window.mixed_types",
                f"{self} is a {self.kind} and {other} is a {other.kind}; they cannot be compared.",
                "Give the bound in the type of the time column.",
            )
        return True

    def text(self) -> str:
        """The exact form that records keep, and `cursor` reads back."""
        match self.value:
            case datetime() as moment:
                naive = moment.replace(tzinfo=None).isoformat(timespec="microseconds")
                return f"{naive}Z" if self.kind is CursorKind.TIMESTAMP else naive
            case date() as day:
                return day.isoformat()
            case Decimal() as number:
                return f"{number:f}"
            case value:
                return str(value)

    def literal(self) -> str:
        """The value as a Spark SQL literal of its own type, so that files can be skipped by it."""
        match self.kind:
            case CursorKind.DATE:
                return f"DATE '{self.text()}'"
            case CursorKind.TIMESTAMP:
                return f"TIMESTAMP '{self.text()}'"
            case CursorKind.TIMESTAMP_NTZ:
                return f"TIMESTAMP_NTZ '{self.text()}'"
            case CursorKind.INTEGER:
                return self.text()
            case CursorKind.DECIMAL:
                return f"{self.text()}BD"
            case CursorKind.STRING:
                return quoted_text(self.text())

    def less(self, lookback: Duration | int | None) -> Cursor:
        """The bound that lies `lookback` before this value."""
        if lookback is None:
            return self
        match self.value, lookback:
            case (datetime() | date()) as moment, Duration() as length:
                return Cursor(self.kind, length.before(moment))
            case (int() | Decimal()) as number, int() as amount:
                return Cursor(self.kind, number - amount)
            case _:
                raise _bad_lookback(lookback, self.kind, str(self))

    def plus(self, length: Duration | int, times: int) -> Cursor:
        """The value that lies `times` lengths behind this one."""
        match self.value, length:
            case (datetime() | date()) as moment, Duration() as step:
                return Cursor(self.kind, step.after(moment, times))
            case (int() | Decimal()) as number, int() as amount:
                return Cursor(self.kind, number + amount * times)
            case _:
                raise ArgumentError(
                    "backfill.bad_batch",
                    f"A {self.kind} cursor ({self}) cannot be cut into batches of {length}.",
                    'Use a length of time ("7 days") on dates and timestamps, and a whole number on numbers.',
                )

    @property
    def is_last(self) -> bool:
        """The last moment that Python can hold; it also stands for all later ones, which Spark can hold."""
        return self.value in {date.max, datetime.max, datetime.max.replace(tzinfo=UTC)}  # noqa: DTZ901  timestamp_ntz


def present(kind: CursorKind, now: datetime) -> Cursor:
    """The moment `now` as a cursor of this kind, which is one of time."""
    moment = now.astimezone(UTC)
    value: date | datetime
    match kind:
        case CursorKind.DATE:
            value = moment.date()
        case CursorKind.TIMESTAMP_NTZ:
            value = moment.replace(tzinfo=None)
        case _:
            value = moment
    return Cursor(kind, value)


def check_lookback(lookback: Duration | int | None, kind: CursorKind, column: str) -> None:
    """Refuses a lookback that no value of the column can be moved back by, before any value is there."""
    fitting = Duration if kind.is_time else int
    if lookback is not None and (kind is CursorKind.STRING or not isinstance(lookback, fitting)):
        raise _bad_lookback(lookback, kind, column)


def _bad_lookback(lookback: Duration | int, kind: CursorKind, what: str) -> ArgumentError:
    return ArgumentError(
        "window.bad_lookback",
        f"A lookback of {lookback} cannot be taken off a {kind} cursor ({what}).",
        'Use a length of time ("3 hours") on dates and timestamps, a whole number on numbers, and none on strings.',
    )


def cursor(kind: CursorKind | str, text: str, zone: tzinfo | None = UTC) -> Cursor:
    """Reads a value from text: from a record, a declaration or a flag. A timestamp without a zone is of this one."""
    kind = CursorKind(kind)
    try:
        return Cursor(kind, _parse(kind, text.strip() if kind is not CursorKind.STRING else text, zone))
    except (ValueError, ArithmeticError) as failure:
        raise ArgumentError(
            "window.bad_value",
            f"{text!r} is not a {kind}.",
            _EXAMPLES[kind],
        ) from failure


_EXAMPLES = {
    CursorKind.DATE: "Write a date as 2024-01-31.",
    CursorKind.TIMESTAMP: "Write a timestamp as 2024-01-31T10:30:00Z; a bare date is that day in the session's zone.",
    CursorKind.TIMESTAMP_NTZ: "Write a timestamp without a zone as 2024-01-31T10:30:00.",
    CursorKind.INTEGER: "Write a whole number.",
    CursorKind.DECIMAL: "Write a number such as 12.50.",
    CursorKind.STRING: "Write a text.",
}


def _parse(kind: CursorKind, text: str, zone: tzinfo | None) -> CursorType:
    match kind:
        case CursorKind.DATE:
            return date.fromisoformat(text)
        case CursorKind.TIMESTAMP:
            moment = datetime.fromisoformat(text)
            return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(UTC)
        case CursorKind.TIMESTAMP_NTZ:
            moment = datetime.fromisoformat(text)
            if moment.tzinfo is not None:
                raise ValueError(text)
            return moment
        case CursorKind.INTEGER:
            return int(text)
        case CursorKind.DECIMAL:
            return Decimal(text)
        case CursorKind.STRING:
            return text
