"""Backup, restore and drop of tables, entered in the ledger: one way for the command line and for Python."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from tidemill import api
from tidemill.errors import ArgumentError, did_you_mean
from tidemill.run.keeping import keeping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from pyspark.sql import SparkSession

    from tidemill.contracts.snapshots import Snapshot
    from tidemill.declare.tables import Table
    from tidemill.run.upkeep.backup import BackupResult
    from tidemill.run.upkeep.restore import RestoreResult

Done = TypeVar("Done")


class OnSpark(Protocol):
    """Does work on a session, which it may have to start."""

    def __call__(self, work: Callable[[SparkSession], Done], /) -> Done: ...


@dataclass(frozen=True, slots=True)
class Place:
    """A table as a user names it, and where it is; the ledger is that of the project in `folder`.

    `single_writer`: the user's promise that no other process writes to it. `declared` gives the names of the project's
    tables, for one that is misspelled.
    """

    name: str
    path: str
    folder: Path | None = None
    single_writer: bool = False
    declared: Callable[[], Iterable[str]] = tuple


@dataclass(frozen=True, slots=True)
class DropResult:
    """The table that is gone, and how many rows it had, where its log says."""

    table: str
    path: str
    rows: int | None


def back_up(table: Place, to: Place, on_spark: OnSpark) -> BackupResult:
    """Copies a table as it is, where nothing may be yet. What is wrong with either is reported before Spark starts."""
    from tidemill.run.upkeep.backup import check_free  # noqa: PLC0415

    _found(table)
    check_free(to.path)
    with keeping("backup", f"backup {table.name} --to {to.name}", to.name, to.path, table.folder) as kept:
        result = on_spark(lambda spark: api.backup(table.path, to.path, spark=spark, single_writer=to.single_writer))
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
    api.check_one_way(to, at, backup)
    moment = None if at is None else api.moment_of(at)
    way = f"--from {backup.name}" if backup else f"--to {to}" if moment is None else f"--at {moment}"
    with keeping("restore", f"restore {table.name} {way}", table.name, table.path, table.folder) as kept:
        _found(backup or table)  # what is not there is reported before Spark starts
        copy = backup.path if backup else None
        alone = table.single_writer
        result = on_spark(
            lambda spark: api.restore(table.path, to=to, at=moment, backup=copy, spark=spark, single_writer=alone)
        )
        kept.status, kept.version, kept.seconds = "restored", result.version, result.seconds
        return result


def drop(
    table: Place, declared: Callable[[], Table | None], agree: Callable[[Snapshot], None] = lambda _: None
) -> DropResult:
    """Removes a table for good, unless its history is to be kept. `agree` raises where somebody says no."""
    from tidemill.run.upkeep.drop import drop_table, refuse_reset  # noqa: PLC0415

    with keeping("drop", f"drop {table.name}", table.name, table.path, table.folder) as kept:
        snapshot = _found(table)
        refuse_reset(table.name, snapshot, declared())
        agree(snapshot)
        drop_table(table.path)
        kept.status = "dropped"
    return DropResult(table.name, table.path, snapshot.rows)


def _found(table: Place) -> Snapshot:
    """The table as it is; where there is none, the error names the one that may be meant, beside it or declared."""
    from tidemill.state.logs import log_at  # noqa: PLC0415

    snapshot = log_at(table.path).snapshot()
    if snapshot is not None:
        return snapshot
    name = Path(table.path).name
    start = table.name.rstrip("/").removesuffix(name)  # a schema, or a folder
    declared = [each.removeprefix(start) for each in table.declared() if each.startswith(start)]
    close = did_you_mean(name, [*declared, *(each.name for each in Path(table.path).parent.glob("[!._]*"))])
    is_path = table.name == table.path or "/" in table.name
    otherwise = "Give the path of a table." if is_path else f"Nothing is at {table.path}."
    remedy = f"Did you mean {start}{close}?" if close else otherwise
    raise ArgumentError("table.missing", f"There is no table {'at ' if is_path else ''}{table.name}.", remedy)
