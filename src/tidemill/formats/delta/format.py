"""Delta tables as a table format. Nothing here imports Spark before a store is asked for."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError
from tidemill.formats.base import Compacted, Vacuumed
from tidemill.formats.delta import DELTA
from tidemill.formats.filesystem import is_folder
from tidemill.formats.port import TableFormat
from tidemill.model import local_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyarrow import fs
    from pyspark.sql import SparkSession

    from tidemill.formats.base import OnSpark, VacuumRequest
    from tidemill.formats.delta.log import DeltaLog
    from tidemill.formats.delta.store import DeltaStore


_RETENTION = "delta.deletedFileRetentionDuration"
_WEEK = timedelta(days=7)  # Delta's default
_PART = re.compile(r"(\d+)\s*(second|minute|hour|day|week)s?", re.IGNORECASE)


class DeltaFormat(TableFormat):
    """Tables with Delta's log beside their files."""

    traits = DELTA

    def is_at(self, path: str) -> bool:
        return "://" in path or (Path(path) / "_delta_log").is_dir()

    def is_in(self, files: fs.FileSystem, folder: str) -> bool:
        return is_folder(files, f"{folder}/_delta_log")

    def log(self, path: str) -> DeltaLog:
        from tidemill.formats.delta.log import DeltaLog  # noqa: PLC0415  slow to import

        return DeltaLog(path)

    def store(
        self,
        path: str,
        *,
        properties: Mapping[str, str] | None = None,
        partition_by: Sequence[str] = (),
        single_writer: bool = False,
    ) -> DeltaStore:
        from tidemill.formats.delta.store import DeltaStore  # noqa: PLC0415  it imports PySpark

        return DeltaStore(path, properties=properties, partition_by=partition_by, single_writer=single_writer)

    def compact(self, path: str, target_size: int, on_spark: OnSpark, *, single_writer: bool = False) -> Compacted:
        """By Delta's own OPTIMIZE."""
        store = self.store(path, single_writer=single_writer)
        joined, written = on_spark(lambda spark: store.compact(spark, target_size))
        return Compacted(joined, written, len(store.log.files()) - written, store.log.version())

    def vacuum(self, path: str, asked: VacuumRequest, on_spark: OnSpark, *, single_writer: bool = False) -> Vacuumed:
        """By Delta's own VACUUM, with the retention that the table says."""
        store, length = self.store(path, single_writer=single_writer), _retained(self.log(path), asked)
        if not asked.dry_run:
            _check_followed(self.log(path), asked, length)
        hours = length / timedelta(hours=1)

        def remove(spark: SparkSession) -> tuple[int, int | None]:
            found = store.removable(spark, hours)
            sizes = [_size(file) for file in found]
            if found and not asked.dry_run:
                store.vacuum(spark, hours)
            return len(found), None if None in sizes else sum(size or 0 for size in sizes)

        files, size = on_spark(remove)
        return Vacuumed(files, size, hours, asked.dry_run)


def interval(text: str) -> timedelta | None:
    """A length of time as Delta's properties say it, such as `interval 30 days`; None where they say nothing."""
    parts = [timedelta(**{f"{unit.lower()}s": int(count)}) for count, unit in _PART.findall(text)]
    return sum(parts, timedelta()) if parts else None


def _retained(log: DeltaLog, asked: VacuumRequest) -> timedelta:
    """How long removed files stay; less than the table says has to be confirmed."""
    kept = interval(log.described().properties.get(_RETENTION, "")) or _WEEK
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


def _check_followed(log: DeltaLog, asked: VacuumRequest, length: timedelta) -> None:
    """An error where a view still has to read files that would be removed."""
    from tidemill.formats.delta.kept import first_removal  # noqa: PLC0415  few ask

    now = datetime.now(UTC)
    removed = {each: first_removal(log, each.version, now - length) for each in asked.followers()}
    needed = {each: moment for each, moment in removed.items() if moment is not None}
    if not needed:
        return
    versions = " and ".join(f"{each.view} from version {each.version} on" for each in needed)
    days = math.ceil((now - min(needed.values())) / timedelta(days=1))
    has, names = "has" if len(needed) == 1 else "have", ",".join(each.view for each in needed)
    run = next(iter(needed)).run
    raise ArgumentError(
        "vacuum.followed",
        f"{versions} {has} yet to follow the changes of {log.path}, and files would be removed that these are read "
        "from: the next run would have to compute all rows.",
        f"Run first: {run} -s {names}; or retain files for longer: "
        f'--retain "{days} day{"" if days == 1 else "s"}". Nothing was removed.',
    )


def _size(address: str) -> int | None:
    file = local_path(address, escaped=True)
    return file.stat().st_size if file else None
