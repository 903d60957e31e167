"""What a run would do to a table, and why: data that can be printed, made without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.declare.strategies import Append, Merge, Replace
from tidemill.plan.layout import layout_notices

if TYPE_CHECKING:
    from tidemill.contracts import Snapshot
    from tidemill.declare.tables import Table


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step of a plan."""

    table: str
    strategy: str
    reason: str
    notices: tuple[str, ...] = ()


def plan_step(table: Table, snapshot: Snapshot | None) -> PlannedStep:
    """What the next run of a table would read, as far as its own log tells."""
    changed = (_changed_query(table),) if _query_changed(table, snapshot) else ()
    layout = layout_notices(table, snapshot.partition_columns) if snapshot else ()
    return PlannedStep(table.name, _strategy(table), _reason(table, snapshot), (*changed, *layout))


def _strategy(table: Table) -> str:
    match table.strategy:
        case Merge(keys=keys):
            return f"{table.strategy} on {', '.join(keys)}"
        case _:
            return str(table.strategy)


def _reason(table: Table, snapshot: Snapshot | None) -> str:
    if snapshot is None:
        return "first run"
    if table.window is None or isinstance(table.strategy, Replace):
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
    rest = "rows before this window were made by the old one" if table.window else "the next run makes it anew"
    return f"{table.name}: its query changed since the last run; {rest}"
