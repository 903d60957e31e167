"""Upkeep of a table's files, in either format: small files are joined, and those that nothing needs are removed.

What to do is chosen by the table's log, and Spark is asked for only where the format needs it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import singledispatch
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

from tidemill.errors import ArgumentError, ConflictError
from tidemill.formats.delta.log import DeltaLog
from tidemill.formats.parquet import compaction
from tidemill.formats.parquet.compaction import Compacted
from tidemill.formats.parquet.folder import not_written
from tidemill.formats.parquet.log import DatasetLog
from tidemill.formats.parquet.protocol import Moved, finishing, walk
from tidemill.spark.places import sized

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from tidemill.model.cursor import Duration

Done = TypeVar("Done")
RETENTION = "delta.deletedFileRetentionDuration"
_WEEK = timedelta(days=7)  # Delta's default
_PART = re.compile(r"(\d+)\s*(second|minute|hour|day|week)s?", re.IGNORECASE)


class OnSpark(Protocol):
    """Does work on a session, which it may have to start."""

    def __call__(self, work: Callable[[SparkSession], Done], /) -> Done: ...


@dataclass(frozen=True, slots=True)
class Asked:
    """What a vacuum was asked for: how long removed files are retained, whether a short time is meant, whether to ask
    only what it would do.
    """

    retain: Duration | None = None
    confirmed: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """The files of a Delta table that were removed, or would be; `bytes` is None where the store does not say."""

    files: int
    bytes: int | None
    retained_hours: float
    dry_run: bool

    @property
    def facts(self) -> list[str]:
        if not self.files:
            return ["nothing to remove"]
        size = "" if self.bytes is None else f" ({sized(self.bytes)})"
        files = f"1 file{size}" if self.files == 1 else f"{self.files:,} files{size}"
        days = f"{self.retained_hours / 24:g} days" if self.retained_hours >= 48 else f"{self.retained_hours:g} hours"  # noqa: PLR2004
        lost = f"versions that ended more than {days} ago cannot be restored"
        return [
            f"{files} would be removed" if self.dry_run else f"{files} removed",
            f"{lost} then" if self.dry_run else lost,
        ]


@dataclass(frozen=True, slots=True)
class Finished:
    """What interrupted runs had left in a dataset: a commit that was finished, attempts that were cleared."""

    finished_commit: int | None
    cleared: int
    bytes: int

    @property
    def facts(self) -> list[str]:
        done = [f"commit {self.finished_commit} finished"] if self.finished_commit is not None else []
        attempts = f"{self.cleared:,} interrupted attempt{'' if self.cleared == 1 else 's'} cleared"
        done += [f"{attempts} ({self.bytes:,} bytes)"] if self.cleared else []
        return done or ["whole, nothing to do"]


@singledispatch
def compact(log: DeltaLog | DatasetLog, target_size: int, on_spark: OnSpark, *, alone: bool = False) -> Compacted:
    """Joins small files until each has about this many bytes. Rows and progress stay."""
    raise NotImplementedError(log, target_size, on_spark, alone)


@compact.register
def _(log: DatasetLog, target_size: int, on_spark: OnSpark, *, alone: bool = False) -> Compacted:
    del on_spark, alone
    try:
        return compaction.compact(log.folder, target_size)
    except Moved as moved:
        raise ConflictError("run.conflict", f"{moved}.", "Nothing was changed. Compact it again.") from moved


@compact.register
def _(log: DeltaLog, target_size: int, on_spark: OnSpark, *, alone: bool = False) -> Compacted:
    from tidemill.execution.retry import with_retries  # noqa: PLC0415  it imports PySpark
    from tidemill.formats.delta.store import DeltaStore  # noqa: PLC0415

    store = DeltaStore(log.path, single_writer=alone)
    joined, written = on_spark(lambda spark: with_retries(log.path, lambda _: store.compact(spark, target_size)))
    return Compacted(joined, written, len(log.files()) - written, log.version())


@singledispatch
def vacuum(log: DeltaLog | DatasetLog, asked: Asked, on_spark: OnSpark, *, alone: bool = False) -> Vacuumed | Finished:
    """Removes the files that nothing needs any more."""
    raise NotImplementedError(log, asked, on_spark, alone)


@vacuum.register
def _(log: DatasetLog, asked: Asked, on_spark: OnSpark, *, alone: bool = False) -> Finished:
    del on_spark, alone
    if asked.retain or asked.dry_run:
        raise ArgumentError(
            "vacuum.only_delta",
            f"{log.path} is a Parquet dataset, which has no older versions: what a vacuum removes there was never part "
            "of it.",
            "Leave --retain and --dry-run out.",
        )
    return finish(log)


def finish(log: DatasetLog) -> Finished:
    """Finishes an interrupted commit of a dataset, and clears attempts that never came to theirs."""
    before = log.folder.staged_bytes()
    try:
        done = walk(finishing(log.folder))
    except OSError as failure:
        raise not_written(log.folder, failure) from failure
    freed = max(before - log.folder.staged_bytes(), 0) if done.attempts else 0
    return Finished(done.commit, done.attempts, freed)


@vacuum.register
def _(log: DeltaLog, asked: Asked, on_spark: OnSpark, *, alone: bool = False) -> Vacuumed:
    from tidemill.formats.delta.store import DeltaStore  # noqa: PLC0415  it imports PySpark

    store, length = DeltaStore(log.path, single_writer=alone), _retained(log, asked)
    hours = length / timedelta(hours=1)

    def remove(spark: SparkSession) -> tuple[int, int | None]:
        found = store.removable(spark, hours)
        sizes = [_size(file) for file in found]
        if found and not asked.dry_run:
            store.vacuum(spark, hours)
        return len(found), None if None in sizes else sum(size or 0 for size in sizes)

    files, size = on_spark(remove)
    return Vacuumed(files, size, hours, asked.dry_run)


def _retained(log: DeltaLog, asked: Asked) -> timedelta:
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
    place = urlsplit(address)
    return Path(unquote(place.path)).stat().st_size if place.scheme == "file" else None
