"""One attempt at a commit: what it is planned on, what it gathers and meets, and its commit, or only its counts."""

from __future__ import annotations

import uuid
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pyspark.sql import functions as F

from tidemill.changes import require
from tidemill.changes.profile import exact, highest, time_kind
from tidemill.errors import ArgumentError, SchemaError
from tidemill.execution import in_zone_of
from tidemill.execution.prepare import ONE_TASK
from tidemill.execution.record import keep_anchor
from tidemill.formats import Capability
from tidemill.formats.base import HELD, AppendRows, CommitResult, HeldRows, Requirements, Target
from tidemill.model import of, quote
from tidemill.model.record import completed
from tidemill.planning.refusals import missing_variables, refusals, refuse
from tidemill.planning.windows import known_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

    from tidemill.execution import RefreshReport
    from tidemill.execution.joins import Tally
    from tidemill.execution.load_rows import Read
    from tidemill.execution.prepare import Prepared
    from tidemill.execution.view_sums import Sums
    from tidemill.formats.base import Compiled, Operation, Whole
    from tidemill.formats.port import Store
    from tidemill.model.check import Expected
    from tidemill.model.cursor import Cursor
    from tidemill.model.record import Record, Snapshot
    from tidemill.model.table import Table
    from tidemill.planning import StepPlan
    from tidemill.planning.joins import JoinFacts
    from tidemill.planning.windows import WindowPlan
    from tidemill.sources import Connector


def count_change(attempt: Attempt, compiled: Compiled, record: Record) -> tuple[CommitResult | None, str]:
    """What the commit would come to, and a notice of what it would do to files."""
    store, operation = attempt.store, compiled.operation
    files = attempt.snapshot.files if attempt.snapshot else 0
    if operation is None:
        return None, f"would write nothing: {files:,} {'file stays' if files == 1 else 'files stay'}"
    if not store.can(Capability.REHEARSAL):
        return _counted(attempt, compiled, operation, record)
    result, read = store.rehearse(operation, record, attempt.snapshot)
    return result, f"would read {read:,} of {files:,} files and rewrite {result.files_rewritten:,}"


def refuse_dropping(name: str, columns: Sequence[str]) -> ArgumentError:
    """The error for a change that drops columns before it can be counted."""
    return ArgumentError(
        "merge.dry_run",
        f"{', '.join(columns)} would leave {name} before the merge, in a commit of its own, and a dry run makes none.",
        "Ask with --schema-policy append_new_columns what the merge would do after that.",
    )


def _counted(attempt: Attempt, compiled: Compiled, operation: Operation, record: Record) -> tuple[CommitResult, str]:
    """Only the rows are reported where the store finds the files that it rewrites while it writes."""
    appends = isinstance(operation, AppendRows)
    counts = completed(record, {"inserted": operation.rows.count()}) if appends else compiled.counts
    before = attempt.snapshot.version if attempt.snapshot else -1
    result = CommitResult(max(before, 0), alone=True, counts=counts, files_rewritten=0, files_kept=0)
    return result, f"would be version {before + 1}"


NEAR = 8 * 1024 * 1024  # bytes of a table that are met sooner than code for it is generated


@runtime_checkable
class JoinedRows(Protocol):
    """What a source may tell besides: that it joins two tables. `tally` is of the window that was read last."""

    tally: Tally | None

    def facts(
        self, spark: SparkSession, snapshot: Snapshot | None, held_highest: Callable[[int], Cursor | None]
    ) -> JoinFacts:
        """How far both sides go, by their logs and their rows."""


@dataclass(frozen=True, slots=True)
class Task:
    """One commit that is to be made: its plan, what gives its rows, and how they are gathered.

    Each attempt at it has a run id of its own.
    """

    spark: SparkSession
    plan: StepPlan
    source: Connector
    gather: Callable[[Attempt], Gathered]
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a task, with the plan on the snapshot that its store has now."""

    task: Task
    plan: StepPlan
    store: Store
    run_id: str

    @classmethod
    def of(cls, task: Task, store: Store, number: int) -> Attempt:
        """Plans the task again on the table as it is; raises where that is refused."""
        table = task.plan.table
        store.check_writer(task.spark)
        snapshot = known_of(table, store.snapshot())
        refuse(refusals(table, snapshot, task.plan.request))
        plan = replace(task.plan, snapshot=snapshot, now=in_zone_of(task.spark, task.plan.now))
        started = plan.part is not None and plan.part.start is not None
        refuse(missing_variables(table, plan.variables, first_run=plan.base is None, started=started))
        # The dates of a function stand while they are fetched; all else is planned on what others have committed.
        return cls(task, plan if table.function else plan.on(snapshot), store, f"{task.run_id}-{number}")

    @property
    def spark(self) -> SparkSession:
        return self.task.spark

    @property
    def source(self) -> Connector:
        return self.task.source

    @property
    def table(self) -> Table:
        return self.plan.table

    @property
    def snapshot(self) -> Snapshot | None:
        return self.plan.snapshot

    @property
    def base(self) -> Snapshot | None:
        """What of the snapshot counts for the rows; nothing in a full refresh."""
        return self.plan.base

    @property
    def now(self) -> datetime:
        return self.plan.now

    @property
    def before(self) -> Record | None:
        """The last record, where its rows count."""
        return self.base.record if self.base else None

    @property
    def guard(self) -> str | None:
        """For what Spark has said before that the query of a view may be rewritten."""
        return self.before.refresh.get("guard") if self.before else None

    @property
    def meets_in_memory(self) -> bool:
        """Whether Spark may be left out where rows are few: what the declaration checks or protects, Spark does."""
        protects = not self.table.reset_allowed or (self.base is not None and self.base.resists_reset)
        return self.base is not None and not self.table.checks and not protects and not self.source.settled


@dataclass(frozen=True, slots=True)
class Refreshed:
    """How a view followed its inputs, and what that comes to; it is compiled later where its query was read whole.

    `guard` tells for what Spark has said that the query may be rewritten, `cost` what it took. `sums` are kept beside
    the rows.
    """

    report: RefreshReport
    compiled: Compiled | None = None
    guard: str | None = None
    cost: Mapping[str, object] = field(default_factory=dict)
    sums: Sums | None = None


@dataclass(frozen=True, slots=True)
class Gathered:
    """The change of an attempt, the rows that the table holds, and the plan without gaps that they were read by.

    `window` is what was read as one. `input_version` and `read_versions` were asked before any rows were; `reads` and
    `versions` are of the sources of several LOADs. `met` are the rows of the table that appended ones may be the same
    as. `compared` is the same change with the keys that it is compared by, where its strategy has none. `adopted`: how
    far a function's table was fetched, its rows say. `tally` is what a join has met. `refreshed` is what the inputs of
    a view have changed in it.
    """

    plan: StepPlan
    prepared: Prepared
    held: HeldRows | None
    window: WindowPlan | None
    whole: Whole | None = None
    met: str | None = None
    input_version: str | None = None
    read_versions: Mapping[str, str] = field(default_factory=dict)
    reads: tuple[Read, ...] = ()
    versions: Mapping[str, str | None] = field(default_factory=dict)
    expected: tuple[Expected, ...] = ()
    adopted: bool = False
    compared: Prepared | None = None
    tally: Tally | None = None
    bytes_read: int | None = None
    refreshed: Refreshed | None = None


def whole_table(attempt: Attempt) -> Whole | None:
    """The table itself, where it is small enough to be met and written without Spark."""
    store, base = attempt.store, attempt.base
    return store.in_memory(base) if base and attempt.meets_in_memory else None


def part_met(attempt: Attempt, prepared: Prepared) -> Whole | None:
    """What of the table the change can meet, where that is small enough."""
    base, ranges = attempt.base, prepared.change.profile.ranges
    if base is None or not ranges or not _by_key(prepared) or not attempt.meets_in_memory:
        return None
    return attempt.store.in_memory(base, ranges)


def held_rows(attempt: Attempt, spark: SparkSession, whole: Whole | None = None) -> HeldRows | None:
    """The table's rows in the session of the change. Where little of them is met, they may never be asked of Spark."""
    store = attempt.store
    if attempt.snapshot is None:
        return None
    schema = store.schema(spark) if whole is None else whole.schema
    return HeldRows(schema, lambda: store.read(spark))


def highest_held(spark: SparkSession, store: Store, table: Table, snapshot: Snapshot, version: int) -> Cursor | None:
    """The highest time that a version holds, by a query: file statistics still know deleted rows."""
    assert table.window is not None  # noqa: S101  asked only of a table with a time column
    held = store.read(spark, None if version == snapshot.version else version)
    column = require([table.window.time_column], held.columns, "The time column", table.name)[0]
    kind = time_kind(column, held.schema[column].dataType, table.name)
    found = held.agg(exact(F.max(quote(column)), kind).alias("highest")).first()
    return highest(found["highest"] if found else None, kind)


def is_small(attempt: Attempt, prepared: Prepared) -> bool:
    """Whether few rows come, and meet little of the table."""
    change = prepared.change.profile
    if change.rows > ONE_TASK or attempt.source.settled:
        return False
    ranges = change.ranges if _by_key(prepared) and not attempt.table.checks else ()
    return attempt.snapshot is None or attempt.store.log.reach(ranges).size <= NEAR


def target_of(attempt: Attempt, gathered: Gathered, held: DataFrame) -> Target:
    """The table that the change enters."""
    snapshot, store, window = attempt.snapshot, attempt.store, gathered.window
    assert snapshot is not None  # noqa: S101  it holds rows
    if attempt.plan.rebuilds:
        return Target(attempt.table.name, held, snapshot, store.log.reach)
    record, beyond = snapshot.record, window.beyond if window else None
    return Target(
        name=attempt.table.name,
        rows=held,
        snapshot=snapshot,
        reach=store.log.reach,
        window=gathered.met,
        since=window.start if window else None,
        highest=record.highest if record and not snapshot.foreign_adds else None,
        beyond=f"{of(HELD, window.column)} >= {beyond.literal()}" if window and beyond else None,
        near=store.near(held.sparkSession),
    )


def count_before(attempt: Attempt) -> int:
    """How many rows the table holds before this step; counted only where its log does not say."""
    snapshot = attempt.snapshot
    if snapshot is None:
        return 0
    return attempt.store.count(attempt.spark) if snapshot.rows is None else snapshot.rows


def count_after(attempt: Attempt, before: int | None, committed: CommitResult | None) -> int:
    if before is None or (committed and not committed.alone):
        return attempt.store.count(attempt.spark)
    return before + committed.counts.inserted - committed.counts.deleted if committed else before


def no_rows(attempt: Attempt, held: HeldRows) -> AppendRows:
    """The operation of a commit that changes no row: nobody may give values to columns that the table fills itself."""
    fills = attempt.snapshot.fills if attempt.snapshot else frozenset()
    return AppendRows(held.none.drop(*[name for name in held.columns if name.lower() in fills]))


def commit_change(attempt: Attempt, compiled: Compiled, record: Record) -> CommitResult | None:
    """Commits what there is to commit, and keeps a copy of the last record where the log may lose it."""
    store, spark = attempt.store, attempt.spark
    if compiled.operation is None:
        if attempt.snapshot is not None:
            keep_anchor(store, spark, attempt.snapshot)
        return None
    staged = compiled.staged or store.stage(spark, compiled.operation, attempt.snapshot, rows=record.rows)
    result = staged.commit(record, Requirements.of(attempt.snapshot))
    keep_anchor(store, spark, store.snapshot())
    return result


def commit_note(attempt: Attempt, compiled: Compiled, record: Record, held: HeldRows) -> CommitResult:
    """A commit without rows whose record says something new."""
    assert attempt.snapshot is not None  # noqa: S101  its record is there
    noted = record.with_(counts=asdict(compiled.counts), same_rows_as=attempt.snapshot.content_version)
    return attempt.store.commit(attempt.spark, no_rows(attempt, held), noted, attempt.snapshot)


def drop_columns(attempt: Attempt, columns: Sequence[str]) -> None:
    """Takes away the columns which the source has lost (sync_all_columns)."""
    snapshot = attempt.snapshot
    if snapshot is None or snapshot.record is None:
        raise SchemaError(
            "schema.cannot_drop",
            f"{attempt.table.name} was made elsewhere, and dropping {', '.join(columns)} would change its protocol.",
            "Drop the columns yourself, or use append_new_columns. The table is unchanged.",
        )
    attempt.store.drop_columns(attempt.spark, columns, snapshot)


def _by_key(prepared: Prepared) -> bool:
    return prepared.strategy.keeps_rows
