"""Times and lengths of time as whole numbers: days for dates, microseconds for timestamps, increments for integers.

One arithmetic then holds for all of them, and every window is half-open.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

from tidemill.declare.bounds import day_of
from tidemill.declare.cursors import Cursor, CursorKind, CursorType, cursor
from tidemill.declare.durations import Duration, duration
from tidemill.declare.joins import Span, Waits
from tidemill.errors import ArgumentError

_DAY = timedelta(days=1)
_MICROSECOND = timedelta(microseconds=1)
_FIRST_DAY = date(1970, 1, 1)
_FIRST_MOMENT = datetime(1970, 1, 1)  # noqa: DTZ001  timestamp_ntz has no zone
_UNITS = ("day", "hour", "minute", "second")
_KINDS = (CursorKind.DATE, CursorKind.TIMESTAMP, CursorKind.TIMESTAMP_NTZ, CursorKind.INTEGER)

Length = str | int | timedelta | Duration
Moment = str | int | date | datetime


def check_kinds(a: CursorKind | None, b: CursorKind | None, columns: tuple[str, str]) -> CursorKind:
    """The kind that the times of both sides have; `columns` names each side's column with its type."""
    for kind, column in zip((a, b), columns, strict=True):
        if kind not in _KINDS:
            raise ArgumentError(
                "join.bad_time",
                f"{column} cannot be the time of a join.",
                "Use a DATE, a TIMESTAMP, a TIMESTAMP_NTZ or a whole number on both sides.",
            )
    if a is not b or a is None:
        raise ArgumentError(
            "join.mixed_times",
            f"{columns[0]} and {columns[1]} are times of two types, which have no distance.",
            "Cast one of them to the type of the other.",
        )
    return a


def waits_of(look_back: Length, look_forward: Length, kind: CursorKind) -> Waits:
    """Both lengths in ticks of times of this kind."""
    return Waits(_ticks(look_back, kind, "look_back"), _ticks(look_forward, kind, "look_forward"))


def _ticks(length: Length, kind: CursorKind, what: str) -> int:
    value = duration(length) if isinstance(length, str) else length
    if isinstance(value, Duration):
        value = _fixed(value, what)
    if isinstance(value, bool) or not isinstance(value, int | timedelta):
        raise _bad_length(what, length, kind)
    found = _whole(value, kind)
    if found is None:
        raise _bad_length(what, length, kind)
    if found < 0:
        raise ArgumentError("join.negative_length", f"{what} is {length}.", "Give zero or more.")
    return found


def _fixed(length: Duration, what: str) -> timedelta:
    if length.unit in {"month", "year"}:
        raise ArgumentError(
            "join.varying_length",
            f"{what} is {length}, and a {length.unit} has no fixed length.",
            'Write it in days, such as "31 days".',
        )
    moment = _FIRST_MOMENT
    return length.after(moment) - moment


def _whole(length: int | timedelta, kind: CursorKind) -> int | None:
    """In ticks; None where the length is not for this kind, or no whole number of them."""
    match kind, length:
        case CursorKind.DATE | CursorKind.INTEGER, int() as number:
            return number
        case CursorKind.DATE, timedelta() as time:
            return time // _DAY if time % _DAY == timedelta() else None
        case CursorKind.TIMESTAMP | CursorKind.TIMESTAMP_NTZ, timedelta() as time:
            return time // _MICROSECOND
        case _:
            return None


def _bad_length(what: str, length: Length, kind: CursorKind) -> ArgumentError:
    fitting = {
        CursorKind.DATE: 'whole days, such as "6 days" or 6',
        CursorKind.INTEGER: "a whole number of increments, such as 6",
    }.get(kind, 'a length of time, such as "90 minutes"')
    return ArgumentError(
        "join.bad_length",
        f"{what} is {length!s}, which is no length between times of type {kind}.",
        f"Give {fitting}.",
    )


def tick_of(value: Cursor) -> int:
    """How many ticks a time lies after the first, which is 1970-01-01 or zero."""
    match value.value:
        case datetime() as moment:
            return (moment.replace(tzinfo=None) - _FIRST_MOMENT) // _MICROSECOND
        case date() as day:
            return (day - _FIRST_DAY).days
        case int() as number:
            return number
        case _:
            raise NotImplementedError(value)


def apart(first: Cursor, last: Cursor) -> str:
    """How far two times of one kind lie apart, in words: 9 days, 5 hours, 3 increments."""
    ticks = tick_of(last) - tick_of(first)
    whole = {CursorKind.DATE: "day", CursorKind.INTEGER: "increment"}.get(first.kind)
    sizes = [(whole, 1)] if whole else [(unit, timedelta(**{f"{unit}s": 1}) // _MICROSECOND) for unit in _UNITS]
    unit, size = next((each for each in sizes if ticks >= each[1]), sizes[-1])
    return f"{ticks // size:,} {unit}{'' if ticks // size == 1 else 's'}"


def at_tick(kind: CursorKind, tick: int) -> Cursor | None:
    """The time of a tick; None for one that Python cannot hold, beyond which no bound is needed."""
    value: CursorType
    try:
        match kind:
            case CursorKind.DATE:
                value = _FIRST_DAY + tick * _DAY
            case CursorKind.TIMESTAMP:
                value = (_FIRST_MOMENT + tick * _MICROSECOND).replace(tzinfo=UTC)
            case CursorKind.TIMESTAMP_NTZ:
                value = _FIRST_MOMENT + tick * _MICROSECOND
            case _:
                value = tick
    except OverflowError:
        return None
    return Cursor(kind, value)


def moment_of(kind: CursorKind, value: Moment, what: str) -> Cursor:
    """A bound as users give it, as a time of this kind."""
    match value:
        case datetime() if kind is CursorKind.DATE:
            if value.time() != time():
                raise _bad_moment(kind, value, what)
            return cursor(kind, value.date().isoformat())
        case datetime() | date():
            return cursor(kind, value.isoformat())
        case bool():
            raise _bad_moment(kind, value, what)
        case int() | str():
            return cursor(kind, str(value))
        case _:
            raise _bad_moment(kind, value, what)


def _bad_moment(kind: CursorKind, value: object, what: str) -> ArgumentError:
    return ArgumentError(
        "join.bad_bound", f"{what} is {value!r}, and the times are of type {kind}.", "Give a bound of that type."
    )


def _width(kind: CursorKind, bound: Moment) -> int:
    """How many ticks a bound stands for: a day given for timestamps is all of its microseconds."""
    is_whole_day = kind in {CursorKind.TIMESTAMP, CursorKind.TIMESTAMP_NTZ} and day_of(bound)
    return _DAY // _MICROSECOND if is_whole_day else 1


def span_of(kind: CursorKind, start: Moment, end: Moment, inclusive: str) -> Span:
    """The window in ticks. "both" includes the end, all of it where it is given as a day; "left" leaves it out."""
    if inclusive not in {"both", "left"}:
        raise ArgumentError("join.bad_inclusive", f"inclusive is {inclusive!r}.", 'Say "both" or "left".')
    first, last = moment_of(kind, start, "start"), moment_of(kind, end, "end")
    found = Span(tick_of(first), tick_of(last) + (_width(kind, end) if inclusive == "both" else 0))
    if found.end <= found.start:
        raise ArgumentError(
            "join.empty_window",
            f"Nothing lies between {first} and {last}.",
            "Give a later end.",
        )
    return found
