"""Upkeep of a Delta table's files: its own OPTIMIZE and VACUUM, with the retention that the table says."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError
from tidemill.formats.base import Compacted, Vacuumed
from tidemill.formats.delta.log import DeltaLog
from tidemill.model.names import local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemill.formats.base import OnSpark, VacuumRequest

RETENTION = "delta.deletedFileRetentionDuration"
_WEEK = timedelta(days=7)  # Delta's default
_PART = re.compile(r"(\d+)\s*(second|minute|hour|day|week)s?", re.IGNORECASE)


def compact(path: str, target_size: int, on_spark: OnSpark, *, single_writer: bool) -> Compacted:
    from tidemill.formats.delta.store import DeltaStore  # noqa: PLC0415  it imports PySpark

    store = DeltaStore(path, single_writer=single_writer)
    joined, written = on_spark(lambda spark: store.compact(spark, target_size))
    return Compacted(joined, written, len(store.log.files()) - written, store.log.version())


def vacuum(path: str, asked: VacuumRequest, on_spark: OnSpark, *, single_writer: bool) -> Vacuumed:
    from tidemill.formats.delta.store import DeltaStore  # noqa: PLC0415  it imports PySpark

    store, length = DeltaStore(path, single_writer=single_writer), _retained(DeltaLog(path), asked)
    hours = length / timedelta(hours=1)

    def remove(spark: SparkSession) -> tuple[int, int | None]:
        found = store.removable(spark, hours)
        sizes = [_size(file) for file in found]
        if found and not asked.dry_run:
            store.vacuum(spark, hours)
        return len(found), None if None in sizes else sum(size or 0 for size in sizes)

    files, size = on_spark(remove)
    return Vacuumed(files, size, hours, asked.dry_run)


def _retained(log: DeltaLog, asked: VacuumRequest) -> timedelta:
    """How long removed files stay; less than the table says has to be confirmed."""
    held = log.described().properties.get(RETENTION)
    parts = _PART.findall(held or "")
    kept = sum((timedelta(**{f"{unit.lower()}s": int(count)}) for count, unit in parts), timedelta()) or _WEEK
    if asked.retain is None:
        return kept
    now = datetime.now(UTC)
    length = now - asked.retain.before(now)
    if length < kept and not (asked.confirmed or asked.dry_run):
        raise ArgumentError(
            "vacuum.short_retention",
            f"{log.path} retains removed files for {kept / timedelta(days=1):g} days, and {asked.retain} is less: "
            "versions that ended before that could no longer be read or restored, and a run that is at work now could "
            "lose files that it has written.",
            "Leave --retain out; or say --confirm, when nothing else writes to the table. --dry-run shows what would "
            "go. Nothing was removed.",
        )
    return length


def _size(address: str) -> int | None:
    file = local_path(address, escaped=True)
    return file.stat().st_size if file else None
