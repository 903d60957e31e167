"""Tables by path or name, as Python code asks for them: rows, commits, ways back. Importing this imports no Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.api.arguments import check_one_way, located, moment_of, path_of, placed
from tidemill.errors import ArgumentError
from tidemill.execution.retry import look
from tidemill.formats.history import History
from tidemill.formats.registry import log_at, store_at
from tidemill.maintenance.backup import backup_table, beside, restore_backup, restore_table, version_at
from tidemill.spark.errors import translated
from tidemill.spark.session import session_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tidemill.maintenance.backup import BackupResult, RestoreResult
    from tidemill.model.record import Commit


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
            raise ArgumentError(
                "table.missing", f"There is no table at {target}.", "Give the path or the name of a table."
            )
        return store.read(session)

    return look(path, rows)


def history(target: str | Path, limit: int | None = None) -> History:
    """The commits of the table at a path, newest first, with their records; a list that prints as a table. No JVM.

    >>> [commit.version for commit in tidemill.history("lake/orders", limit=2)]
    [1, 0]
    """
    return History(commits_of(target, limit))


def commits_of(target: str | Path, limit: int | None = None) -> Iterator[Commit]:
    """The same, each read when it is asked for."""
    if limit is not None and (not isinstance(limit, int) or limit < 0):
        raise ArgumentError("history.bad_limit", f"{limit!r} is no number of commits.", "Give one, or leave it out.")
    log = log_at(path_of(target))
    if log.snapshot() is None:
        raise ArgumentError("table.missing", f"There is no table at {target}.", "Give the path of a table.")
    return log.commits(limit)


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
