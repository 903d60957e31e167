"""What a run would do to a table or a view, and why; and what it does not see by the table's declaration."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidemill.model.strategy import Append, DeleteInsert, Merge
from tidemill.model.variables import NOTHING_GIVEN
from tidemill.planning.dates import reason_to_fetch
from tidemill.planning.request import USUAL
from tidemill.planning.starts import Start, beginning_of_day, goes_by_days, start_of, start_variable, window_for
from tidemill.planning.windows import FROM_ITS_DAY, NOT_READ_YET, known_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from tidemill.model.cursor import Cursor
    from tidemill.model.query import View
    from tidemill.model.record import Record, Snapshot
    from tidemill.model.table import Table
    from tidemill.planning.request import Request


def layout_notices(table: Table, partitions: Sequence[str]) -> tuple[str, ...]:
    """That a table of these partitions is not laid out as declared now, and what applies the declaration."""
    if table.partition_by and _lower(table.partition_by) != _lower(partitions):
        wanted = f"partitions it by {', '.join(table.partition_by)}"
    elif table.cluster_by and partitions:
        wanted = f"clusters it by {', '.join(table.cluster_by)}"
    else:
        return ()
    held = f"partitioned by {', '.join(partitions)}" if partitions else "without partitions"
    return (f"{table.name} stays {held}; {table.command} --full-refresh {wanted}",)


def _lower(names: Sequence[str]) -> list[str]:
    return [name.lower() for name in names]


def rows_will_stay(table: Table, parts: Sequence[str]) -> str | None:
    """Of a query maintained by MERGE in which `parts` decide which rows there are; None where that is intended."""
    strategy = table.strategy
    if not parts or table.keeps_rows or not isinstance(strategy, Merge) or not strategy.keeps_rows:
        return None
    whole = " (without a time column)" if table.window else ""
    return (
        f"{table.name}: its query has {_listed(parts)} and is maintained by MERGE: rows that the query no longer "
        f"returns will stay; FULL_MERGE ON {', '.join(strategy.keys)}{whole} deletes them, "
        'kept_rows = "intended" accepts them'
    )


def may_miss(table: Table, missed: Sequence[str]) -> str:
    """Of a table whose window does not see changes of these inputs, whenever they come."""
    return (
        f"{table.name}: its window on {_column(table)} does not see changes of {_listed(missed)} alone: rows "
        f"outside of the window keep their old values; after such a change {_remedy(table)}"
    )


def missed_changes(
    table: Table,
    missed: Sequence[str],
    snapshot: Snapshot | None,
    version_of: Callable[[str], str | None],
    coming: Collection[str] = (),
) -> tuple[str, ...]:
    """Which of these inputs have changed since the last record, or may have: the window of a run does not see that.

    `coming` are tables that the same run updates before, by their names in lower case.
    """
    record = snapshot.record if snapshot else None
    if record is None or table.input in record.reset:  # everything is read
        return ()
    before, now = _versions(record, table.input), {name: version_of(name) for name in missed}
    unknown = {name for name in missed if None in (before.get(name.lower()), now[name])}
    changed = [name for name in missed if name not in unknown and before[name.lower()] != now[name]]
    perhaps = [name for name in missed if name in unknown or (name not in changed and name.lower() in coming)]
    words = [f"{_listed(changed)} {_have(changed)} changed"] if changed else []
    words += [f"{_listed(perhaps)} may have changed"] if perhaps else []
    if not words:
        return ()
    unseen = f"since its last run, and its window on {_column(table)} does not see that"
    stale = f"rows outside of the window keep their old values; {_remedy(table)}"
    return (f"{table.name}: {' and '.join(words)} {unseen}: {stale}",)


def _versions(record: Record, name: str) -> Mapping[str, str]:
    """By the inputs' names; records of older versions have them as one text, where the whole input was read."""
    if record.read_versions:
        return record.read_versions
    try:
        known = json.loads(record.input_versions.get(name, "{}"))
    except ValueError:
        return {}
    return {key.lower(): value for key, value in known.items()} if isinstance(known, dict) else {}


def _remedy(table: Table) -> str:
    rebuild = (
        f"rebuild them ({table.command} --full-refresh)" if table.reset_allowed else f"run {table.command} --start …"
    )
    some = ", read them again from a time on (--start)" if table.reset_allowed else ""
    return f"{rebuild}{some}, or use a strategy without a time column"


def _column(table: Table) -> str:
    return table.window.time_column if table.window else ""


def _have(names: Sequence[str]) -> str:
    return "has" if len(names) == 1 else "have"


def _listed(words: Sequence[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step of a plan: what a run would do to a table, and why.

    >>> step = tidemill.Project.load("shop").plan(select="daily")[0]
    >>> step.table, step.reason
    ('daily', 'up to date: its inputs are unchanged')
    """

    table: str
    strategy: str
    reason: str
    notices: tuple[str, ...] = ()


def plan_step(
    table: Table,
    snapshot: Snapshot | None,
    request: Request = USUAL,
    variables: Mapping[str, str] = NOTHING_GIVEN,
    now: datetime | None = None,
    joins: str | None = None,
) -> PlannedStep:
    """What the next run of a table would read, as far as its own log tells.

    `variables` are those that the run is given; `bad_variables` has found nothing wrong with them. `joins` is what a
    join would read, which depends on the logs of its sides.
    """
    if request.full_refresh and snapshot is not None:
        reason = "full refresh: everything is read, and the table becomes what a first run gives"
        return PlannedStep(table.name, table.declared_strategy, reason)
    layout = layout_notices(table, snapshot.partition_columns) if snapshot else ()
    if len(table.parts) > 1 and snapshot is not None and not (request.backfill and table.reads_windows):
        return PlannedStep(table.name, table.declared_strategy, _each_source(table, snapshot, variables, now), layout)
    if table.function:
        reason = reason_to_fetch(table, snapshot, request.backfill, now or datetime.now(UTC))
        return PlannedStep(table.name, table.declared_strategy, reason, layout)
    if request.backfill and table.reads_windows:
        return PlannedStep(table.name, table.declared_strategy, f"backfill {request.backfill}", layout)
    changed = (_changed_query(table),) if _query_changed(table, snapshot) else ()
    start = _start(table, snapshot, variables, now or datetime.now(UTC))
    gap = (f"{table.name}: {start.notice}",) if start.notice else ()
    by_variables = _by_variables(table, snapshot, variables)
    day = FROM_ITS_DAY if goes_by_days(table) and _within_a_day(start, now or datetime.now(UTC)) else ""
    reason = joins or by_variables or f"{start.reason or _reason(table, snapshot)}{day}"
    return PlannedStep(table.name, table.declared_strategy, reason, (*changed, *gap, *layout))


def _each_source(table: Table, snapshot: Snapshot, variables: Mapping[str, str], now: datetime | None) -> str:
    """What is read of each source, as if it were alone."""
    record = snapshot.record
    found = []
    for part, load in zip(table.parts, table.loads, strict=True):
        unread = part.window and (record is None or {load.input}.isdisjoint({*record.progress, *record.reset}))
        step = plan_step(part, known_of(part, snapshot), USUAL, variables, now)
        found.append(f"{load.source.name} {NOT_READ_YET if unread else step.reason}")
    return " · ".join(found)


def changed_query(table: Table, snapshot: Snapshot | None, request: Request) -> tuple[str, ...]:
    """What a run says of rows that it leaves as an old query made them; of an append's, its window tells."""
    bounded = table.reads_windows and not isinstance(table.strategy, Append)
    usual = not request.full_refresh and request.backfill is None
    return (_changed_query(table),) if bounded and usual and _query_changed(table, snapshot) else ()


def up_to_date(step: PlannedStep) -> PlannedStep:
    """The step of a table that has nothing to read."""
    return replace(step, reason="up to date: its inputs are unchanged")


def _start(table: Table, snapshot: Snapshot | None, variables: Mapping[str, str], now: datetime) -> Start:
    """Where the run starts, as far as that is known before its source is looked at."""
    known = _watermark(table, snapshot)
    if known is None or not table.reads_windows:
        return Start(None)
    return start_of(window_for(table, variables, first_run=False), known.kind, known, variables, now)


def _within_a_day(start: Start, now: datetime) -> bool:
    return start.value is not None and beginning_of_day(start.value, now) != start.value


def _watermark(table: Table, snapshot: Snapshot | None) -> Cursor | None:
    record = snapshot.record if snapshot else None
    return record.progress.get(table.input) if record and table.input not in record.reset else None


def _by_variables(table: Table, snapshot: Snapshot | None, variables: Mapping[str, str]) -> str | None:
    """The condition of the run where what it is given decides it."""
    condition = table.strategy.condition if isinstance(table.strategy, DeleteInsert) else None
    start = start_variable(table)
    if snapshot is None:
        return None
    if condition and any(name in variables for name in condition.parameters):
        shown = condition.put({name: variables.get(name, f"@{name}") for name in condition.parameters})
    elif start and table.window:
        shown = f"{table.window.time_column} >= {variables[start.name]}"
    else:
        return None
    return f"{shown} (from --vars)"


def _reason(table: Table, snapshot: Snapshot | None) -> str:
    if snapshot is None:
        return "first run"
    if table.window is None or not table.reads_windows:
        return "everything is read, and only what differs is written"
    record = snapshot.record
    if record and table.input in record.reset:
        return "its watermark was reset: everything is read"
    known = _watermark(table, snapshot)
    if known is None:
        return f"{'' if record else 'adopted: '}since its highest {table.window.time_column}"
    back = f", lookback {table.window.lookback}" if table.window.lookback else ""
    entering = " · ties and late rows enter once" if isinstance(table.strategy, Append) else ""
    moved = " (or lower: somebody else removed rows)" if snapshot.robbed else ""
    return f"since {known}{back}{moved}{entering}"


def _query_changed(table: Table, snapshot: Snapshot | None) -> bool:
    record = snapshot.record if snapshot else None
    return record is not None and table.sql_hash is not None and record.sql_hash not in (None, table.sql_hash)


def _changed_query(table: Table) -> str:
    changed = f"{table.name}: its query changed since the last run"
    if not table.window:
        return f"{changed}; the next run rebuilds it"
    again = f" Rebuild them with: {table.command} --full-refresh" if table.reset_allowed else ""
    return f"{changed}; rows before this window were made by the old one.{again}"


def plan_view(view: View, record: Record | None) -> PlannedStep:
    """When its query, and its checks if it has any, are tried, as far as its own record tells."""
    return PlannedStep(view.name, view.strategy, _view_reason(view, record))


def _view_reason(view: View, record: Record | None) -> str:
    if record is None:
        return "first run"
    if record.sql_hash != view.sql_hash:
        return "its query changed, and is checked"
    if record.config_hash != view.config_hash:
        return "its checks changed, and are run"
    what = "its checks are run" if view.checks else "its query is checked"
    return f"{what} when what it reads has changed"
