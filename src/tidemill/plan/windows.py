"""Which rows a run reads of a source with a cursor, and why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from tidemill.declare.cursors import Cursor, CursorKind, check_lookback, cursor
from tidemill.declare.names import quote
from tidemill.declare.strategies import Append
from tidemill.declare.tables import NullTime
from tidemill.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidemill.contracts import Record, Snapshot
    from tidemill.declare.tables import Table, Window


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """The window of one run. An open start reads everything; the end is open."""

    column: str
    kind: CursorKind
    reason: str
    null_time: NullTime
    start: Cursor | None = None
    exclusive: bool = False
    floor: Cursor | None = None
    watermark: Cursor | None = None
    notice: str | None = None

    @property
    def predicate(self) -> str:
        """The rows to read, as a filter. Rows without a time are read where they are wanted, or to be counted."""
        column = quote(self.column)
        bound = f"{column} {'>' if self.exclusive else '>='} {self.start.literal()}" if self.start else None
        if self.null_time is NullTime.SKIP:
            return bound or f"{column} IS NOT NULL"
        if bound is None:
            return "true"
        hidden = self.exclusive and self.null_time is NullTime.INCLUDE
        return bound if hidden else f"({bound} OR {column} IS NULL)"

    def next_watermark(self, highest: Cursor | None, now: datetime) -> Cursor | None:
        """The highest time committed, never moved back, and for times never past the start of the run."""
        if highest is None:
            return self.watermark
        reached = min(highest, _present(self.kind, now)) if self.kind.is_time else highest
        return reached if self.watermark is None else max(self.watermark, reached)

    def to_json(self) -> dict[str, str]:
        found = {"column": self.column, "reason": self.reason}
        if self.start:
            found |= {"start": self.start.text(), "exclusive": str(self.exclusive).lower()}
        return found


def plan_window(
    table: Table,
    kind: CursorKind,
    columns: Sequence[str],
    snapshot: Snapshot | None,
    held_highest: Callable[[int], Cursor | None],
    now: datetime,
) -> WindowPlan:
    """The window of the next run. `held_highest` asks a version of the table for its highest time."""
    window = table.window
    assert window is not None  # noqa: S101  asked only for tables that have one
    check_lookback(window.lookback, kind, window.time_column)
    first = WindowPlan(
        column=window.time_column,
        kind=kind,
        reason="first run",
        null_time=window.null_time,
        start=_literal_start(window, kind),
    )
    if snapshot is None:
        return first
    watermark, reason = _watermark(table, kind, snapshot, held_highest, now)
    if watermark is None:
        return replace(first, reason=reason)
    since = replace(
        first, watermark=watermark, start=_later(first.start, watermark.less(window.lookback)), reason=reason
    )
    return _floored(since, table, columns, snapshot.record)


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
            "Cast the column to its old type, or set the watermark anew with tidemill set-watermark.",
        )
    if known is not None and not snapshot.robbed:
        return known, f"since {known}{_less(table.window)}"
    tops = [held_highest(version) for version in snapshot.robbed or (snapshot.version,)]
    found = [top for top in tops if top is not None]
    if len(found) < len(tops):
        return None, "the table is empty: everything is read"
    held = min([*found, _present(kind, now)]) if kind.is_time else min(found)
    if known is None:
        return held, f"adopted: since its highest {_column(table)} {held}{_less(table.window)}"
    lower = min(known, held)
    return lower, f"somebody else removed rows: since {lower}{_less(table.window)}"


def _floored(plan: WindowPlan, table: Table, columns: Sequence[str], record: Record | None) -> WindowPlan:
    """An append cannot compare rows of an old query with rows of a new one: it does not reach back to them."""
    if not isinstance(table.strategy, Append) or record is None:
        return plan
    changed = record.sql_hash != table.sql_hash or _names(record.columns) != _names(columns)
    floor = plan.watermark if changed and plan.watermark else record.floor
    if floor is None:
        return plan
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


def _literal_start(window: Window, kind: CursorKind) -> Cursor | None:
    return None if window.start is None else cursor(kind, window.start)


def _later(a: Cursor | None, b: Cursor) -> Cursor:
    return b if a is None else max(a, b)


def _less(window: Window | None) -> str:
    return f", less {window.lookback}" if window and window.lookback else ""


def _column(table: Table) -> str:
    return table.window.time_column if table.window else ""


def _names(columns: Sequence[str]) -> set[str]:
    return {column.lower() for column in columns}


def _present(kind: CursorKind, now: datetime) -> Cursor:
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
