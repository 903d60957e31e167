"""Which rows a run reads of a source with a cursor, and why."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tidemill.errors import StateError
from tidemill.model import quote
from tidemill.model.cursor import check_lookback, present
from tidemill.model.project import NOTHING_GIVEN
from tidemill.model.table import NullTime
from tidemill.planning.starts import (
    STARTS,
    beginning_of_day,
    end_of,
    end_of_day,
    goes_by_days,
    start_of,
    start_variable,
    window_for,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from tidemill.model.cursor import Cursor, CursorKind
    from tidemill.model.record import Record, Snapshot
    from tidemill.model.strategy import Strategy
    from tidemill.model.table import Table, Window
    from tidemill.planning import Part

FIRST_RUN = "first run"
BY_LOGS = "what has changed in its inputs is read, where their logs say"
EVERYTHING = "everything is read, and only what differs is written"
NOT_READ_YET = "not read yet: everything is read"  # one of several sources
FROM_ITS_DAY = ", from the beginning of that day"


def reason_of_everything(strategy: Strategy) -> str:
    """Why a run that has no window reads all of its source."""
    return "everything is read, and every row is appended" if strategy.appends else EVERYTHING


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """The window of one run. An open start reads everything; the end, where there is one, lies outside.

    `begin` is where a backfill starts, or a run whose start is given by a variable; `mark` is what the record keeps of
    a backfill, so that it can be taken up again. `reached` is how far the table will have come, where that is known
    before its rows are.
    """

    column: str
    kind: CursorKind
    reason: str
    null_time: NullTime
    start: Cursor | None = None
    exclusive: bool = False
    floor: Cursor | None = None
    watermark: Cursor | None = None
    notice: str | None = None
    end: Cursor | None = None
    begin: Cursor | None = None
    mark: Mapping[str, str] | None = field(default=None)
    reached: Cursor | None = None

    @property
    def moves_on(self) -> bool:
        """Whether the table comes further by this window though no row may lie in it."""
        return self.reached is not None and self._next(self.reached) != self.watermark

    @property
    def is_backfill(self) -> bool:
        return self.mark is not None

    @property
    def is_partial(self) -> bool:
        """Somebody said where it starts or ends: it does not stand for all that the source has."""
        return self.is_backfill or self.begin is not None

    @property
    def predicate(self) -> str:
        """The rows to read, as a filter. Rows without a time are read where they are wanted, or to be counted."""
        column = quote(self.column)
        low = [f"{column} {'>' if self.exclusive else '>='} {self.start.literal()}"] if self.start else []
        high = [f"{column} < {self.end.literal()}"] if self.end else []
        bound = " AND ".join([*low, *high])
        if self.null_time is NullTime.SKIP:
            return bound or f"{column} IS NOT NULL"
        if not bound:
            return "true"
        hidden = self.exclusive and self.null_time is NullTime.INCLUDE
        return bound if hidden else f"({bound} OR {column} IS NULL)"

    @property
    def beyond(self) -> Cursor | None:
        """Stored rows at or above it are newer than what is read, and stay."""
        return self.end

    def next_watermark(self, highest: Cursor | None, now: datetime) -> Cursor | None:
        """The highest time committed, never moved back, and for times never past the start of the run.

        A backfill that begins above it leaves a gap, so it does not move it, and neither does a run that is given such
        a start.
        """
        if self.reached is not None:
            return self._next(self.reached)
        if highest is None:
            return self.watermark
        return self._next(min(highest, present(self.kind, now)) if self.kind.is_time else highest)

    def _next(self, reached: Cursor) -> Cursor | None:
        leaves_gap = self.begin and self.watermark and self.watermark < self.begin
        if self.watermark is None or leaves_gap:
            return reached if self.watermark is None else self.watermark
        return max(self.watermark, reached)

    def to_json(self) -> dict[str, str]:
        found = {"column": self.column, "reason": self.reason}
        if self.start:
            found |= {"start": self.start.text(), "exclusive": str(self.exclusive).lower()}
        if self.end:
            found["end"] = self.end.text()
        return found


def known_of(table: Table, snapshot: Snapshot | None) -> Snapshot | None:
    """What a table's log says of it: nothing of how far it was read, if that was by another time column."""
    if snapshot is None or snapshot.record is None or table.window is None:
        return snapshot
    record = snapshot.record.of_input(table.input)
    return replace(snapshot, record=record.by_column(table.window.time_column, table.input))


def plan_window(
    table: Table,
    kind: CursorKind,
    columns: Sequence[str] | None,
    snapshot: Snapshot | None,
    held_highest: Callable[[int], Cursor | None],
    now: datetime,
    part: Part | None = None,
    variables: Mapping[str, str] = NOTHING_GIVEN,
) -> WindowPlan:
    """The window of the next run, or of one batch of a backfill; a start that is asked for wins over a declared one.

    `snapshot` is as `known_of` gives it. `columns` are those of the source, None where they are not known: then they
    count as unchanged. `held_highest` asks a version of the table for its highest time, `variables` are those that the
    run is given; `now` is in the zone of the run's session. Where everything is read, the window is open: it only says
    how far the table is known to go.
    """
    window = window_for(
        table, variables, first_run=snapshot is None, started=part is not None and part.start is not None
    )
    check_lookback(window.lookback, kind, window.time_column)
    watermark, reason = _watermark(table, kind, snapshot, held_highest, now) if snapshot else (None, FIRST_RUN)
    start = start_of(window, kind, watermark, variables, now)
    since = WindowPlan(
        column=window.time_column,
        kind=kind,
        reason=start.reason or reason,
        null_time=window.null_time,
        start=start.value,
        watermark=watermark,
        notice=start.notice,
        end=end_of(table, kind, variables, now),
        begin=start.value if start.given else None,
    )
    if not table.reads_windows:
        return _open(since, snapshot)
    floored = _floored(since, table, columns, snapshot.record) if snapshot else since
    whole_days = _of_whole_days(_given(floored, part) if part else floored, table, now)
    return _under_condition(whole_days, table, variables) if snapshot and not part else whole_days


def _open(plan: WindowPlan, snapshot: Snapshot | None) -> WindowPlan:
    """The window of a table that is replaced by all of its source, whatever its watermark."""
    return replace(plan, start=None, begin=None, notice=None, reason=EVERYTHING if snapshot else FIRST_RUN)


def _under_condition(plan: WindowPlan, table: Table, variables: Mapping[str, str]) -> WindowPlan:
    shown = condition_given(table, variables)
    return replace(plan, reason=f"{plan.reason} · {shown}") if shown else plan


def condition_given(table: Table, variables: Mapping[str, str]) -> str | None:
    """The condition of the run, where it is decided by what the run is given beside the start of its window."""
    condition = table.strategy.condition
    start = start_variable(table)
    window = (*STARTS, *([start.name] if start else [])) if table.window else ()
    if condition is None or not any(name in variables for name in condition.parameters if name not in window):
        return None
    return f"{condition.put({name: variables.get(name, f'@{name}') for name in condition.parameters})} (from --vars)"


def _of_whole_days(plan: WindowPlan, table: Table, now: datetime) -> WindowPlan:
    """A query that begins or ends with a day gives all rows of it: they are in the window, or would enter twice."""
    if plan.end is not None and goes_by_days(table, "end_date"):
        plan = replace(plan, end=end_of_day(plan.end, now))
    if plan.start is None or plan.exclusive or not goes_by_days(table):
        return plan
    start = beginning_of_day(plan.start, now)
    if start == plan.start:
        return plan
    return replace(plan, start=start, reason=f"{plan.reason}{FROM_ITS_DAY}")


def _given(plan: WindowPlan, part: Part) -> WindowPlan:
    """The window with the bounds of a backfill's batch; a bound that is not given stays as it would be."""
    if part.start is None:
        return replace(plan, end=part.end, mark=part.mark, reason=f"{plan.reason}, up to {part.end}")
    return _reaching_below_its_floor(
        replace(
            plan,
            start=part.start,
            exclusive=False,
            end=part.end or plan.end,
            begin=part.begin,
            mark=part.mark,
            notice=None,
            reason=f"backfill {part}",
        )
    )


def _reaching_below_its_floor(plan: WindowPlan) -> WindowPlan:
    """Whoever says where to start may reach back to rows of an old query, and gets a notice of what that means."""
    if plan.start is None or plan.floor is None or plan.floor < plan.start:
        return plan
    notice = (
        f"its query or its columns changed: rows up to {plan.floor} were made by the old query, "
        "and such as the new one gives otherwise enter beside them"
    )
    return replace(plan, notice=notice)


def _watermark(
    table: Table,
    kind: CursorKind,
    snapshot: Snapshot,
    held_highest: Callable[[int], Cursor | None],
    now: datetime,
) -> tuple[Cursor | None, str]:
    record = snapshot.record
    if record and table.input in record.reset:
        return None, "its watermark was reset: everything is read"
    known = record.progress.get(table.input) if record else None
    if known is not None and known.kind is not kind:
        raise StateError(
            "state.cursor_type_changed",
            f"{table.name} was read up to {known}, a {known.kind}, and its time column is now a {kind}.",
            "Cast the column to its old type, or set the watermark again with tidemill set-watermark.",
        )
    if known is not None and not snapshot.versions_with_removals:
        return known, f"since {known}{lookback_text(table.window)}"
    tops = highest_left(snapshot, held_highest)
    if tops is None:
        return None, "the table is empty: everything is read"
    held = min([*tops, present(kind, now)]) if kind.is_time else min(tops)
    if known is None:
        adopted = "adopted: " if record is None else ""
        return held, f"{adopted}since its highest {column_of(table)} {held}{lookback_text(table.window)}"
    lower = min(known, held)
    return lower, f"somebody else removed rows: since {lower}{lookback_text(table.window)}"


def _floored(plan: WindowPlan, table: Table, columns: Sequence[str] | None, record: Record | None) -> WindowPlan:
    """An append cannot compare rows of an old query with rows of a new one: it does not reach back to them."""
    if not table.strategy.appends or record is None or plan.watermark is None:
        return plan
    others = columns is not None and _names(record.columns) != _names(columns)
    changed = record.sql_hash != table.sql_hash or others
    floor = plan.watermark if changed else record.floor
    if floor is None:
        return plan
    if plan.begin is not None:
        return _reaching_below_its_floor(replace(plan, floor=floor))
    notice = (
        f"its query or its columns changed: rows up to {floor} stay as the old query made them, "
        "and late rows from before are not taken; a backfill with --start reads them"
        if changed
        else None
    )
    if plan.start is not None and floor < plan.start:
        return replace(plan, floor=floor, notice=notice)
    return replace(
        plan,
        start=floor,
        exclusive=True,
        floor=floor,
        notice=notice,
        reason=f"after {floor}, where its query changed",
    )


def highest_left(snapshot: Snapshot, held_highest: Callable[[int], Cursor | None]) -> list[Cursor] | None:
    """The highest times of the versions that others have removed rows from, or else of the last one.

    None where one of them holds no rows.
    """
    tops = [held_highest(version) for version in snapshot.versions_with_removals or (snapshot.version,)]
    found = [top for top in tops if top is not None]
    return found if len(found) == len(tops) else None


def lookback_text(window: Window | None) -> str:
    """What a reason says of the lookback; nothing where there is none."""
    return f", lookback {window.lookback}" if window and window.lookback else ""


def column_of(table: Table) -> str:
    """The time column as it is declared; nothing where there is none."""
    return table.window.time_column if table.window else ""


def _names(columns: Sequence[str]) -> set[str]:
    return {column.lower() for column in columns}
