"""Runs that a table does not allow: history that is to be kept, and an update of what is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.declare.names import KEPT_FROM_RESET, RESET_ALLOWED
from tidemill.declare.strategies import Merge, MergeStrategy
from tidemill.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidemill.contracts.snapshots import Snapshot
    from tidemill.declare.tables import Table
    from tidemill.plan.requests import Request


def refusals(table: Table, snapshot: Snapshot | None, request: Request) -> Iterator[ArgumentError]:
    """Why the table may not be run as it is asked for."""
    only_updates = isinstance(table.strategy, Merge) and table.strategy.form is MergeStrategy.UPDATE
    if snapshot is None:
        yield from [_missing(table)] if only_updates else []
    elif request.full_refresh:
        if not table.reset_allowed:
            yield _kept(table, snapshot, "is declared reset_allowed = false", "where it is declared")
        elif snapshot.resists_reset:
            yield _kept(table, snapshot, f"has the property {RESET_ALLOWED} = false", "on the table")
        if only_updates:
            yield _cannot_be_rebuilt(table)


def protection(snapshot: Snapshot, declared: Table | None) -> tuple[str, str] | None:
    """What says that the table's history is to be kept, and how that is lifted deliberately."""
    if declared is not None and not declared.reset_allowed:
        return "is declared reset_allowed = false", "set reset_allowed to true where it is declared"
    if snapshot.resists_reset:
        lifted = "set that property to true: where it is declared, followed by a run, or with ALTER TABLE"
        return f"has the property {RESET_ALLOWED} = false", lifted
    is_declared = declared is not None and declared.producer is not None
    if not is_declared and snapshot.properties.get(KEPT_FROM_RESET, "true").lower() == "false":
        return "was declared reset_allowed = false", "declare it with reset_allowed = true and run it once"
    return None


def _kept(table: Table, snapshot: Snapshot, said: str, where: str) -> ArgumentError:
    rows = "its rows" if snapshot.rows is None else f"{snapshot.rows:,} row{'' if snapshot.rows == 1 else 's'}"
    return ArgumentError(
        "table.reset_refused",
        f"{table.name} {said}: {rows} of history would be replaced.",
        f"Leave it out with --exclude {table.name}. If its history is to go, take a backup (tidemill backup "
        f"{table.name}), then allow it {where}.",
        origin=table.origin,
    )


def _cannot_be_rebuilt(table: Table) -> ArgumentError:
    return ArgumentError(
        "table.no_rebuild",
        f"{table.name} cannot be rebuilt: update changes only rows that are there, and its source gives no others.",
        f"Leave it out with --exclude {table.name}, or use upsert.",
        origin=table.origin,
    )


def _missing(table: Table) -> ArgumentError:
    return ArgumentError(
        "table.missing",
        f"{table.name} is not there, and update changes only rows that are.",
        "Use upsert to make it, or give the path of a table that is there.",
        origin=table.origin,
    )
