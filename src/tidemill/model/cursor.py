"""Values of a cursor column with their type, and what bounds a window of them: durations, days and zones, starts that
only a run knows, and SQL with @names in it.
"""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar
from zoneinfo import ZoneInfo

from tidemill.errors import ArgumentError
from tidemill.model import quoted_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidemill.errors import Origin

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
