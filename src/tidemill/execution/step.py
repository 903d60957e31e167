"""A step of several LOADs: each source has its own progress, and what they give is one change.

A source is planned as if it were alone. All that is read is read from the lowest start on: the sources are then
one source, whose newest rows are known, and no stored row has to tell where it came from (ADR 18).
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from tidemill.errors import TidemillError
from tidemill.execution.attempt import Gathered, Task, held_rows
from tidemill.execution.commit import commit
from tidemill.execution.functions import run_function
from tidemill.execution.load_parts import LoadPart, LoadsSource
from tidemill.execution.load_rows import MeetingLoads, Read, put_together, ready
from tidemill.execution.prepare import Prepared
from tidemill.execution.producers import FunctionRows
from tidemill.execution.reading import RowsRead, facts_of, gather, rows_of, session_of_rows, table_facts, versions_read
from tidemill.execution.record import inputs_of
from tidemill.execution.results import together, up_to_date
from tidemill.formats.base import Change, Profile
from tidemill.formats.registry import store_of
from tidemill.model.table import SchemaPolicy
from tidemill.model.variables import NOTHING_GIVEN
from tidemill.planning.gaps import NO_FACTS, Facts
from tidemill.planning.loads import SourcePlan, window_of_all
from tidemill.planning.plan import Mode, fill, plan_step
from tidemill.planning.request import USUAL
from tidemill.planning.windows import known_of
from tidemill.sources.protocol import Reading
from tidemill.spark.settings import in_zone_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from tidemill.execution.attempt import Attempt
    from tidemill.execution.results import StepResult
    from tidemill.model.table import Table
    from tidemill.planning.plan import StepPlan
    from tidemill.planning.request import Part, Request
    from tidemill.sources.protocol import Connector


def run_loads(spark: SparkSession, plan: StepPlan, source: LoadsSource) -> StepResult:
    """Executes the plan: in one commit, or in one for its APPENDs and one for its MERGEs.

    A first run and a full refresh take all sources in one.
    """
    results: list[StepResult] = []
    for number in range(1 if plan.request.full_refresh else len(source.rounds)):
        results.append(commit(Task(spark, plan, source, partial(_gather, number=number))))
        if results[0].first_run:
            break
    return replace(together(results), batches=1, reason=results[0].reason, mode=results[0].mode)


def read_recomputed(attempt: Attempt, reading: Reading) -> RowsRead:
    """The rows that all LOADs give together; how many these read is known here, and not from the result."""
    found = _sources(attempt).whole(reading).prepared
    filled = fill(attempt.plan, facts_of(attempt, found.change.rows.schema))
    return RowsRead(found.change.rows, filled, filled.window, read=found.rows_read)


def _gather(attempt: Attempt, number: int) -> Gathered:
    """One round of LOADs; on a first run, and where the table is rebuilt, all of them."""
    source = _sources(attempt)
    # Asked before any rows are read: what comes in between is then seen by the next run.
    versions = {part.load.input: part.source.version() for part in source.parts}
    gathered = partial(Gathered, versions=versions, read_versions=versions_read(attempt))
    session = session_of_rows(attempt)
    reading = Reading(session, attempt.store.schema(attempt.spark) if attempt.base else None)
    held = held_rows(attempt, session)
    if attempt.base is None or held is None:
        whole = source.whole(reading, attempt.plan.part)
        window = window_of_all([_read_plan(read) for read in whole.reads])
        explained = replace(window, reason=attempt.plan.reason) if window and not attempt.plan.part else window
        return gathered(attempt.plan, whole.prepared, held, explained, reads=whole.reads)
    facts = _facts(attempt, source.rounds[number], reading)
    plan = fill(attempt.plan, replace(facts, versions=versions))
    reads = _read_round(attempt, plan.rounds[number], reading, held.rows)
    prepared = _prepare(attempt, source.rounds[number], reads, reading, held.rows)
    window = window_of_all([_read_plan(read) for read in reads])
    met = window.predicate if window else None
    return gathered(plan, prepared, held, window, met=met, reads=reads)


def _sources(attempt: Attempt) -> LoadsSource:
    assert isinstance(attempt.source, LoadsSource)  # noqa: S101  such a task is made for no other
    return attempt.source


def _read_plan(read: Read) -> SourcePlan:
    return SourcePlan(read.part.load, read.part.table, read.window, changed=True)


def _facts(attempt: Attempt, parts: Sequence[LoadPart], reading: Reading) -> Facts:
    return Facts(sources={part.load.input: _facts_of_part(attempt, part, reading) for part in parts})


def _facts_of_part(attempt: Attempt, part: LoadPart, reading: Reading) -> Facts:
    if part.table.window is None:
        return NO_FACTS
    with part.reading():
        snapshot = known_of(part.table, attempt.base)
        return table_facts(attempt.spark, attempt.store, part.table, snapshot, part.source.schema(reading))


def _read_round(attempt: Attempt, planned: Sequence[SourcePlan], reading: Reading, held: DataFrame) -> tuple[Read, ...]:
    source = _sources(attempt)
    meeting, parts = MeetingLoads(source, reading, held), {part.load.input: part for part in source.parts}
    found = []
    for each in planned:
        part = parts[each.load.input]
        with part.reading():
            rows = rows_of(part.source, reading, each.window)
        found.append(meeting.without_overridden(ready(part, rows, each.window, held, attempt.base)))
    return tuple(found)


def _prepare(
    attempt: Attempt, parts: Sequence[LoadPart], reads: tuple[Read, ...], reading: Reading, held: DataFrame
) -> Prepared:
    """What is new in the sources of a round, as one change."""
    if not reads:
        return Prepared(Change(held.where("false"), Profile(0)), parts[0].load.strategy, 0, held.columns)
    prepared = put_together(attempt.table, reads)
    MeetingLoads(_sources(attempt), reading, held).check(prepared, parts)
    return replace(prepared, dropped=_columns_lost(attempt, reads, held))


def _columns_lost(attempt: Attempt, reads: Sequence[Read], held: DataFrame) -> tuple[str, ...]:
    """The columns of the table that none of its sources has, where these are to go."""
    if attempt.table.schema_policy is not SchemaPolicy.SYNC_ALL_COLUMNS:
        return ()
    inputs, parts = inputs_of(attempt, reads), _sources(attempt).parts
    theirs = {name.lower() for each in inputs.values() for name in each.columns}
    known = set(inputs) == {part.load.input for part in parts}
    return tuple(name for name in held.columns if known and name.lower() not in theirs)


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
    """Plans a step and executes that; a dry run says what it would do."""
    # Each attempt plans on the table as it is, so its log need not be read here.
    plan = plan_step(table, None, request, variables, in_zone_of(spark, now or datetime.now(UTC)))
    return execute(lambda: spark, replace(plan, dry_run=dry_run), source)


def execute(
    session: Callable[[], SparkSession],
    plan: StepPlan,
    source: Connector,
    report: Callable[[str], None] = lambda _: None,
) -> StepResult:
    """Does what the plan says; asks for Spark unless there is nothing to do. `report` hears of each batch or date."""
    if plan.mode is Mode.UP_TO_DATE:
        return up_to_date(plan)
    spark = session()
    plan = replace(plan, now=in_zone_of(spark, plan.now))
    if isinstance(source, FunctionRows):
        return run_function(spark, plan, source, report)
    if plan.mode is Mode.BACKFILL:
        return _run_batches(spark, plan, source, report)
    return _run_sources(spark, plan, source)


def _run_sources(spark: SparkSession, plan: StepPlan, source: Connector) -> StepResult:
    """One commit, or one for each round of LOADs; a table that is computed whole each run has one source."""
    if not isinstance(source, LoadsSource):
        return commit(Task(spark, plan, source, gather))
    if source.loads.recomputed:
        return commit(Task(spark, plan, source, partial(gather, read=read_recomputed)))
    return run_loads(spark, plan, source)


def _run_batches(spark: SparkSession, plan: StepPlan, source: Connector, report: Callable[[str], None]) -> StepResult:
    """One commit for each batch; an earlier try that was cut short is taken up where it stopped."""
    plan = _with_batches(spark, plan, source)
    results: list[StepResult] = []
    for number, part in enumerate(plan.batches, 1):
        report(f"{number} of {len(plan.batches)} · {part}")
        try:
            results.append(_run_sources(spark, replace(plan, part=part), source))
        except TidemillError as failure:
            failure.remedy += _kept(number - 1, len(plan.batches), part)
            raise
    return _as_one(results, plan)


def _with_batches(spark: SparkSession, plan: StepPlan, source: Connector) -> StepPlan:
    """The plan with its batches, which the type of the time column decides: the source has it."""
    with closing(store_of(plan.table)) as store:
        snapshot = known_of(plan.table, store.snapshot())
        schema = source.schema(Reading(spark, store.schema(spark) if snapshot else None))
        return plan.on(snapshot, table_facts(spark, store, plan.table, snapshot, schema))


def _as_one(results: list[StepResult], plan: StepPlan) -> StepResult:
    """The batches as one result."""
    last, skipped = results[-1], plan.batches_done
    done = "1 batch was" if skipped == 1 else f"{skipped} batches were"
    taken_up = (f"taken up where it stopped: {done} done already",) if skipped else ()
    window = replace(last.window, reason=plan.reason) if last.window else None
    made = together(results)
    notices = (*taken_up, *made.notices)
    return replace(made, window=window, mode=plan.mode, reason=plan.reason, notices=notices)


def _kept(done: int, count: int, part: Part) -> str:
    """What to know about the batches before one that failed."""
    if count == 1:
        return ""
    return f" {done} of {count} batches are in the table and stay; the same command goes on at {part.start}."
