"""Tables by path or name, worked on by Spark: rows, backups, ways back, repairs. Importing this imports PySpark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.api import beside, check_one_way, located, moment_of, path_of, placed
from tidemill.api.logs import found
from tidemill.errors import ArgumentError
from tidemill.execution.journal import log_step
from tidemill.formats.filesystem import look
from tidemill.formats.registry import log_at, no_table_at, store_at
from tidemill.maintenance.backup import backup_table, check_free, restore_backup, restore_table, version_at
from tidemill.maintenance.repair import check_keys, dedup
from tidemill.spark.errors import translated
from tidemill.spark.session import session_for

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path
    from typing import Self

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from tidemill.api import Place
    from tidemill.formats.base import OnSpark
    from tidemill.maintenance.backup import BackupResult, RestoreResult
    from tidemill.maintenance.repair import CheckedKeys, Repaired
    from tidemill.model.project import SparkSettings


def read(target: str | Path, *, spark: SparkSession | None = None) -> DataFrame:
    """The rows of a table's last commit.

    The frame is lazy. When a later commit has removed files of a dataset before they are read, whatever runs the
    frame raises a `FilesGoneError`: read again.

    >>> tidemill.read("lake/orders").count()
    4
    """
    session = session_for(spark)
    path = located(target, session)

    def rows() -> DataFrame:
        store = store_at(path)
        if store.snapshot() is None:
            raise no_table_at(target)
        return store.read(session)

    return look(path, rows)


def restore(
    target: str | Path,
    *,
    to: int | None = None,
    at: datetime | str | None = None,
    backup: str | Path | None = None,
    spark: SparkSession | None = None,
    single_writer: bool = False,
) -> RestoreResult:
    """Goes back to version `to`, to the version of the moment `at`, or to a backup: rows and progress together.

    It is a commit of its own, so that another restore can take it back. A moment without a zone is by this machine's
    clock, as `tidemill history` shows them. `single_writer` as in `merge`.

    >>> tidemill.restore("lake/orders", to=0).total
    3
    """
    check_one_way(to, at, backup)
    if to is not None and not isinstance(to, int):
        raise ArgumentError("restore.bad_version", f"{to!r} is no version.", "Versions are whole numbers from 0 on.")
    moment = None if at is None else moment_of(at)
    with translated(f"Restoring {target}"):
        session = session_for(spark)
        if backup is not None:
            return restore_backup(
                session, placed(target, session), located(backup, session), single_writer=single_writer
            )
        path = located(target, session)
        version = to if moment is None else version_at(log_at(path), moment)
        assert version is not None  # noqa: S101  one of the three is given
        return restore_table(session, path, to=version, single_writer=single_writer)


def backup(
    target: str | Path,
    to: str | Path | None = None,
    *,
    spark: SparkSession | None = None,
    single_writer: bool = False,
) -> BackupResult:
    """Copies a table as it is, with its progress, to the path `to`, or beside it; `restore` goes back to it.

    `single_writer` as in `merge`.

    >>> tidemill.backup("lake/orders", to="lake/orders_before").total
    4
    """
    with translated(f"Copying {target}"):
        session = session_for(spark)
        path = located(target, session)
        copy = beside(path) if to is None else path_of(to)
        return backup_table(session, path, copy, single_writer=single_writer)


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What is done to tables as users name them, on a session that starts when it is needed; changes are in the ledger.

    What is wrong with a place is reported before Spark starts.
    """

    on_spark: OnSpark

    @classmethod
    def on(cls, spark: SparkSession | None, settings: SparkSettings) -> Self:
        """On this session, or on the Spark of the settings."""
        return cls(lambda work: work(session_for(spark, settings=settings)))

    def back_up(self, table: Place, to: Place) -> BackupResult:
        """Copies a table as it is, where nothing may be yet."""
        found(table)
        check_free(to.path)
        with log_step("backup", f"backup {table.name} --to {to.name}", to.name, to.path, table.folder) as kept:
            result = self.on_spark(
                lambda spark: backup(table.path, to.path, spark=spark, single_writer=to.single_writer)
            )
            kept.status, kept.version, kept.seconds = "created", 0, result.seconds
            return result

    def restore(
        self,
        table: Place,
        *,
        to: int | None = None,
        at: datetime | str | None = None,
        backup: Place | None = None,
    ) -> RestoreResult:
        """Takes a table back to a version, to that of a moment, or to a backup."""
        check_one_way(to, at, backup)
        moment = None if at is None else moment_of(at)
        way = f"--from {backup.name}" if backup else f"--to {to}" if moment is None else f"--at {moment}"
        with log_step("restore", f"restore {table.name} {way}", table.name, table.path, table.folder) as kept:
            found(backup or table)
            copy = backup.path if backup else None
            alone = table.single_writer
            result = self.on_spark(
                lambda spark: restore(table.path, to=to, at=moment, backup=copy, spark=spark, single_writer=alone)
            )
            kept.status, kept.version, kept.seconds = "restored", result.version, result.seconds
            return result

    def first_rows(self, path: str, limit: int) -> pa.Table:
        """Some rows of a table."""
        return self.on_spark(lambda spark: read(path, spark=spark).limit(limit).toArrow())

    def check_keys(self, path: str, keys: Sequence[str]) -> CheckedKeys:
        """Reads the key columns of the whole table."""
        return self.on_spark(lambda spark: check_keys(spark, path, keys))

    def dedup(self, path: str, keys: Sequence[str], order_by: Sequence[str]) -> Repaired:
        """Leaves one row of each key."""
        return self.on_spark(lambda spark: dedup(spark, path, keys, order_by))
