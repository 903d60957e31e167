"""Executes the plan of a step, whichever its mode: in one commit, in one for each batch, call or round, or in none."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from tidemill.errors import TidemillError
from tidemill.execution.attempt import Task
from tidemill.execution.commit import commit
from tidemill.execution.functions import run_function
from tidemill.execution.load_parts import LoadsSource
from tidemill.execution.loads import read_recomputed, run_loads
from tidemill.execution.producers import FunctionRows
from tidemill.execution.reading import gather, table_facts
from tidemill.execution.results import together, up_to_date
from tidemill.formats.registry import store_of
from tidemill.model.variables import NOTHING_GIVEN
from tidemill.planning.plan import Mode, plan_step
from tidemill.planning.request import USUAL
from tidemill.planning.windows import known_of
from tidemill.sources.protocol import Reading
from tidemill.spark.settings import in_zone_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

    from tidemill.execution.results import StepResult
    from tidemill.model.table import Table
    from tidemill.planning.plan import StepPlan
    from tidemill.planning.request import Part, Request
    from tidemill.sources.protocol import Connector


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
