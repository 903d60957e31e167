"""What an incremental join is: its six types, how long a row waits, and which rows a window has to read.

Times are counted in ticks: days, microseconds or increments. One arithmetic holds for all of them, and every
window is half-open.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError
from tidemill.model.cursor import (
    Cursor,
    CursorKind,
    CursorType,
    Duration,
    StartVariable,
    Template,
    cursor,
    day_of,
    duration,
)
from tidemill.model.query import Producing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tidemill.errors import Origin

TIME, STATUS, WAITED = "target_time", "join_status", "waited"
SUFFIXES = ("", "_b")
_SPELLINGS = {"full": "full_outer", "outer": "full_outer", "left_outer": "left", "right_outer": "right"}


class JoinType(StrEnum):
    """Which rows a join delivers beside pairs, or in their place. Its name as a text will do.

    >>> tidemill.JoinType("left_anti")
    <JoinType.LEFT_ANTI: 'left_anti'>
    """

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL_OUTER = "full_outer"
    LEFT_ANTI = "left_anti"
    RIGHT_ANTI = "right_anti"

    @property
    def has_pairs(self) -> bool:
        return self not in {JoinType.LEFT_ANTI, JoinType.RIGHT_ANTI}

    @property
    def has_outdated_a(self) -> bool:
        return self in {JoinType.LEFT, JoinType.LEFT_ANTI, JoinType.FULL_OUTER}

    @property
    def has_outdated_b(self) -> bool:
        return self in {JoinType.RIGHT, JoinType.RIGHT_ANTI, JoinType.FULL_OUTER}

    @property
    def has_waiting_a(self) -> bool:
        """Inner and right joins deliver no `a` alone, but show those that may still find a partner."""
        return self is not JoinType.RIGHT_ANTI


class JoinStatus(StrEnum):
    """How a row came to be: a pair by who was late, or a row without one."""

    SAME_TIME = "same_time"
    A_LATE = "a_late"
    B_LATE = "b_late"
    OUTDATED = "outdated"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class Waits:
    """How far back and forward of an `a` its `b` may lie, in ticks."""

    look_back: int
    look_forward: int


@dataclass(frozen=True, slots=True)
class Span:
    """From one tick up to and without another."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Scope:
    """The rows of either side that a window of a join needs, by their times; no others decide anything in it."""

    a: Span
    b: Span


def scope_of(how: JoinType, window: Span, waits: Waits, *, waiting: bool = False) -> Scope:
    """The smallest scope for this type of join.

    A pair of the window has its `a` at most a look forward before it and its `b` a look back; whether a row was ever in
    a pair is seen from as much again of the other side. A join of outdated `a` alone needs none that still wait.
    """
    both = waits.look_back + waits.look_forward
    judges_a = how.has_outdated_a or (waiting and how.has_waiting_a)
    a_start = window.start - (both if how.has_outdated_b else waits.look_forward)
    b_start = window.start - (both if judges_a else waits.look_back)
    only_outdated = not how.has_pairs and not waiting
    a_end = window.end - (waits.look_forward if only_outdated and how.has_outdated_a else 0)
    b_end = window.end - (waits.look_back if only_outdated and how.has_outdated_b else 0)
    return Scope(Span(a_start, a_end), Span(b_start, b_end))


def join_type(name: JoinType | str) -> JoinType:
    """Reads a type by its name, in any case; FULL and the names with OUTER are spellings."""
    text = str(name).strip().lower().replace(" ", "_")
    try:
        return JoinType(_SPELLINGS.get(text, text))
    except ValueError as failure:
        raise ArgumentError(
            "join.unknown_type", f"{name!r} is no type of join.", f"Use one of {', '.join(JoinType)}."
        ) from failure


@dataclass(frozen=True, slots=True)
class JoinSide:
    """A table, the name by which the join calls it, and the column that says when its rows came."""

    table: str
    alias: str
    time: str


@dataclass(frozen=True, slots=True)
class Join(Producing):
    """A table's rows are those of an incremental join. `on` and `select` go to Spark as written, but for their @names.

    The first window begins at `start`, or with the first row. `up_to` names the newest increment that both sides are
    known to have in full, where they cannot say it themselves; a run may be given it as a variable. `time` and `status`
    are the names of the join's own columns, `suffixes` go to columns that both sides have where all are selected.
    """

    a: JoinSide
    b: JoinSide
    on: Template
    how: JoinType
    look_back: Duration | int
    look_forward: Duration | int
    select: tuple[Template, ...]
    start: str | None = None
    up_to: str | StartVariable | None = None
    time: str = TIME
    status: str = STATUS
    suffixes: tuple[str, str] = SUFFIXES
    origin: Origin | None = field(default=None, repr=False, compare=False)

    @property
    def as_join(self) -> Join:
        return self

    @property
    def parameters(self) -> tuple[str, ...]:
        """The @names in the condition and in the columns, each once."""
        return tuple(dict.fromkeys(name for each in (self.on, *self.select) for name in each.parameters))

    def variables(self) -> Iterator[tuple[str, Origin | None]]:
        """What a run has to be given, and where that is asked for."""
        yield from ((name, self.origin) for name in self.parameters)
        if isinstance(self.up_to, StartVariable):
            yield self.up_to.name, self.up_to.origin

    def filled(self, literals: Mapping[str, str]) -> Join:
        """The join with SQL literals in the place of its @names; all must be given."""
        missing = [name for name in self.parameters if name not in literals]
        if missing:
            raise ArgumentError(
                "variables.missing",
                f"The join needs {', '.join(f'@{name}' for name in missing)}.",
                f"Give it on the command line: --var {missing[0]}=…",
                origin=self.origin,
            )
        on, *select = (Template((each.put(literals),)) for each in (self.on, *self.select))
        return replace(self, on=on, select=tuple(select))

    @property
    def sql_hash(self) -> str:
        """Changes with everything that decides which rows the join has."""
        on, select = self.on.text, tuple(each.text for each in self.select)
        named = (self.time, self.status, self.suffixes)
        parts = (self.a, self.b, on, self.how, self.look_back, self.look_forward, select, self.start, named)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def check_own_names(time: str, status: str) -> None:
    """The three columns that a join adds have three names."""
    names = (time, status, WAITED)
    if len({name.lower() for name in names}) < len(names):
        raise ArgumentError(
            "join.one_name", f"Two of the join's own columns are called {_twice(names)}.", "Give them two names."
        )


def _twice(names: tuple[str, ...]) -> str:
    lower = [name.lower() for name in names]
    return next(name for name in names if lower.count(name.lower()) > 1)


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
