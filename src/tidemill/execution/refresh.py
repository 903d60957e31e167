"""One refresh of a materialized view: by what changed in its inputs, where plan and Spark agree on that, or whole."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidemill.changes.compile import column_types
from tidemill.errors import ArgumentError
from tidemill.execution import RefreshReport
from tidemill.execution.attempt import Gathered, Refreshed, Task
from tidemill.execution.commit import commit
from tidemill.execution.query_source import ViewSource
from tidemill.execution.refresh_check import difference_of
from tidemill.execution.same_plan import guard_of, why_unsafe
from tidemill.execution.step import RowsRead, gather
from tidemill.execution.view_changes import nothing_to_refresh, refresh_by_changes
from tidemill.execution.view_sums import first_sums
from tidemill.formats.base import Conflict
from tidemill.ivm import NotIncremental
from tidemill.planning import Mode, fill
from tidemill.planning.costs import cost_record
from tidemill.planning.notices import Facts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemill.execution import StepResult
    from tidemill.execution.attempt import Attempt
    from tidemill.planning import StepPlan
    from tidemill.planning.refresh import RefreshPlan


def commit_refresh(spark: SparkSession, plan: StepPlan, source: ViewSource) -> StepResult:
    """Executes the plan of a materialized view in one commit or none."""
    return commit(Task(spark, plan, source, gather_refresh))


def gather_refresh(attempt: Attempt) -> Gathered:
    """What the view becomes by the versions to which its inputs are pinned."""
    source, began = attempt.source, datetime.now(UTC)
    assert isinstance(source, ViewSource)  # noqa: S101  made for views only
    inputs = source.view_inputs(attempt.base)
    facts = Facts(version=source.version(), inputs=inputs)
    plan = fill(attempt.plan, facts)
    if plan.mode is Mode.UP_TO_DATE:
        return nothing_to_refresh(attempt, source, plan)  # another run was first, and did it
    plan, guard = _guarded(attempt, source, plan, facts)
    try:
        gathered = _gathered(attempt, source, plan, guard)
    except NotIncremental as why:  # the sums that it keeps have shown it, or the number of keys
        gathered = _gathered(attempt, source, fill(attempt.plan, replace(facts, unsafe=why.reason)), None)
    refreshed, ended = gathered.refreshed, datetime.now(UTC)
    assert refreshed is not None  # noqa: S101  of a view
    checks = attempt.table.strategy.checks_refresh
    wrong = difference_of(attempt, source, gathered) if checks else None
    if moved := source.release_moved(by_changes=refreshed.report.mode == "incremental" and not checks):
        raise Conflict(f"{moved} was changed while {attempt.table.name} read it")
    if wrong is not None:
        raise wrong
    cost = cost_record(inputs, began + (datetime.now(UTC) - ended))
    return replace(gathered, refreshed=replace(refreshed, cost=cost))


def _gathered(attempt: Attempt, source: ViewSource, plan: StepPlan, guard: str | None) -> Gathered:
    refresh = _accepted(plan)
    if refresh.rule is None:
        return _refresh_whole(attempt, source, plan, refresh)
    gathered = refresh_by_changes(attempt, source, plan)
    assert gathered.refreshed is not None  # noqa: S101  of a view
    return replace(gathered, refreshed=replace(gathered.refreshed, guard=guard))


def _guarded(attempt: Attempt, source: ViewSource, plan: StepPlan, facts: Facts) -> tuple[StepPlan, str | None]:
    """The plan without a rule where Spark says so; it is asked where anything has changed since it was last."""
    if plan.refresh is None or plan.refresh.rule is None:
        return plan, None
    guard = guard_of(attempt, source, plan.refresh)
    unsafe = None if guard == attempt.guard else why_unsafe(attempt, source, plan.refresh)
    unsafe = unsafe or _other_columns(attempt, source)
    return (fill(attempt.plan, replace(facts, unsafe=unsafe)), None) if unsafe else (plan, guard)


def _other_columns(attempt: Attempt, source: ViewSource) -> str | None:
    """Why only all rows can enter the table: it has not the columns that the query gives."""
    session, bound = source.bound(attempt.spark, source.query.text)
    given, held = (column_types(schema) for schema in (session.sql(bound).schema, attempt.store.schema(attempt.spark)))
    return None if given == held else "its query gives other columns than the table has"


def _refresh_whole(attempt: Attempt, source: ViewSource, plan: StepPlan, refresh: RefreshPlan) -> Gathered:
    gathered = gather(attempt, lambda attempt, reading: RowsRead(attempt.source.read(reading), plan, None))
    rows, inputs = gathered.prepared.change.profile.rows, refresh.inputs
    sums, guard = (first_sums(attempt, source, inputs, rows) if inputs else None) or (None, None)
    return replace(gathered, refreshed=Refreshed(RefreshReport("full", refresh.reason), guard=guard, sums=sums))


def _accepted(plan: StepPlan) -> RefreshPlan:
    """How it is done; an error where its declaration wants no such run."""
    refresh = plan.refresh
    assert refresh is not None  # noqa: S101  planned for views only
    if refresh.refused:
        raise ArgumentError(
            "view.not_incremental",
            f"{plan.table.name} cannot be refreshed incrementally: {refresh.why}.",
            f"Compute it whole once ({plan.table.command} --full-refresh), allow full refreshes (refresh = auto), or "
            f"change its query. {plan.table.name} is unchanged.",
            origin=refresh.place or plan.table.origin,
        )
    return refresh
