"""The sums beside a materialized view: a table of ours, to which changes are added.

It is written before the rows of the view, and the record of their commit names its version: only that commit makes both
count. What a run has written and not committed is a version that nobody needs, and the next run bases its own on the
one that the record names.
"""

from __future__ import annotations

from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError, StateError
from tidemill.execution.pins import version_in
from tidemill.execution.relations import Relations
from tidemill.execution.same_plan import guard_of, why_unsafe
from tidemill.execution.sums import LOST, kept_sums, sums_path
from tidemill.formats import DEFAULT_FORMAT
from tidemill.formats.base import AppendRows, Conflict, OverwriteRows
from tidemill.formats.registry import format_named
from tidemill.ivm import NotIncremental
from tidemill.model.record import Record, content_of
from tidemill.planning.refresh import RefreshPlan
from tidemill.planning.sums import sums_to_keep
from tidemill.spark.errors import file_is_gone, spark_failures
from tidemill.spark.session import settle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from tidemill.execution.attempt import Attempt
    from tidemill.execution.query_source import ViewSource
    from tidemill.formats.base import Operation
    from tidemill.formats.port import Store
    from tidemill.model.record import Snapshot
    from tidemill.planning.refresh import ViewInputs
    from tidemill.planning.sums import SumsToKeep

_FIRST = "__tidemill_sums_first"


@dataclass(frozen=True, slots=True)
class Sums:
    """The sums that go with the rows of a refresh: those of content `base`, with an operation on them if there is one.

    Without a `base` they take the place of whatever is there.
    """

    base: str | None
    operation: Operation | None = None


def same_sums(attempt: Attempt) -> Sums | None:
    """Those that the last record names, where the inputs have not changed."""
    return Sums(attempt.before.sums) if attempt.before and attempt.before.sums else None


def store_of_sums(path: str, *, single_writer: bool = False) -> Store:
    """The store of the sums beside the view at a path."""
    return format_named(DEFAULT_FORMAT).store(sums_path(path), single_writer=single_writer)


# written


def keep_sums(attempt: Attempt, sums: Sums) -> str | None:
    """Writes them; what the record of the view is to name. `Conflict` where another run has written them meanwhile."""
    if sums.operation is None:
        return sums.base
    table = attempt.table
    with closing(store_of_sums(table.path, single_writer=table.single_writer)) as store:
        snapshot = store.snapshot()
        if snapshot is not None and sums.base is not None and snapshot.content != sums.base:
            record = _record(snapshot, table.name, f"{attempt.run_id}-back")
            snapshot = _gone_back(attempt.spark, store, sums.base, record)
        record = _record(snapshot, table.name, attempt.run_id)
        return _committed(attempt.spark, store, sums.operation, record, snapshot)


def _gone_back(spark: SparkSession, store: Store, base: str, record: Record) -> Snapshot:
    """The sums are those that the record of the view names again; what was written after them stays in the log."""
    version = version_in(base)
    assert version is not None  # noqa: S101  it was planned on
    try:
        store.restore(spark, version, record)
    except ArgumentError as failure:
        raise gone(record.table) from failure
    restored = store.snapshot()
    if restored is None or restored.record is None or restored.record.run_id != record.run_id:
        raise Conflict(f"{store.path} was changed since it was looked at")
    return restored


def _committed(
    spark: SparkSession, store: Store, operation: Operation, record: Record, snapshot: Snapshot | None
) -> str:
    """One commit, right on the version that it was computed from."""
    if snapshot is None and isinstance(operation, OverwriteRows):
        operation = AppendRows(operation.rows)
    done = store.commit(spark, operation, record, snapshot)
    made, commit = store.snapshot(), store.log.commit(done.version)
    if not done.alone or made is None or commit is None:
        raise Conflict(f"{store.path} was changed since it was looked at")
    return content_of(made.table_id, done.version, commit.id)


def _record(snapshot: Snapshot | None, table: str, run: str) -> Record:
    return Record(
        run_id=run,
        table=table,
        sequence=(snapshot.sequence if snapshot else 0) + 1,
        strategy="sums",
        at=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        base=snapshot.version if snapshot else None,
    )


def copy_sums(spark: SparkSession, path: str, to: str, record: Record, *, single_writer: bool = False) -> str | None:
    """The sums that go with a record of the view at `path`, beside another one; None where they are not there."""
    kept = kept_sums(path, record)
    if kept is None or kept.lost is not None:
        return None
    with closing(store_of_sums(path)) as store, closing(store_of_sums(to, single_writer=single_writer)) as copy:
        try:
            rows = read_sums(spark, store, kept.content)
        except NotIncremental:
            return None
        snapshot = copy.snapshot()
        return _committed(spark, copy, OverwriteRows(rows), _record(snapshot, to, record.run_id), snapshot)


# read


def read_sums(spark: SparkSession, store: Store, content: str) -> DataFrame:
    """The sums of this content; `NotIncremental` where files of it are gone, as far as these can be looked at."""
    version, snapshot = version_in(content), store.snapshot()
    assert version is not None  # noqa: S101  it was planned on
    if snapshot is None or snapshot.content == content:
        return store.read(spark, version)
    try:
        store.check_files(spark, version)
    except ArgumentError as gone:
        raise NotIncremental(LOST) from gone
    return store.read(spark, version)


@contextmanager
def reading() -> Iterator[None]:
    """Files of the sums that are gone are a reason for a full refresh."""
    try:
        yield
    except spark_failures() as failure:
        if file_is_gone(failure):
            raise NotIncremental(LOST) from failure
        raise


def first_sums(attempt: Attempt, source: ViewSource, inputs: ViewInputs, rows: int) -> tuple[Sums, str] | None:
    """The sums of a view that is computed whole and has so many rows, and what tells that its query may be rewritten.

    None where it is to keep none.
    """
    found = None if attempt.plan.dry_run else sums_to_keep(attempt.table, inputs, rows)
    if found is None:
        return None
    refresh = RefreshPlan("", inputs, view=found.view, rule=found.rule)
    if why_unsafe(attempt, source, refresh) is not None:
        return None
    session, _ = source.bound(attempt.spark, source.query.text)
    with ExitStack() as opened:
        relations = Relations(session, source, refresh, opened)
        sums = settle(session.sql(found.rule.initial(relations.keyed())))
    if not _are_good(sums, found):
        return None
    return Sums(None, OverwriteRows(sums)), guard_of(attempt, source, refresh)


def _are_good(sums: DataFrame, found: SumsToKeep) -> bool:
    """Whether they give exact values, and are worth it."""
    sums.createOrReplaceTempView(_FIRST)
    seen = sums.sparkSession.sql(
        f"SELECT ({found.rule.beyond(_FIRST) or 'SELECT 0'}) AS beyond,"
        f" (SELECT count(*) FROM {_FIRST}) AS groups, (SELECT sum(n) FROM {_FIRST}) AS rows"
    ).first()
    assert seen is not None  # noqa: S101  it has one row
    return not seen["beyond"] and found.are_worth(seen["groups"], seen["rows"] or 0)


def gone(table: str) -> StateError:
    """The error for sums of which a vacuum was quicker than the run."""
    return StateError(
        "state.sums_gone",
        f"The sums that are kept beside {table} are not there any more.",
        "Run it with --full-refresh, which computes them again. It is unchanged.",
    )
