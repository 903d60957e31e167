"""What an incremental join is: its six types, how long a row waits, and which rows a window of it has to read.

Times are counted in ticks (`declare.ticks`).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError

if TYPE_CHECKING:
    from tidemill.declare.durations import Duration
    from tidemill.declare.starts import StartVariable
    from tidemill.errors import Origin

_SPELLINGS = {"full": "full_outer", "outer": "full_outer", "left_outer": "left", "right_outer": "right"}


class JoinType(StrEnum):
    """Which rows a join delivers beside pairs, or in their place."""

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
        """An inner join delivers no row alone, but shows those of `a` that may still find a partner."""
        return self.has_outdated_a or self is JoinType.INNER


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
class Join:
    """A table's rows are those of an incremental join. `on` and `select` go to Spark as written.

    The first window begins at `start`, or with the first row. `up_to` names the newest increment that both sides are
    known to have in full, where they cannot say it themselves; a run may be given it as a variable.
    """

    a: JoinSide
    b: JoinSide
    on: str
    how: JoinType
    look_back: Duration | int
    look_forward: Duration | int
    select: tuple[str, ...]
    start: str | None = None
    up_to: str | StartVariable | None = None
    time: str = "target_time"
    status: str = "join_status"
    origin: Origin | None = field(default=None, repr=False, compare=False)

    @property
    def sql_hash(self) -> str:
        """Changes with everything that decides which rows the join has."""
        parts = (self.a, self.b, self.on, self.how, self.look_back, self.look_forward, self.select, self.start)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
