"""The calls that users make from Python. Spark is imported when one of them needs it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemill.display import html_table
from tidemill.errors import ArgumentError, TidemillError
from tidemill.formats.registry import format_at
from tidemill.model.format import COMPRESSION, DEFAULT_FORMAT, PARQUET, Capability, can, known_codec, known_format
from tidemill.model.names import absolute, local_path
from tidemill.model.project import SparkSettings, find_project
from tidemill.model.strategy import Merge, MergeStrategy, merge_form
from tidemill.model.table import SchemaPolicy, Table, schema_policy
from tidemill.model.variables import NOTHING_GIVEN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from tidemill.execution.results import Listener, StepResult
    from tidemill.formats.history import History
    from tidemill.maintenance.backup import BackupResult, RestoreResult
    from tidemill.model.record import Commit
    from tidemill.sources.files.source import FileSource
    from tidemill.sources.frames import FrameSource, Rows

_TABLE_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*){1,2}")


@dataclass(frozen=True, slots=True)
class MergeResult:
    """What a merge did to the rows and files of its target. Every number is exact.

    `status` is created, changed or unchanged; a table that has lost columns is changed, whatever its rows did.

    >>> result = tidemill.merge([{"order_id": 1, "amount": 9.5}], "lake/one", on="order_id")
    >>> result.inserted, result.status
    (1, 'created')
    """

    inserted: int
    updated: int
    deleted: int
    unchanged: int
    ignored: int
    total: int
    files_rewritten: int
    files_kept: int
    seconds: float
    version: int
    created: bool = False
    status: str = "unchanged"
    notices: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        names = self._counted()
        seconds = f"{self.seconds:.1f}"
        caption = " · ".join((self.status, *self.notices))
        return html_table([*names, "seconds"], [[*(getattr(self, name) for name in names), seconds]], caption)

    def _counted(self) -> list[str]:
        names = ("inserted", "updated", "deleted", "unchanged", "ignored", "total", "files_rewritten", "files_kept")
        return [name for name in names if name != "ignored" or self.ignored]

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name}={getattr(self, name):_}" for name in self._counted())
        notices = f", notices={self.notices!r}" if self.notices else ""
        return f"MergeResult({numbers}, seconds={self.seconds:.1f}{notices})"


def merge(
    source: Rows | str | Path,
    target: str | Path,
    on: str | Iterable[str],
    strategy: MergeStrategy | str = MergeStrategy.UPSERT,
    *,
    dedup_order_by: str | Iterable[str] | None = None,
    only_newer: str | None = None,
    volatile: str | Iterable[str] = (),
    schema_policy: SchemaPolicy | str = SchemaPolicy.FAIL,
    max_shrink: float | None = None,
    format: str | None = None,  # noqa: A002  the word that users know
    spark: SparkSession | None = None,
    single_writer: bool = False,
) -> MergeResult:
    """Merges rows into the table at `target` by the key columns `on`, in one commit, or in none when nothing differs.

    `source` is a Spark, pandas or Polars DataFrame, a pyarrow Table, a DuckDB relation or anything else with
    `__arrow_c_stream__`, a list of dicts, or a path; `target` a path or the name of a table that `spark` knows. A
    target that is not there is made.

    - `strategy`: upsert, insert (new keys only), update (known keys only), full_merge (keys that the source lacks are
      deleted) or deduplicate (upsert of one row per key: the highest by `dedup_order_by`)
    - `only_newer`: a row replaces the stored one only if it is not older by this column
    - `volatile`: columns that take no part in the comparison, such as a load time
    - `schema_policy`: fail, ignore, append_new_columns or sync_all_columns, where the columns are not the table's
    - `max_shrink`: the share of the rows that a full_merge may delete, such as 0.1
    - `format`: delta or parquet; None asks what is there, and a new table is delta
    - `spark`: the session to run on; else the active one, or an embedded one
    - `single_writer`: your promise that no other process writes to the target; on S3 a Delta table needs it, or a
      session with a LogStore that is safe for several writers

    What is wrong raises a `TidemillError`, and the table is as it was. `dataclasses.asdict(result)` is the result for
    JSON. In the folder of a project the merge is in its ledger (`tidemill runs`) like the command; elsewhere it is in
    none.

    >>> tidemill.merge("changes.csv", "lake/sales", on="order_id")
    MergeResult(inserted=1, updated=1, deleted=0, unchanged=1, total=4, ...)
    """
    table = merge_table(
        target,
        on,
        strategy,
        dedup_order_by=dedup_order_by,
        only_newer=only_newer,
        volatile=volatile,
        policy=schema_policy,
        max_shrink=max_shrink,
        format_=format,
        single_writer=single_writer,
    )
    return _merge_result(kept_merge(source, table, spark))


def merge_parquet_dataset(
    source: Rows | str | Path,
    target_path: str | Path,
    key_columns: str | Iterable[str],
    strategy: MergeStrategy | str = MergeStrategy.UPSERT,
    dedup_order_by: str | Iterable[str] | None = None,
    compression: str = "snappy",
    spark: SparkSession | None = None,
) -> dict[str, int]:
    """Merges rows into a plain Parquet dataset, a folder that any tool reads; in one commit, or in none.

    Only files that hold a changed row are rewritten, with this compression. Gives what was inserted, updated (rows
    that really changed) and deleted, and the rows that the dataset holds now, in total.

    >>> tidemill.merge_parquet_dataset("changes.csv", "lake/dataset", "order_id")
    {'inserted': 3, 'updated': 0, 'deleted': 0, 'total': 3}
    """
    table = merge_table(
        target_path,
        key_columns,
        strategy,
        dedup_order_by=dedup_order_by,
        format_=PARQUET.name,
        compression=compression,
    )
    result = _merge_result(kept_merge(source, table, spark))
    return {name: getattr(result, name) for name in ("inserted", "updated", "deleted", "total")}


def read(target: str | Path, *, spark: SparkSession | None = None) -> DataFrame:
    """The rows of a table's last commit.

    The frame is lazy. When a later commit has removed files of a dataset before they are read, whatever runs the
    frame raises a `FilesGoneError`: read again.

    >>> tidemill.read("lake/orders").count()
    4
    """
    from tidemill.formats.attempts import look  # noqa: PLC0415
    from tidemill.formats.registry import store_at  # noqa: PLC0415
    from tidemill.spark.session import session_for  # noqa: PLC0415

    session = session_for(spark)
    path = _located(target, session)

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
    from tidemill.formats.history import History  # noqa: PLC0415

    return History(commits_of(target, limit))


def commits_of(target: str | Path, limit: int | None = None) -> Iterator[Commit]:
    """The same, each read when it is asked for."""
    from tidemill.formats.registry import log_at  # noqa: PLC0415

    if limit is not None and (not isinstance(limit, int) or limit < 0):
        raise ArgumentError("history.bad_limit", f"{limit!r} is no number of commits.", "Give one, or leave it out.")
    log = log_at(_absolute(target))
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
    from tidemill.formats.registry import log_at  # noqa: PLC0415
    from tidemill.maintenance.backup import restore_backup, restore_table, version_at  # noqa: PLC0415
    from tidemill.spark.errors import translated  # noqa: PLC0415
    from tidemill.spark.session import session_for  # noqa: PLC0415

    check_one_way(to, at, backup)
    if to is not None and not isinstance(to, int):
        raise ArgumentError("restore.bad_version", f"{to!r} is no version.", "Versions are whole numbers from 0 on.")
    moment = None if at is None else moment_of(at)
    with translated(f"Restoring {target}"):
        session = session_for(spark)
        if backup is not None:
            return restore_backup(
                session, _placed(target, session), _located(backup, session), single_writer=single_writer
            )
        path = _located(target, session)
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
    from tidemill.maintenance.backup import backup_table, beside  # noqa: PLC0415
    from tidemill.spark.errors import translated  # noqa: PLC0415
    from tidemill.spark.session import session_for  # noqa: PLC0415

    with translated(f"Copying {target}"):
        session = session_for(spark)
        path = _located(target, session)
        copy = beside(path) if to is None else _absolute(to)
        return backup_table(session, path, copy, single_writer=single_writer)


def check_one_way(to: object, at: object, backup: object) -> None:
    """A restore goes back to one thing."""
    if sum(way is not None for way in (to, at, backup)) != 1:
        raise ArgumentError(
            "restore.one_way",
            "A restore goes back to one of three: a version, the version of a moment, or a backup.",
            "Say --to VERSION, --at TIME or --from BACKUP (in Python: to, at or backup).",
        )


def moment_of(at: datetime | str) -> datetime:
    """A moment as users write it, such as 2026-02-04 06:00; without a zone it is by this machine's clock."""
    try:
        return (at if isinstance(at, datetime) else datetime.fromisoformat(at)).astimezone()
    except (ValueError, TypeError) as bad:
        raise ArgumentError(
            "restore.bad_time", f"{at!r} is no moment.", 'Write it as "2026-02-04 06:00" or 2026-02-04T06:00:00Z.'
        ) from bad


def merge_table(
    target: str | Path,
    on: str | Iterable[str],
    strategy: MergeStrategy | str,
    *,
    dedup_order_by: str | Iterable[str] | None = None,
    only_newer: str | None = None,
    volatile: str | Iterable[str] = (),
    policy: SchemaPolicy | str = SchemaPolicy.FAIL,
    max_shrink: float | None = None,
    format_: str | None = None,
    compression: str | None = None,
    partition_by: str | Iterable[str] = (),
    single_writer: bool = False,
) -> Table:
    """The declaration behind a merge; everything that can be wrong without looking at rows is an error here."""
    form = merge_form(strategy)
    if max_shrink is not None and form is not MergeStrategy.FULL_MERGE:
        raise ArgumentError(
            "merge.max_shrink",
            f"max_shrink guards full_merge; {form} deletes nothing.",
            "Leave it out, or use full_merge.",
        )
    if only_newer is not None and (not isinstance(only_newer, str) or not only_newer):
        raise ArgumentError(
            "merge.only_newer", f"only_newer names one column, and {only_newer!r} is no name.", "Give it as a text."
        )
    there = format_at(_absolute(target))
    kept_as = there or DEFAULT_FORMAT if format_ is None else known_format(format_)
    if compression and not can(kept_as, Capability.COMPRESSION):
        raise ArgumentError(
            "merge.compression",
            f"{target} is kept as {kept_as}, and compression is for Parquet datasets.",
            "Leave it out, or say that the table is a dataset: --table-format parquet.",
        )
    return Table(
        name=str(target),
        path=str(target),
        strategy=Merge(_names(on), form, _names(dedup_order_by), only_newer, max_shrink),
        volatile=_names(volatile),
        schema_policy=schema_policy(policy),
        format=kept_as,
        properties={COMPRESSION: known_codec(compression)} if compression else {},
        partition_by=_names(partition_by),
        single_writer=single_writer,
    )


def run_merge(source: Rows | str | Path, table: Table, spark: SparkSession | None = None, **how: Any) -> MergeResult:
    """The result of a declared merge, which no ledger hears of; `how` goes to `merge_step`."""
    return _merge_result(merge_step(source, table, spark, **how))


def kept_merge(source: Rows | str | Path, table: Table, spark: SparkSession | None = None) -> StepResult:
    """A merge that is in the ledger of the project in the current folder; outside of projects there is none."""
    from tidemill.execution.journal import keeping_merge  # noqa: PLC0415

    if find_project(Path.cwd()) is None:
        return merge_step(source, table, spark)
    named = source if isinstance(source, str | Path) else f"<{type(source).__name__}>"
    with keeping_merge(table, f"merge {named} {table.name}") as kept:
        return merge_step(source, table, spark, listener=kept)


def merge_step(
    source: Rows | str | Path,
    table: Table,
    spark: SparkSession | None = None,
    *,
    settings: SparkSettings | None = None,
    options: Mapping[str, str] = NOTHING_GIVEN,
    small: bool | None = False,
    dry_run: bool = False,
    listener: Listener | None = None,
) -> StepResult:
    """Runs a declared merge, or only says what it would do. Files are read with these options of Spark.

    Without a session it runs on the Spark of the settings; `small` starts the embedded one for a short job, and None
    asks the source and the table whether it is one. `listener` hears of the step like one of a run.
    """
    from tidemill.execution.results import Outcome, Silent  # noqa: PLC0415

    listener, began = listener or Silent(), time.monotonic()
    listener.began(table.name)
    try:
        result = _merged(_rows_of(source, options), table, spark, settings, small=small, dry_run=dry_run)
    except TidemillError as failure:
        listener.ended(Outcome(table.name, error=failure, seconds=time.monotonic() - began))
        raise
    listener.ended(Outcome(table.name, result, seconds=time.monotonic() - began))
    return result


def _rows_of(source: Rows | str | Path, options: Mapping[str, str]) -> FileSource | FrameSource:
    from tidemill.sources.frames import FrameSource  # noqa: PLC0415

    if not isinstance(source, str | Path):
        return FrameSource(source)
    rows = file_source(source, options)
    rows.format  # noqa: B018  a path that is not there is found before Spark starts
    return rows


def _merged(
    rows: FileSource | FrameSource,
    table: Table,
    spark: SparkSession | None,
    settings: SparkSettings | None,
    *,
    small: bool | None,
    dry_run: bool,
) -> StepResult:
    from tidemill.execution.results import StepKind  # noqa: PLC0415
    from tidemill.execution.step import run_step  # noqa: PLC0415
    from tidemill.planning.work import is_small  # noqa: PLC0415
    from tidemill.sources.files.source import FileSource  # noqa: PLC0415
    from tidemill.spark.errors import translated  # noqa: PLC0415
    from tidemill.spark.session import session_for  # noqa: PLC0415

    if small is None:
        small = isinstance(rows, FileSource) and is_small(rows, table)
    with translated(f"Merging {rows} into {table.name}"):
        session = session_for(spark, small=small, settings=settings or SparkSettings())
        # What catalogs do not know by name is at a path, and need not be there yet.
        place = _located if can(table.format, Capability.READ_BY_PATH) else _placed
        located = replace(table, path=place(table.path, session))
        result = run_step(session, located, rows, dry_run=dry_run)
        return replace(result, kind=StepKind.MERGE)


def file_source(source: str | Path, options: Mapping[str, str] = NOTHING_GIVEN) -> FileSource:
    """The files at a path, as a merge reads them."""
    from tidemill.sources.files.source import FileSource  # noqa: PLC0415
    from tidemill.sources.kinds import given_options  # noqa: PLC0415

    found = FileSource(_absolute(source))
    return replace(found, options=given_options(found.format, options)) if options else found


def _merge_result(result: StepResult) -> MergeResult:
    return MergeResult(
        inserted=result.counts.inserted,
        updated=result.counts.updated,
        deleted=result.counts.deleted,
        unchanged=result.counts.unchanged,
        ignored=result.counts.ignored,
        total=result.total or 0,
        files_rewritten=result.files_rewritten,
        files_kept=result.files_kept,
        seconds=result.seconds,
        version=result.version or 0,
        created=result.first_run,
        status=result.status,
        notices=result.notices,
    )


def _names(columns: str | Iterable[str] | None) -> tuple[str, ...]:
    given = (columns,) if isinstance(columns, str) else columns or ()
    names = tuple(given) if isinstance(given, Iterable) else (given,)
    if not all(isinstance(name, str) for name in names):
        raise ArgumentError(
            "columns.no_names", f"{columns!r} names no columns.", 'Give a name, or a list: ["order_id", "region"].'
        )
    return names


def _absolute(path: str | Path) -> str:
    # An empty one would be the current folder, and no file system has names with this character.
    if not isinstance(path, str | PathLike) or not str(path).strip() or "\0" in str(path):
        raise ArgumentError(
            "table.no_path", f"{path!r} is no path.", "Give the path of a table, or of the files that are read."
        )
    return absolute(path)


def _placed(target: str | Path, session: SparkSession) -> str:
    """The path of a table that need not be there; a name that the session does not know is a path then."""
    known = _TABLE_NAME.fullmatch(str(target)) and session.catalog.tableExists(str(target))
    return _located(target, session) if known else _absolute(target)


def _located(target: str | Path, session: SparkSession) -> str:
    """The path of a table given by its path or its name."""
    path = _absolute(target)
    if not _TABLE_NAME.fullmatch(str(target)) or Path(path).exists():
        return path
    if not session.catalog.tableExists(str(target)):
        raise ArgumentError(
            "table.unknown_name",
            f"The Spark session knows no table {target}.",
            f"Give the path of the table (./{target} for a folder of that name), or a session that knows it.",
        )
    if session.catalog.getTable(str(target)).tableType == "VIEW":
        raise ArgumentError(
            "table.is_view", f"{target} is a view of the Spark session.", "Give the name or path of a table."
        )
    location = session.sql(f"DESCRIBE DETAIL {target}").first()
    assert location is not None  # noqa: S101  a table that exists has a detail
    return str(local_path(location["location"]) or location["location"])
