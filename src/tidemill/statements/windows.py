"""The window of a table's next run, as far as it is known without Spark; a placeholder stands for the rest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, NoReturn

from tidemill.declare.cursors import Cursor, CursorKind
from tidemill.declare.durations import Duration
from tidemill.declare.starts import CurrentDate, StartVariable
from tidemill.plan.starts import end_of, goes_by_days, start_of, window_for
from tidemill.plan.windows import WindowPlan, plan_window
from tidemill.state.watermarks import kind_of_column

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidemill.contracts.snapshots import Snapshot
    from tidemill.declare.tables import Table, Window

WATERMARK = "<watermark>"


class Placeholder(Cursor):
    """A value that only a run knows; its literal is the text that stands for it."""

    @classmethod
    def named(cls, text: str) -> Placeholder:
        return cls(CursorKind.STRING, text)

    def literal(self) -> str:
        return self.text()


@dataclass(frozen=True, slots=True)
class ShownWindow:
    """A window, and why a part of it is a placeholder, or is an assumption."""

    plan: WindowPlan
    why: tuple[str, ...] = ()


class _OnlyRowsTellError(Exception):
    """The watermark has to be asked of the table's rows, which needs Spark."""


def first_window(table: Table, variables: Mapping[str, str], now: datetime) -> ShownWindow:
    """What a first run reads, whether the table is there or not."""
    window = window_for(table, variables, first_run=True)
    kind, why = _kind(table, window, None, variables)
    if kind is None:
        return ShownWindow(_open(window, "first run"))
    return ShownWindow(plan_window(table, kind, (), None, _refuse_to_ask, now, variables=variables), why)


def next_window(
    table: Table,
    columns: Sequence[str],
    snapshot: Snapshot | None,
    variables: Mapping[str, str],
    now: datetime,
) -> ShownWindow:
    """What the run after the first one reads, or the next one where the table is there.

    The type of the time column is that of the watermark, of the table's column, or else of the declared start.
    """
    window = window_for(table, variables, first_run=False)
    kind, why = _kind(table, window, snapshot, variables)
    start = window.moving_start
    if isinstance(start, StartVariable) and start.name not in variables:
        return ShownWindow(replace(_open(window, f"since {start}"), start=Placeholder.named(f"<{start.name}>")))
    if snapshot is not None and kind is not None:
        try:
            plan = plan_window(table, kind, columns, snapshot, _refuse_to_ask, now, variables=variables)
            return ShownWindow(plan, why)
        except _OnlyRowsTellError:
            return _after_the_watermark(table, kind, variables, now, (*why, _asked_of_rows(window, snapshot)))
    unmade = f"{WATERMARK} is the highest {window.time_column} that is committed, and the table is not made yet"
    return _after_the_watermark(table, kind, variables, now, (*why, unmade))


def _after_the_watermark(
    table: Table, kind: CursorKind | None, variables: Mapping[str, str], now: datetime, why: tuple[str, ...]
) -> ShownWindow:
    """The window of a run whose watermark is not known: only a variable says where it starts all the same."""
    window = window_for(table, variables, first_run=False)
    bound = start_of(window, kind, None, variables, now) if kind else None
    end = end_of(table, kind, variables, now) if kind else None
    if bound and bound.given:
        return ShownWindow(replace(_open(window, bound.reason or ""), start=bound.value, end=end))
    since = f"{WATERMARK}{_minus(window.lookback)}"
    text = f"greatest({bound.value.literal()}, {since})" if bound and bound.value else since
    text = f"date_trunc('DAY', {text})" if goes_by_days(table) and kind is not CursorKind.DATE else text
    reason = f"since {WATERMARK}{f', lookback {window.lookback}' if window.lookback else ''}"
    return ShownWindow(replace(_open(window, reason), start=Placeholder.named(text), end=end), why)


def _open(window: Window, reason: str) -> WindowPlan:
    return WindowPlan(window.time_column, CursorKind.STRING, reason, window.null_time)


def _kind(
    table: Table, window: Window, snapshot: Snapshot | None, variables: Mapping[str, str]
) -> tuple[CursorKind | None, tuple[str, ...]]:
    """The type of the time column, and what it was taken from where that is not the table itself."""
    known = snapshot.record.progress.get(table.input) if snapshot and snapshot.record else None
    kind = known.kind if known else kind_of_column(table)
    if kind is not None:
        return kind, ()
    start = _bound_of(window, variables)
    if start is None:
        return None, ()
    kind = CursorKind.DATE if start == str(CurrentDate()) else _kind_of(start)
    why = f"the type of {window.time_column} is not known yet: its start, {start}, is treated as a {kind}"
    return kind, (why,)


def _bound_of(window: Window, variables: Mapping[str, str]) -> str | None:
    """Where runs start, as it is written or given."""
    match window.moving_start:
        case CurrentDate() as today:
            return str(today)
        case StartVariable(name):
            return variables.get(name)
        case _:
            return window.start


def _kind_of(text: str) -> CursorKind:
    """The type that a bound looks like."""
    if text.strip().lstrip("-").isdecimal():
        return CursorKind.INTEGER
    for kind, read in _READERS:
        try:
            read(text.strip())
        except (ValueError, InvalidOperation):
            continue
        return kind
    return CursorKind.STRING


_READERS = (
    (CursorKind.DATE, date.fromisoformat),
    (CursorKind.TIMESTAMP, datetime.fromisoformat),
    (CursorKind.DECIMAL, Decimal),
)


def _refuse_to_ask(version: int) -> NoReturn:
    raise _OnlyRowsTellError(version)


def _asked_of_rows(window: Window, snapshot: Snapshot) -> str:
    event = "somebody else removed rows" if snapshot.record else "the table was made by others"
    return f"{WATERMARK} is the highest {window.time_column} that the table holds: {event}, so the run asks its rows"


def _minus(lookback: Duration | int | None) -> str:
    match lookback:
        case None:
            return ""
        case Duration(amount, unit):
            return f" - INTERVAL {amount} {unit.upper()}{'' if amount == 1 else 'S'}"
        case number:
            return f" - {number}"
