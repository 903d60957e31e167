"""Backup, restore and drop of tables, kept in the ledger: the same for the command line and for Python."""

from __future__ import annotations

import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.api import tables
from tidemill.api.arguments import check_one_way, moment_of
from tidemill.errors import ArgumentError, TableError, did_you_mean
from tidemill.execution.journal import keeping
from tidemill.formats.filesystem import file_system, only_writer
from tidemill.formats.registry import log_at
from tidemill.maintenance.backup import check_free
from tidemill.model.names import local_path
from tidemill.planning.refusals import protection

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from tidemill.api.arguments import Place
    from tidemill.formats.base import OnSpark
    from tidemill.maintenance.backup import BackupResult, RestoreResult
    from tidemill.model.record import Snapshot
    from tidemill.model.table import Table


def refuse_reset(name: str, snapshot: Snapshot, declared: Table | None) -> None:
    """Raises where the declaration, the table, or a declaration that is gone says that its history is to be kept."""
    found = protection(snapshot, declared)
    if found is None:
        return
    said, lifted = found
    rows = "its" if snapshot.rows is None else f"{snapshot.rows:,}"
    raise TableError(
        "table.reset_refused",
        f"{name} {said}: {rows} rows of history would be dropped.",
        f"Take a backup (tidemill backup {name}), then {lifted}.",
        origin=declared.origin if declared else None,
    )


def drop_table(path: str) -> None:
    """Removes the table at a path; on a local disk at once, so that a kill leaves no half of it."""
    folder = local_path(path)
    if folder is None:
        files, root = file_system(path)
        files.delete_dir(root)
        return
    going = folder.with_name(f".{folder.name}.tidemill-dropped-{uuid.uuid4().hex}")
    with only_writer(path):
        folder.rename(going)
    shutil.rmtree(going)


@dataclass(frozen=True, slots=True)
class DropResult:
    """The table that is gone, and how many rows it had, where its log says.

    >>> tidemill.Project.load("shop").drop("old_orders").table
    'old_orders'
    """

    table: str
    path: str
    rows: int | None


def back_up(table: Place, to: Place, on_spark: OnSpark) -> BackupResult:
    """Copies a table as it is, where nothing may be yet. What is wrong with either is reported before Spark starts."""
    _found(table)
    check_free(to.path)
    with keeping("backup", f"backup {table.name} --to {to.name}", to.name, to.path, table.folder) as kept:
        result = on_spark(lambda spark: tables.backup(table.path, to.path, spark=spark, single_writer=to.single_writer))
        kept.status, kept.version, kept.seconds = "created", 0, result.seconds
        return result


def restore(
    table: Place,
    on_spark: OnSpark,
    *,
    to: int | None = None,
    at: datetime | str | None = None,
    backup: Place | None = None,
) -> RestoreResult:
    """Takes a table back to a version, to that of a moment, or to a backup."""
    check_one_way(to, at, backup)
    moment = None if at is None else moment_of(at)
    way = f"--from {backup.name}" if backup else f"--to {to}" if moment is None else f"--at {moment}"
    with keeping("restore", f"restore {table.name} {way}", table.name, table.path, table.folder) as kept:
        _found(backup or table)  # what is not there is reported before Spark starts
        copy = backup.path if backup else None
        alone = table.single_writer
        result = on_spark(
            lambda spark: tables.restore(table.path, to=to, at=moment, backup=copy, spark=spark, single_writer=alone)
        )
        kept.status, kept.version, kept.seconds = "restored", result.version, result.seconds
        return result


def drop(
    table: Place, declared: Callable[[], Table | None], agree: Callable[[Snapshot], None] = lambda _: None
) -> DropResult:
    """Removes a table for good, unless its history is to be kept. `agree` raises where somebody says no."""
    with keeping("drop", f"drop {table.name}", table.name, table.path, table.folder) as kept:
        snapshot = _found(table)
        refuse_reset(table.name, snapshot, declared())
        agree(snapshot)
        drop_table(table.path)
        kept.status = "dropped"
    return DropResult(table.name, table.path, snapshot.rows)


def _found(table: Place) -> Snapshot:
    """The table as it is; where there is none, the error names the one that may be meant, beside it or declared."""
    snapshot = log_at(table.path).snapshot()
    if snapshot is None:
        raise missing(table)
    return snapshot


def missing(table: Place) -> ArgumentError:
    """The error for a table that is not there."""
    name = Path(table.path).name
    start = table.name.rstrip("/").removesuffix(name)  # a schema, or a folder
    declared = [each.removeprefix(start) for each in table.declared() if each.startswith(start)]
    close = did_you_mean(name, [*declared, *(each.name for each in Path(table.path).parent.glob("[!._]*"))])
    is_path = table.name == table.path or "/" in table.name
    otherwise = "Give the path of a table." if is_path else f"Nothing is at {table.path}."
    remedy = f"Did you mean {start}{close}?" if close else otherwise
    return ArgumentError("table.missing", f"There is no table {'at ' if is_path else ''}{table.name}.", remedy)
