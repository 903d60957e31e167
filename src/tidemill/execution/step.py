"""A step of one source: its rows in the window of the plan, whose gaps are filled on the way, and their commits."""

from __future__ import annotations

from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

from tidemill.changes import require
from tidemill.changes.profile import time_kind
from tidemill.errors import DatasetFileError, FilesGoneError, SourceError, TidemillError
from tidemill.execution import in_zone_of, sum_up
from tidemill.execution.attempt import Gathered, JoinedRows, Task, held_rows, highest_held, whole_table
from tidemill.execution.commit import commit
from tidemill.execution.prepare import prepare, profile_in_order
from tidemill.formats.base import Conflict
from tidemill.formats.registry import store_of
from tidemill.model.project import NOTHING_GIVEN
from tidemill.model.query import Query
from tidemill.planning import USUAL, Mode, fill, plan_step
from tidemill.planning.notices import Facts
from tidemill.planning.refusals import refusals, refuse
from tidemill.planning.starts import table_for
from tidemill.planning.windows import known_of
from tidemill.sources import Reading, bytes_of
from tidemill.spark import disk_full
from tidemill.spark.errors import no_room, one_line
from tidemill.spark.session import SPARK_FAILURES, paced_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from tidemill.execution import StepResult
    from tidemill.execution.attempt import Attempt
    from tidemill.execution.prepare import Prepared
    from tidemill.formats.base import HeldRows, Profile, Whole
    from tidemill.formats.port import Store
    from tidemill.model.check import Expected
    from tidemill.model.cursor import Cursor, CursorKind
    from tidemill.model.record import Snapshot
    from tidemill.model.table import Table
    from tidemill.planning import Request, StepPlan
    from tidemill.planning.windows import WindowPlan
    from tidemill.sources import Connector

S = TypeVar("S", bound="Connector")


@runtime_checkable
class QueriedRows(Protocol):
    """What a source may tell besides: that it is a query over tables."""

    @property
    def is_bounded(self) -> bool:
        """Whether its text depends on the bounds of a window; the rows of others are filtered."""

    def versions(self) -> Mapping[str, str]:
        """The versions of the tables that it reads, where they are several and known."""


@runtime_checkable
class DeclaredRows(Protocol):
    """What a source may tell besides: that it is declared, so that errors name it and hide its secrets."""

    def failures(self) -> AbstractContextManager[None]: ...


@runtime_checkable
class GivenRows(Protocol):
    """What a source may tell besides: that its rows were given once, and cannot be read again."""

    @property
    def is_given(self) -> bool: ...


def run_step(
    spark: SparkSession,
    table: Table,
    source: Connector,
    *,
    now: datetime | None = None,
    request: Request = USUAL,
    variables: Mapping[str, str] = NOTHING_GIVEN,
    dry_run: bool = False,
) -> StepResult:
    """Plans a step of one source and executes that; a dry run says what it would do."""
    # Each attempt plans on the table as it is, so its log need not be read here.
    plan = plan_step(table, None, request, variables, in_zone_of(spark, now or datetime.now(UTC)))
    return run_commits(spark, replace(plan, dry_run=dry_run), source, commit_source)


def commit_source(spark: SparkSession, plan: StepPlan, source: Connector) -> StepResult:
    """Executes the plan of one source in one commit or none."""
    return commit(Task(spark, plan, source, gather))


def run_commits(
    spark: SparkSession,
    plan: StepPlan,
    source: S,
    commit_part: Callable[[SparkSession, StepPlan, S], StepResult],
    report: Callable[[str], None] = lambda _: None,
) -> StepResult:
    """Executes a plan by `commit_part`: once, or once for each batch of a backfill, which `report` hears of.

    An earlier try of a backfill that was cut short is taken up where it stopped.
    """
    if plan.mode is not Mode.BACKFILL:
        return commit_part(spark, plan, source)
    plan = plan_on_table(spark, plan, source)
    batches = plan.batches

    def run(number: int) -> StepResult:
        report(f"{number + 1} of {len(batches)} · {batches[number]}")
        return commit_part(spark, replace(plan, part=batches[number]), source)

    made = run_parts(len(batches), run, lambda number: f"the same command goes on at {batches[number].start}")
    skipped = plan.batches_done
    done = "1 batch was" if skipped == 1 else f"{skipped} batches were"
    taken_up = (f"taken up where it stopped: {done} done already",) if skipped else ()
    window = replace(made.window, reason=plan.reason) if made.window else None
    return replace(made, window=window, mode=plan.mode, reason=plan.reason, notices=(*taken_up, *made.notices))


def run_parts(count: int, run: Callable[[int], StepResult], goes_on: Callable[[int], str]) -> StepResult:
    """So many commits as one result. Those before one that fails stay, and its remedy says what takes up the rest."""
    results: list[StepResult] = []
    for number in range(count):
        try:
            results.append(run(number))
        except TidemillError as failure:
            if count > 1:
                failure.remedy += f" {number} of {count} batches are in the table and stay; {goes_on(number)}."
            raise
    return sum_up(results)


def plan_on_table(spark: SparkSession, plan: StepPlan, source: Connector | None = None) -> StepPlan:
    """The plan on the table as it is, by its rows and the schema of the source: that has the time column's type."""
    with closing(store_of(plan.table)) as store:
        snapshot = known_of(plan.table, store.snapshot())
        refuse(refusals(plan.table, snapshot, plan.request))
        schema = source.schema(Reading(spark, store.schema(spark) if snapshot else None)) if source else None
        return plan.on(snapshot, table_facts(spark, store, plan.table, snapshot, schema))


@contextmanager
def reading_of(table: Table, source: Connector) -> Iterator[None]:
    """Spark's errors within it are the source's; a declared one hides its secrets."""
    producer = table.producer
    try:
        with source.failures() if isinstance(source, DeclaredRows) else nullcontext():
            yield
    except DatasetFileError as failure:
        if failure.is_of(table.path):
            raise
        if isinstance(failure, FilesGoneError) and not isinstance(source, GivenRows):  # it can be read again
            raise Conflict(failure.problem) from failure
        raise _unreadable(table, source, failure.problem, failure.remedy) from failure
    except SPARK_FAILURES as failure:
        if full := no_room(failure):
            raise disk_full(f"Reading rows for {table.name}", full) from failure
        what = "query, or what it reads," if isinstance(producer, Query) else "source"
        raise _unreadable(table, source, one_line(failure), f"Fix the {what} and run again.") from failure


def _unreadable(table: Table, source: Connector, why: str, remedy: str) -> SourceError:
    return SourceError(
        "source.unreadable", f"{source} could not be read: {why}", f"{remedy} {table.name} is unchanged."
    )


@dataclass(frozen=True, slots=True)
class RowsRead:
    """Rows of a source, the plan without gaps that they were read by, and the window of it.

    `expected` tells how the rows of a function fared; `adopted`: how far its table goes, its rows say. `read` is how
    many rows were read for these, where it is not their number.
    """

    rows: DataFrame
    plan: StepPlan
    window: WindowPlan | None
    expected: tuple[Expected, ...] = ()
    adopted: bool = False
    read: int | None = None


def gather(attempt: Attempt, read: Callable[[Attempt, Reading], RowsRead] | None = None) -> Gathered:
    """The change of one source, by `read`, or by the window of the plan."""
    # Asked before its rows are read: what comes in between is then seen by the next run.
    input_version = attempt.source.version() if attempt.table.producer else None
    read_versions = versions_read(attempt)
    whole, session = whole_table(attempt), session_of_rows(attempt)
    held = held_rows(attempt, session, whole)
    with reading_of(attempt.table, attempt.source):
        found = (read or read_window)(attempt, Reading(session, held.schema if held and attempt.base else None))
    own = found.rows.sparkSession
    held = held if own is session else held_rows(attempt, own, whole)
    with reading_of(attempt.table, attempt.source):
        prepared = _prepare(attempt, found, held, whole)
    if found.read is not None:
        prepared = replace(prepared, rows_read=found.read)
    return Gathered(
        plan=found.plan,
        bytes_read=bytes_of(attempt.source, found.window.start if found.window else None),
        tally=attempt.source.tally if isinstance(attempt.source, JoinedRows) else None,
        prepared=prepared,
        held=held,
        window=found.window,
        whole=whole,
        met=found.window.predicate if found.window else None,
        input_version=input_version,
        read_versions=read_versions,
        expected=found.expected,
        adopted=found.adopted,
    )


def _prepare(attempt: Attempt, found: RowsRead, held: HeldRows | None, whole: Whole | None) -> Prepared:
    base, window = attempt.base, found.window
    table = table_for(attempt.table, window, attempt.plan.variables, attempt.now, first_run=base is None)
    return prepare(
        table,
        found.rows,
        window,
        held.schema if held and base else None,
        base,
        settled=attempt.source.settled,
        seen=_profile_by_files(attempt, found.rows, window),
        measured=attempt.meets_in_memory and (whole is not None or bool(table.strategy.keys)),
    )


def _profile_by_files(attempt: Attempt, rows: DataFrame, window: WindowPlan | None) -> Profile | None:
    keys = attempt.table.strategy.keys
    if attempt.base is not None or window is not None or not keys:
        return None
    return profile_in_order(attempt.source, rows, keys)


def session_of_rows(attempt: Attempt) -> SparkSession:
    """Where the rows are read; queries, functions and joins make a session for themselves."""
    own = attempt.table.producer is not None and not attempt.table.loads
    return attempt.spark if own else paced_session(attempt.spark)


def versions_read(attempt: Attempt) -> Mapping[str, str]:
    """Of all tables that a query with a window reads: a later run says which of them it will not see change."""
    if not attempt.table.reads_windows or not isinstance(attempt.source, QueriedRows):
        return {}
    return attempt.source.versions()


def read_window(attempt: Attempt, reading: Reading) -> RowsRead:
    """The rows of the window, or all rows where their filter is enough: what is analysed once need not be again."""
    plan, source = attempt.plan, attempt.source
    open_start = attempt.base is None and plan.part is None and not attempt.table.owns_window
    unbounded = isinstance(source, QueriedRows) and not source.is_bounded
    if open_start or unbounded or not attempt.table.reads_windows:
        rows = source.read(reading)
        filled = fill(plan, facts_of(attempt, rows.schema))
        return RowsRead(rows, filled, filled.window)
    filled = fill(plan, facts_of(attempt, source.schema(reading)))
    return RowsRead(rows_of(source, reading, filled.window), filled, filled.window)


def rows_of(source: Connector, reading: Reading, window: WindowPlan | None) -> DataFrame:
    """The rows of a window, or all."""
    if window is None:
        return source.read(reading)
    reading = replace(reading, until=window.end)
    if window.start is None:
        return source.read(reading)
    return source.read_since(reading, window.column, window.start)


def facts_of(attempt: Attempt, schema: StructType) -> Facts:
    """What the schema of the source and the rows of the table tell: it fills every gap of a plan."""
    table = attempt.table
    return table_facts(attempt.spark, attempt.store, table, attempt.base, schema, attempt.source)


def table_facts(
    spark: SparkSession,
    store: Store,
    table: Table,
    snapshot: Snapshot | None,
    schema: StructType | None = None,
    source: Connector | None = None,
) -> Facts:
    """The same of any table; the schema of the source is None where nobody asks for it, as of a function."""

    def held_highest(version: int) -> Cursor | None:
        assert snapshot is not None  # noqa: S101  asked only of a table that is there
        return highest_held(spark, store, table, snapshot, version)

    if table.window is None or schema is None:
        return Facts(highest=held_highest)
    _, kind = cursor_of(table, schema)
    sides = source.facts(spark, snapshot, held_highest) if isinstance(source, JoinedRows) else None
    return Facts(kind, schema.names, held_highest, sides)


def window_of(
    spark: SparkSession,
    store: Store,
    table: Table,
    schema: StructType,
    snapshot: Snapshot | None,
    now: datetime,
    variables: Mapping[str, str] = NOTHING_GIVEN,
    source: Connector | None = None,
) -> WindowPlan | None:
    """What the next run reads of a source with this schema; without a snapshot it is a first run."""
    facts = table_facts(spark, store, table, snapshot, schema, source)
    return plan_step(table, snapshot, USUAL, variables, now, facts).window


def cursor_of(table: Table, schema: StructType) -> tuple[str, CursorKind]:
    """The time column of a table's window as its source spells it, and its kind."""
    assert table.window is not None  # noqa: S101  asked only for tables that have one
    column = require([table.window.time_column], schema.names, "The time column", f"the source of {table.name}")[0]
    return column, time_kind(column, schema[column].dataType, table.name)
