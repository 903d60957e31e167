"""What a run would do to a table, and why: data that can be printed, made without Spark."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidemill.declare.strategies import Append, Merge
from tidemill.plan.layout import layout_notices
from tidemill.plan.requests import USUAL

if TYPE_CHECKING:
    from tidemill.contracts import Snapshot
    from tidemill.declare.tables import Table
    from tidemill.plan.requests import Request


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step of a plan."""

    table: str
    strategy: str
    reason: str
    notices: tuple[str, ...] = ()


def plan_step(table: Table, snapshot: Snapshot | None, request: Request = USUAL) -> PlannedStep:
    """What the next run of a table would read, as far as its own log tells."""
    if request.full_refresh and snapshot is not None:
        reason = "full refresh: everything is read, and the table becomes what a first run gives"
        return PlannedStep(table.name, _strategy(table), reason)
    layout = layout_notices(table, snapshot.partition_columns) if snapshot else ()
    if request.backfill and table.reads_windows:
        return PlannedStep(table.name, _strategy(table), f"backfill {request.backfill}", layout)
    changed = (_changed_query(table),) if _query_changed(table, snapshot) else ()
    return PlannedStep(table.name, _strategy(table), _reason(table, snapshot), (*changed, *layout))


def up_to_date(step: PlannedStep) -> PlannedStep:
    """The step of a table that has nothing to read."""
    return replace(step, reason="up to date: its inputs are unchanged")


def _strategy(table: Table) -> str:
    match table.strategy:
        case Merge(keys=keys):
            return f"{table.strategy} on {', '.join(keys)}"
        case _:
            return str(table.strategy)


def _reason(table: Table, snapshot: Snapshot | None) -> str:
    if snapshot is None:
        return "first run"
    if table.window is None or not table.reads_windows:
        return "everything is read, and only what differs is written"
    record = snapshot.record
    if record and table.input in record.reset:
        return "its watermark was reset: everything is read"
    known = record.progress.get(table.input) if record else None
    if known is None:
        return f"adopted: since its highest {table.window.time_column}"
    back = f", less {table.window.lookback}" if table.window.lookback else ""
    entering = " · ties and late rows enter once" if isinstance(table.strategy, Append) else ""
    moved = " (or lower: somebody else removed rows)" if snapshot.robbed else ""
    return f"since {known}{back}{moved}{entering}"


def _query_changed(table: Table, snapshot: Snapshot | None) -> bool:
    record = snapshot.record if snapshot else None
    return record is not None and table.sql_hash is not None and record.sql_hash not in (None, table.sql_hash)


def _changed_query(table: Table) -> str:
    if not table.window:
        return f"{table.name}: its query changed since the last run; the next run makes it anew"
    return (
        f"{table.name}: its query changed since the last run; rows before this window were made by the old one. "
        f"Rebuild them with: tidemill run -s {table.name} --full-refresh"
    )
