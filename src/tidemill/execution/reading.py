"""The change of one source: its rows in the window of the plan, whose gaps are filled on the way."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidemill.changes.columns import require
from tidemill.changes.profile import time_kind
from tidemill.errors import DatasetFileError, FilesGoneError, SourceError
from tidemill.execution.attempt import Gathered, held_rows, highest_held, whole_table
from tidemill.execution.joins import JoinSource
from tidemill.execution.prepare import prepare, profile_in_order
from tidemill.execution.producers import QuerySource
from tidemill.formats.base import Conflict
from tidemill.model.query import Loaded, Query
from tidemill.model.source import Loads
from tidemill.model.variables import NOTHING_GIVEN
from tidemill.planning.gaps import Facts
from tidemill.planning.plan import fill, plan_step
from tidemill.planning.request import USUAL
from tidemill.planning.starts import table_for
from tidemill.sources.frames import FrameSource
from tidemill.sources.protocol import Reading
from tidemill.sources.registry import failures_of
from tidemill.spark.errors import no_room, one_line
from tidemill.spark.failures import SPARK_FAILURES
from tidemill.spark.places import disk_full
from tidemill.spark.session import paced_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from tidemill.changes.check_results import Expected
    from tidemill.execution.attempt import Attempt
    from tidemill.execution.prepare import Prepared
    from tidemill.formats.base import HeldRows, Profile, Whole
    from tidemill.formats.port import Store
    from tidemill.model.cursor import Cursor, CursorKind
    from tidemill.model.record import Snapshot
    from tidemill.model.table import Table
    from tidemill.planning.plan import StepPlan
    from tidemill.planning.windows import WindowPlan
    from tidemill.sources.protocol import Connector


@contextmanager
def reading_of(table: Table, source: Connector) -> Iterator[None]:
    """Spark's errors within it are the source's; a declared one hides its secrets."""
    producer = table.producer
    try:
        with failures_of(producer.source) if isinstance(producer, Loaded) else nullcontext():
            yield
    except DatasetFileError as failure:
        if failure.is_of(table.path):
            raise
        if isinstance(failure, FilesGoneError) and not isinstance(source, FrameSource):  # it can be read again
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
    own = not isinstance(attempt.table.producer, Loaded | Loads | None)
    return attempt.spark if own else paced_session(attempt.spark)


def versions_read(attempt: Attempt) -> Mapping[str, str]:
    """Of all tables that a query with a window reads: a later run says which of them it will not see change."""
    if not attempt.table.reads_windows or not isinstance(attempt.source, QuerySource):
        return {}
    return attempt.source.versions()


def read_window(attempt: Attempt, reading: Reading) -> RowsRead:
    """The rows of the window, or all rows where their filter is enough: what is analysed once need not be again."""
    plan, source = attempt.plan, attempt.source
    open_start = attempt.base is None and plan.part is None and not attempt.table.owns_window
    unbounded = isinstance(source, QuerySource) and not source.is_bounded
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
    sides = source.facts(spark, snapshot, held_highest) if isinstance(source, JoinSource) else None
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
