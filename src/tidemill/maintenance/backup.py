"""Copies of a table with its progress, and ways back to one or to an older version: rows and progress together."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError
from tidemill.formats import Capability
from tidemill.formats.base import AppendRows, OverwriteRows
from tidemill.formats.filesystem import with_retries
from tidemill.formats.registry import format_at, log_at, no_table_at, store_at
from tidemill.model import KEPT_FROM_RESET, RESET_ALLOWED
from tidemill.model.record import RESTORE_BEGINS, Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemill.formats.port import Store, TableLog
    from tidemill.model.record import Snapshot


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """`version` is the new version, which holds the rows and the progress of version `restored`, or of `backup`.

    `undo` is the version that a restore goes back to which takes this one back; None if there was no table.

    >>> result = tidemill.restore("lake/orders", to=0)
    >>> result.restored, result.undo
    (0, 1)
    """

    version: int
    restored: int | None
    total: int
    watermark: str | None
    seconds: float
    backup: str | None = None
    undo: int | None = None


def restore_table(spark: SparkSession, path: str, *, to: int, single_writer: bool = False) -> RestoreResult:
    """Restores the rows and the progress of version `to`, as new commits; itself it can be restored from."""
    began = time.monotonic()
    store = _store(path, single_writer=single_writer)
    store.check_writer(spark)
    record, before = with_retries(path, lambda attempt: _restore(spark, store, to, attempt))
    with_retries(path, lambda _: _keep_protected(spark, store, before))
    snapshot = store.snapshot()
    assert snapshot is not None  # noqa: S101  it was restored
    watermark = next((str(value) for value in record.progress.values()), None)
    total = store.read(spark).count()
    return RestoreResult(snapshot.version, to, total, watermark, time.monotonic() - began, undo=before.version)


def version_at(log: TableLog, moment: datetime) -> int:
    """The version that the table had at a moment, by the times that its log tells; reads no rows."""
    oldest = None
    for commit in log.commits():
        if commit.at and datetime.fromisoformat(commit.at) <= moment:
            return commit.version
        oldest = commit
    since = f" {oldest.at}" if oldest else ""
    raise ArgumentError(
        "restore.too_early",
        f"{log.path} has no version of {moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC: its log begins at{since}.",
        "Choose a later time, or a version that tidemill history shows.",
    )


def signed(
    record: Record | None, table: str, *, sequence: int, what: str, attempt: int = 0, run: str | None = None
) -> Record:
    """The record with the state it had, under a new name or that of a `run`; it counts no rows of its own."""
    signature = {
        "run_id": run or f"{uuid.uuid4().hex}-{attempt}",
        "sequence": sequence,
        "strategy": what,
        "at": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }
    if record is None:
        return Record(table=table, **signature)  # type: ignore[arg-type]
    return record.with_(rows=0, counts={}, window={}, restored_from=None, base=None, held=None, **signature)


def _store(path: str, *, single_writer: bool) -> Store:
    """The table's store, if it holds older versions."""
    store = store_at(path, single_writer=single_writer)
    if store.can(Capability.TIME_TRAVEL):
        return store
    raise store.no_older_versions()


def _restore(spark: SparkSession, store: Store, to: int, attempt: int) -> tuple[Record, Snapshot]:
    """Takes a sequence number before and after, so that a run planned on the old rows conflicts wherever it stands."""
    snapshot = store.snapshot()
    if snapshot is None:
        raise no_table_at(store.path)
    run = f"{uuid.uuid4().hex}-{attempt}"
    then = _record_at(store, snapshot, to)
    store.check_files(spark, to)
    path, number = store.path, snapshot.sequence
    begins = signed(snapshot.record, path, sequence=number + 1, what=RESTORE_BEGINS, run=f"{run}-begins")
    ends = signed(then, path, sequence=number + 2, what="restore", run=run).with_(restored_from=to)
    store.commit_record(spark, begins, after=snapshot.version)
    store.restore(spark, to, ends)
    store.commit_record(spark, ends, after=snapshot.version)
    return ends, snapshot


def _keep_protected(spark: SparkSession, store: Store, before: Snapshot) -> None:
    """An older version has its own properties; those that keep a table from being dropped are not lifted by it."""
    now = store.snapshot()
    held = now.properties if now else {}
    kept = {name: before.properties[name] for name in (RESET_ALLOWED, KEPT_FROM_RESET) if name in before.properties}
    lost = {name: value for name, value in kept.items() if held.get(name) != value}
    if lost:
        store.set_properties(spark, lost)


def _record_at(store: Store, snapshot: Snapshot, version: int) -> Record | None:
    """What the table had processed at a version. After foreign commits only the rows can tell: no progress."""
    foreign = False
    for number in range(version, -1, -1):
        commit = store.log.commit(number)
        if commit is None:
            break
        if commit.record is not None:
            return _untrusted(commit.record) if foreign else commit.record
        foreign = foreign or commit.adds_rows or commit.removes_rows
    if version > snapshot.version or store.log.commit(version) is None:
        raise ArgumentError(
            "restore.no_version",
            f"{store.path} has no version {version}: it is at {snapshot.version}, "
            f"and its log goes back to {_oldest(store)}.",
            "Choose a version that tidemill history shows.",
        )
    return None


def _oldest(store: Store) -> int:
    return min(commit.version for commit in store.commits())


_NO_COUNTS = {"inserted": 0, "updated": 0, "deleted": 0, "unchanged": 0}


@dataclass(frozen=True, slots=True)
class BackupResult:
    """`path` is the copy, which holds the rows and the progress of the table's version `version`.

    >>> result = tidemill.Project.load("shop").backup("daily", to="daily_before")
    >>> result.version == tidemill.history("shop/warehouse/main/daily")[0].version
    True
    """

    path: str
    version: int
    total: int
    watermark: str | None
    seconds: float


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
        raise no_table_at(path)
    store = held.like(to, snapshot)
    record = signed(state_of(snapshot), path, sequence=1, what="backup").with_(held=0)
    record = _with_sums(spark, path, to, record, single_writer=single_writer)
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
    there = store_at(path, single_writer=single_writer) if format_at(path) else copy
    store = there.like(path, kept)
    return with_retries(
        path, lambda attempt: _restore_from(spark, store, copy, kept, began, attempt, single_writer=single_writer)
    )


def _restore_from(
    spark: SparkSession,
    store: Store,
    copy: Store,
    kept: Snapshot,
    began: float,
    attempt: int,
    *,
    single_writer: bool,
) -> RestoreResult:
    path, backup = store.path, copy.path
    snapshot, rows = store.snapshot(), copy.read(spark, kept.version)
    total = rows.count() if kept.rows is None else kept.rows
    sequence = snapshot.sequence + 1 if snapshot else 1
    record = signed(state_of(kept), path, sequence=sequence, what="restore", attempt=attempt)
    # Its rows are those of the backup, and none of them is new: `held` says how many the table has from here on.
    record = record.with_(restored_from=backup, counts=_NO_COUNTS, held=total)
    record = _with_sums(spark, backup, path, record, single_writer=single_writer)
    committed = store.commit(spark, OverwriteRows(rows), record, snapshot)
    undo = snapshot.version if snapshot else None
    return RestoreResult(
        committed.version, None, total, _watermark(record), time.monotonic() - began, backup=backup, undo=undo
    )


def _with_sums(spark: SparkSession, path: str, to: str, record: Record, *, single_writer: bool) -> Record:
    """The sums beside a materialized view are copied before its rows."""
    if record.sums is None:
        return record
    from tidemill.execution.view_sums import copy_sums  # noqa: PLC0415  few tables have some

    return record.with_(sums=copy_sums(spark, path, to, record, single_writer=single_writer))


def state_of(snapshot: Snapshot) -> Record | None:
    """What a table has processed. After foreign commits only its rows can tell: no progress."""
    touched = any(commit.adds_rows or commit.removes_rows for commit in snapshot.foreign)
    return _untrusted(snapshot.record) if snapshot.record and touched else snapshot.record


def _untrusted(record: Record) -> Record:
    """The record of rows that others have changed: nobody knows how far they go, and of which inputs they are."""
    return record.with_(progress={}, input_versions={}, unique=False, highest=None, sums=None)


def _watermark(record: Record) -> str | None:
    return next((str(value) for value in record.progress.values()), None)


def _total(store: Store, spark: SparkSession) -> int:
    snapshot = store.snapshot()
    return snapshot.rows if snapshot and snapshot.rows is not None else store.count(spark)
