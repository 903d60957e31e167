"""The window of an incremental join's next run: from where the last one ended to what both sides have in full."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError, StateError
from tidemill.formats.registry import log_at, log_of
from tidemill.model.cursor import Cursor, CursorKind, StartVariable, cursor, first_behind
from tidemill.model.join import Join, at_tick, tick_of
from tidemill.model.table import NullTime
from tidemill.planning.notices import GapError, ask_no_rows
from tidemill.planning.windows import WindowPlan, highest_left

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tidemill.model.join import JoinSide
    from tidemill.model.record import Snapshot
    from tidemill.model.table import Table
    from tidemill.planning import Part

_STEPWISE = (CursorKind.DATE, CursorKind.INTEGER)  # a value of these stands for an increment, others for an instant


@dataclass(frozen=True, slots=True)
class SideState:
    """How far one side is known to go. Rows before `complete` are all there; None where it has none at all.

    `newest` is how that is known: its highest time, or its progress.
    """

    name: str
    newest: Cursor | None
    complete: Cursor | None


@dataclass(frozen=True, slots=True)
class JoinFacts:
    """What a window is planned on: the log of the table, both sides, and questions that only rows can answer.

    `lowest` asks both sides for their first time, `held_highest` a version of the table for its last one; without
    Spark they may raise `GapError`. `kind` is the type of the times; None where a side is not known.
    """

    snapshot: Snapshot | None
    sides: Sequence[SideState]
    lowest: Callable[[], Cursor | None]
    held_highest: Callable[[int], Cursor | None]
    kind: CursorKind | None = None


def side_by_progress(table: Table | None, name: str, time: str) -> SideState | None:
    """How far an input goes that Tidemill maintains by the join's own time column; None where that is not known.

    Rows that tie with a watermark, and late ones within the lookback, may still come. A join's own windows are final.
    """
    if table is None or table.window is None or table.window.time_column.lower() != time.lower():
        return None
    snapshot = log_of(table).snapshot() if table.reads_windows else None
    record = snapshot.record if snapshot else None
    known = record.reached(table.input_names) if record else None
    if known is None or record is None:
        return None
    if table.strategy.finishes_windows:
        return SideState(name, known, _behind(known))
    whole = [record.progress[part.input].less(part.window.lookback) for part in table.parts if part.window]
    return SideState(name, known, min(whole))


def joined_up_to(table: Table, snapshot: Snapshot | None, kind: CursorKind | None = None) -> Cursor | None:
    """The end of the last window; nothing after a reset."""
    record = snapshot.record if snapshot else None
    known = record.progress.get(table.input) if record and table.input not in record.reset else None
    if known is not None and kind not in (None, known.kind):
        raise StateError(
            "state.cursor_type_changed",
            f"{table.name} was joined up to {known}, a {known.kind}, and its sides have times of type {kind} now.",
            "Cast them to their old type, or rebuild the table with --full-refresh.",
        )
    return known


def join_window(
    table: Table, kind: CursorKind, facts: JoinFacts, part: Part | None, variables: Mapping[str, str]
) -> WindowPlan:
    """The window of the next run, or of one batch of a backfill, which never reaches beyond what both sides have."""
    join = _join(table)
    progress = joined_up_to(table, facts.snapshot, kind)
    following, why = _following(facts, progress)
    start = following or (cursor(kind, join.start) if join.start else facts.lowest())
    end = up_to(join, kind, variables) or _both_have(facts.sides)
    begin = None
    if part is not None:
        start, end = part.start or start, min((each for each in (part.end, end) if each), default=None)
        begin, why = (None if following and part.begin == following else part.begin), f"backfill {part}: "
    plan = _between(table, kind, start, end, progress)
    waits = None if plan.reached or join.up_to or part else held_back(facts.sides)
    return replace(plan, reason=f"{why}{plan.reason}", notice=waits, begin=begin, mark=part.mark if part else None)


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """What the next run joins, and why; the window is None where only rows tell how far both sides go."""

    window: WindowPlan | None
    reason: str
    notices: tuple[str, ...] = ()


def plan_join(
    table: Table, snapshot: Snapshot | None, facts: JoinFacts | None, part: Part | None, variables: Mapping[str, str]
) -> JoinPlan:
    """What the next run joins, or one batch of a backfill, as far as it is known."""
    if facts is None or facts.kind is None:
        progress = joined_up_to(table, snapshot)
        since = f"after {progress}" if progress else "from the beginning"
        return JoinPlan(None, f"{since}, up to what both sides have in full")
    try:
        window = join_window(table, facts.kind, facts, part, variables)
    except GapError:
        return plan_join(table, snapshot, None, part, variables)
    held = None if _join(table).up_to else held_back(facts.sides)
    return JoinPlan(window, window.reason, (held,) if held else ())


def side_by_log(
    side: JoinSide, table: Table | None, path: str | None, name: str
) -> tuple[SideState | None, Cursor | None]:
    """How far a side goes and where it begins, by logs alone; None for what they do not tell."""
    found = log_at(path).times(side.time) if path else None
    lowest, newest = found or (None, None)
    told = side_by_progress(table, name, side.time)
    return told or (SideState(name, newest, newest) if newest else None), lowest


def join_facts_by_log(
    table: Table, snapshot: Snapshot | None, found: Sequence[tuple[SideState | None, Cursor | None]]
) -> JoinFacts:
    """What logs say about both sides, as `side_by_log` finds it; what only rows tell is a gap."""
    sides, lows = [side for side, _ in found if side], [low for _, low in found if low]
    progress = joined_up_to(table, snapshot)
    kind = next((each.kind for each in (progress, *(side.newest for side in sides)) if each), None)

    def lowest() -> Cursor:
        if len(lows) < len(found):
            raise GapError
        return min(lows)

    return JoinFacts(snapshot, sides, lowest, ask_no_rows, kind if len(sides) == len(found) else None)


def big_window(table: Table, kind: CursorKind, facts: JoinFacts) -> WindowPlan:
    """All windows so far as one; an empty one where there was none."""
    join, progress = _join(table), joined_up_to(table, facts.snapshot, kind)
    start = cursor(kind, join.start) if join.start else facts.lowest()
    return _between(table, kind, start, _behind(progress) if progress else None, None)


def up_to(join: Join, kind: CursorKind, variables: Mapping[str, str]) -> Cursor | None:
    """The first time behind what UP TO names, which it says of both sides: a moment ends a window, a day is in it."""
    text = variables.get(join.up_to.name) if isinstance(join.up_to, StartVariable) else join.up_to
    try:
        return None if text is None else first_behind(cursor(kind, text), text)
    except ArgumentError as bad:
        raise ArgumentError(bad.code, f"UP TO: {bad.problem}", bad.remedy, origin=join.origin) from bad


def held_back(sides: Sequence[SideState]) -> str | None:
    """Which side ends before the other one does, and since when; None where both go equally far."""
    empty = [side for side in sides if side.complete is None]
    if empty:
        return f"{empty[0].name} holds it back: it is empty"
    first, last = sorted(sides, key=lambda side: tick_of(side.complete) if side.complete else 0)
    if first.complete == last.complete:
        return None
    return f"{first.name} holds it back: its newest is {_newest(first)}, that of {last.name} {_newest(last)}"


def _newest(side: SideState) -> str:
    waits = side.newest is not None and side.complete is not None and side.complete < side.newest
    return f"{side.newest}{' minus its lookback' if waits else ''}"


def _following(facts: JoinFacts, progress: Cursor | None) -> tuple[Cursor | None, str]:
    """Where the next window starts, None for the beginning; earlier where somebody else removed rows."""
    if facts.snapshot is None:
        return None, "first run: "
    if progress is None:
        return None, "from the beginning: "
    if not facts.snapshot.versions_with_removals:
        return _behind(progress), ""
    tops = highest_left(facts.snapshot, facts.held_highest)
    return (min([*tops, _behind(progress)]) if tops is not None else None), "somebody else removed rows: "


def _between(
    table: Table, kind: CursorKind, start: Cursor | None, end: Cursor | None, progress: Cursor | None
) -> WindowPlan:
    assert table.window is not None  # noqa: S101  a join has one
    plan = WindowPlan(table.window.time_column, kind, "", NullTime.SKIP, watermark=progress)
    if start is None or end is None or end <= start:
        done = f"nothing new: joined up to {progress}" if progress else "nothing to join yet"
        nowhere = start or at_tick(kind, 0)
        return replace(plan, start=nowhere, end=nowhere, reason=done)
    last = _last_before(end)
    return replace(plan, start=start, end=end, reached=last, reason=f"{start} … {last}")


def _both_have(sides: Sequence[SideState]) -> Cursor | None:
    ends = [side.complete for side in sides]
    return None if None in ends else min(end for end in ends if end is not None)


def _behind(last: Cursor) -> Cursor:
    """The first time after a window that ends with this one; an instant that ends a window lies outside of it."""
    return (at_tick(last.kind, tick_of(last) + 1) or last) if last.kind in _STEPWISE else last


def _last_before(end: Cursor) -> Cursor:
    return (at_tick(end.kind, tick_of(end) - 1) or end) if end.kind in _STEPWISE else end


def _join(table: Table) -> Join:
    assert isinstance(table.producer, Join)  # noqa: S101  asked only for joins
    return table.producer
