"""Copies of a table with what it has processed, and the way back from one: rows and progress in one commit."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidemill.contracts.operations import AppendRows, OverwriteRows
from tidemill.declare.names import COLUMN_MAPPING
from tidemill.errors import ArgumentError
from tidemill.run.retry import with_retries
from tidemill.run.upkeep.restore import RestoreResult, signed
from tidemill.state.logs import format_at, log_at
from tidemill.stores.opened import store_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemill.contracts.records import Record
    from tidemill.contracts.snapshots import Snapshot
    from tidemill.stores.opened import AnyStore

_NUMBERED_COLUMNS = COLUMN_MAPPING.removesuffix("mode")
_NO_COUNTS = {"inserted": 0, "updated": 0, "deleted": 0, "unchanged": 0}


@dataclass(frozen=True, slots=True)
class BackupResult:
    """`path` is the copy, which holds the rows and the progress of the table's version `version`."""

    path: str
    version: int
    total: int
    watermark: str | None
    seconds: float


def beside(table: str, now: datetime | None = None) -> str:
    """What a backup is called where nobody says: the table, and when it was made."""
    return f"{table.rstrip('/')}__backup_{now or datetime.now(UTC):%Y%m%d_%H%M%S}"


def check_free(path: str) -> None:
    """A backup never replaces anything."""
    if log_at(path).exists():
        raise ArgumentError("backup.exists", f"There is a table at {path} already.", "Give the backup another name.")


def backup_table(spark: SparkSession, path: str, to: str, *, single_writer: bool = False) -> BackupResult:
    """Copies the table as it is to `to`, where nothing may be yet. One commit: there is a whole copy, or none."""
    began = time.monotonic()
    check_free(to)
    held = store_at(path, single_writer=single_writer)
    snapshot = held.snapshot()
    if snapshot is None:
        raise ArgumentError("table.missing", f"There is no table at {path}.", "Give the path of a table.")
    store = _like(held, to, snapshot)
    record = signed(state_of(snapshot), path, sequence=1, what="backup").with_(held=0)
    store.commit(spark, AppendRows(held.read(spark, snapshot.version)), record, None)
    return BackupResult(to, snapshot.version, _total(store, spark), _watermark(record), time.monotonic() - began)


def restore_backup(spark: SparkSession, path: str, backup: str, *, single_writer: bool = False) -> RestoreResult:
    """The table becomes what its backup holds, columns and progress included, in one commit; it is made if need be.

    A backup may be any table. One that says nothing of its progress is taken as far as its rows go.
    """
    began = time.monotonic()
    kept = store_at(backup).snapshot()
    if kept is None:
        raise ArgumentError(
            "restore.no_backup", f"There is no table at {backup}.", "Give the name or the path of a backup."
        )
    copy = store_at(backup, single_writer=single_writer)
    store = _like(store_at(path, single_writer=single_writer) if format_at(path) else copy, path, kept)
    return with_retries(path, lambda attempt: _restore(spark, store, copy, kept, began, attempt))


def _restore(
    spark: SparkSession, store: AnyStore, copy: AnyStore, kept: Snapshot, began: float, attempt: int
) -> RestoreResult:
    path, backup = store.path, copy.path
    snapshot, rows = store.snapshot(), copy.read(spark, kept.version)
    total = rows.count() if kept.rows is None else kept.rows
    sequence = snapshot.sequence + 1 if snapshot else 1
    record = signed(state_of(kept), path, sequence=sequence, what="restore", attempt=attempt)
    # Its rows are those of the backup, and none of them is new: `held` says how many the table has from here on.
    record = record.with_(restored_from=backup, counts=_NO_COUNTS, held=total)
    committed = store.commit(spark, OverwriteRows(rows), record, snapshot)
    undo = snapshot.version if snapshot else None
    return RestoreResult(
        committed.version, None, total, _watermark(record), time.monotonic() - began, backup=backup, undo=undo
    )


def state_of(snapshot: Snapshot) -> Record | None:
    """What a table has processed. After foreign commits only its rows can tell: no progress."""
    touched = any(commit.adds_rows or commit.removes_rows for commit in snapshot.foreign)
    if snapshot.record is None or not touched:
        return snapshot.record
    return snapshot.record.with_(progress={}, unique=False, highest=None)


def _like(store: AnyStore, path: str, snapshot: Snapshot) -> AnyStore:
    """A table of the same format as the store's, laid out as the snapshot."""
    return store.like(path, properties=_properties(snapshot), partition_by=snapshot.partition_columns)


def _properties(snapshot: Snapshot) -> dict[str, str]:
    """Delta's own ones. A backup is not kept from being dropped, and Delta numbers its columns itself."""
    own = {name: value for name, value in snapshot.properties.items() if name.startswith("delta.")}
    return {name: own[name] for name in own if name == COLUMN_MAPPING or not name.startswith(_NUMBERED_COLUMNS)}


def _watermark(record: Record) -> str | None:
    return next((str(value) for value in record.progress.values()), None)


def _total(store: AnyStore, spark: SparkSession) -> int:
    snapshot = store.snapshot()
    return snapshot.rows if snapshot and snapshot.rows is not None else store.count(spark)
