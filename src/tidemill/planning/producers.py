"""Plans of tables that are not read by one window: functions, joins, views, several sources, and whole backfills."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidemill.model.source import Loads
from tidemill.planning import Mode, is_backfill, mode_of, plan_window
from tidemill.planning.dates import plan_fetches, whole_of
from tidemill.planning.joins import plan_join
from tidemill.planning.loads import LoadsPlanning, reason_of_all
from tidemill.planning.notices import Gap, cursor_kind
from tidemill.planning.refresh import plan_refresh
from tidemill.planning.windows import FIRST_RUN

if TYPE_CHECKING:
    from tidemill.planning import StepPlan
    from tidemill.planning.notices import Facts

CALLED_ONCE = "its function is called once"


def plan_producer(ground: StepPlan, facts: Facts) -> StepPlan:
    """The plan by what gives the table its rows."""
    if ground.table.function:
        return _of_function(ground, facts)
    if ground.table.strategy.refresh is not None:
        return _of_view(ground, facts)
    if is_backfill(ground) and ground.part is None:
        return _of_backfill(ground, facts)
    match ground.table.producer:
        case Loads() as loads if not loads.recomputed and ground.base is not None:
            return _of_loads(ground, loads, facts)
        case _:
            return _of_join(ground, facts) if ground.table.join else plan_window(ground, facts)


def _of_view(ground: StepPlan, facts: Facts) -> StepPlan:
    found = plan_refresh(ground.table, ground.base, facts.inputs, facts.unsafe)
    gap = Gap.INPUT_CHANGES if facts.inputs is None and ground.base is not None else None
    mode = Mode.FIRST if ground.base is None else Mode.INCREMENTAL if found.rule else Mode.FULL
    return replace(ground, reason=found.reason, refresh=found, gap=gap, mode=mode)


def _of_join(ground: StepPlan, facts: Facts) -> StepPlan:
    found = plan_join(ground.table, ground.base, facts.sides, ground.part, ground.variables)
    gap = Gap.JOIN_SIDES if found.window is None else None
    plan = replace(ground, reason=found.reason, window=found.window, notices=found.notices, gap=gap)
    return replace(plan, mode=mode_of(plan))


def _of_function(ground: StepPlan, facts: Facts) -> StepPlan:
    table, snapshot = ground.table, ground.base
    if table.window is None:
        called = f"{FIRST_RUN}: {CALLED_ONCE}" if snapshot is None else CALLED_ONCE
        return replace(ground, reason=called, mode=mode_of(ground))
    if ground.request.full_refresh:
        return replace(ground, fetches=(whole_of(table, ground.now),), reason=FIRST_RUN, mode=Mode.FIRST)
    found = plan_fetches(table, snapshot, ground.request.backfill, ground.now, facts.highest)
    gap = Gap.HIGHEST if found.progress is None else None
    plan = replace(ground, fetches=found.fetches, reason=found.reason, gap=gap)
    return replace(plan, mode=mode_of(plan))


def _of_backfill(ground: StepPlan, facts: Facts) -> StepPlan:
    """The batches of a backfill, where the type of the time column is known."""
    backfill = ground.request.backfill
    assert backfill is not None  # noqa: S101
    first_run = ground.snapshot is None
    kind, assumed = cursor_kind(ground.table, ground.snapshot, facts, ground.variables, first_run=first_run)
    record = ground.snapshot.record if ground.snapshot else None
    plan = replace(ground, mode=Mode.BACKFILL, reason=f"backfill {backfill}")
    if kind is None or assumed:
        return replace(plan, gap=Gap.CURSOR_TYPE)
    batches = backfill.parts(kind, ground.now, record.backfill if record else {})
    done = len(backfill.parts(kind, ground.now, {})) - len(batches)
    return replace(plan, batches=tuple(batches), batches_done=done)


def _of_loads(ground: StepPlan, loads: Loads, facts: Facts) -> StepPlan:
    assert ground.snapshot is not None  # noqa: S101  a first run reads all of them
    planning = LoadsPlanning(ground.table, ground.snapshot, ground.variables, ground.now, ground.part, facts)
    rounds = tuple(planning.round(together) for together in loads.rounds)
    sources = [each for together in rounds for each in together]
    said = dict.fromkeys(each.window.notice for each in sources if each.window and each.window.notice)
    notices = tuple(f"{ground.table.name}: {notice}" for notice in said)
    gap = next((each.gap for each in sources if each.gap), None)
    plan = replace(ground, reason=reason_of_all(sources), rounds=rounds, notices=notices, gap=gap)
    return replace(plan, mode=mode_of(plan))
