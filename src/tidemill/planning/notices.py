"""What a user should know of a table before it runs: its layout, rows that stay, changes that its window misses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tidemill.planning.windows import column_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

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
    if not parts or table.keeps_rows or not strategy.keeps_rows:
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
        f"{table.name}: its window on {column_of(table)} does not see changes of {_listed(missed)} alone: rows "
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
    unseen = f"since its last run, and its window on {column_of(table)} does not see that"
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


def _have(names: Sequence[str]) -> str:
    return "has" if len(names) == 1 else "have"


def _listed(words: Sequence[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def changed_query(table: Table, snapshot: Snapshot | None, request: Request) -> tuple[str, ...]:
    """That rows stay as an old query made them; of an append's, its window says so."""
    bounded = table.reads_windows and not table.strategy.appends
    usual = not request.full_refresh and request.backfill is None
    if not (bounded and usual and _query_changed(table, snapshot)):
        return ()
    again = f" Rebuild them with: {table.command} --full-refresh" if table.reset_allowed else ""
    return (f"{_CHANGED.format(table.name)}; rows before this window were made by the old one.{again}",)


def rebuilt_query(table: Table, snapshot: Snapshot | None) -> tuple[str, ...]:
    """That a table which is read whole becomes what its new query gives."""
    if table.reads_windows or not _query_changed(table, snapshot):
        return ()
    return (f"{_CHANGED.format(table.name)}; the next run rebuilds it",)


_CHANGED = "{}: its query changed since the last run"


def _query_changed(table: Table, snapshot: Snapshot | None) -> bool:
    record = snapshot.record if snapshot else None
    return record is not None and table.sql_hash is not None and record.sql_hash not in (None, table.sql_hash)
