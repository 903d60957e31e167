"""One plan per step: what a run will do to a table, and why. The run executes it; commands and records explain it.

What only rows or a source's schema can tell is a named gap. Whoever has Spark fills it, by planning the same step on
the facts that it has found (`fill`): a plan and its run cannot differ in anything else.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING

from tidemill.model.project import NOTHING_GIVEN
from tidemill.model.source import Loads
from tidemill.planning.notices import (
    NO_FACTS,
    Gap,
    changed_query,
    cursor_kind,
    layout_notices,
    rebuilt_query,
    table_window,
)
from tidemill.planning.request import USUAL
from tidemill.planning.windows import FIRST_RUN, condition_given, reason_of_everything

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidemill.model.query import View
    from tidemill.model.record import Record, Snapshot
    from tidemill.model.table import Table
    from tidemill.planning.dates import Fetch, FetchPlan
    from tidemill.planning.joins import JoinPlan
    from tidemill.planning.loads import LoadsPlanning, SourcePlan
    from tidemill.planning.notices import Facts
    from tidemill.planning.request import Part, Request
    from tidemill.planning.windows import WindowPlan

INPUTS_UNCHANGED = "up to date: its inputs are unchanged"
REFRESHED = "full refresh: everything is read, and the table becomes what a first run gives"
CALLED_ONCE = "its function is called once"
# What plans these kinds of tables is loaded when one of them is planned: most commands meet none.
_OF_FUNCTIONS = "tidemill.planning.dates"
_OF_JOINS = "tidemill.planning.joins"
_OF_LOADS = "tidemill.planning.loads"


class Mode(StrEnum):
    """How a step goes, as the ledger keeps it."""

    FIRST = "first"
    INCREMENTAL = "incremental"
    FULL = "full"
    BACKFILL = "backfill"
    FULL_REFRESH = "full refresh"
    UP_TO_DATE = "skipped"


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What one step does to its table, on one snapshot of it.

    `window` is what is read of its source, `fetches` are the calls of a function, `batches` those of a backfill, and
    `rounds` the sources of several LOADs that enter as one change; each call, batch and round is a commit of its own,
    and `part` is the batch that this plan is for. `batches_done` are those of an earlier try of the same. `notes`
    explain what stands in the place of a `gap`. A `dry_run` counts, and commits nothing.
    """

    table: Table
    snapshot: Snapshot | None
    request: Request
    variables: Mapping[str, str]
    now: datetime
    mode: Mode
    reason: str
    window: WindowPlan | None = None
    fetches: tuple[Fetch, ...] = ()
    batches: tuple[Part, ...] = ()
    batches_done: int = 0
    rounds: tuple[tuple[SourcePlan, ...], ...] = ()
    part: Part | None = None
    notices: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    gap: Gap | None = None
    dry_run: bool = field(default=False, kw_only=True)

    @property
    def base(self) -> Snapshot | None:
        """The snapshot whose rows count: a first run and a full refresh go by none."""
        return None if self.request.full_refresh else self.snapshot

    @property
    def rebuilds(self) -> bool:
        """Whether the rows of the table give way to those of a first run."""
        return self.mode is Mode.FULL_REFRESH

    def on(self, snapshot: Snapshot | None, facts: Facts = NO_FACTS) -> StepPlan:
        """The same step on the table as it is now."""
        again = plan_step(self.table, snapshot, self.request, self.variables, self.now, facts, part=self.part)
        return replace(again, dry_run=self.dry_run)


def fill(plan: StepPlan, facts: Facts) -> StepPlan:
    """The plan with what rows and schemas tell: it has no gap."""
    return plan.on(plan.snapshot, facts)


def plan_step(
    table: Table,
    snapshot: Snapshot | None,
    request: Request = USUAL,
    variables: Mapping[str, str] = NOTHING_GIVEN,
    now: datetime | None = None,
    facts: Facts = NO_FACTS,
    *,
    part: Part | None = None,
) -> StepPlan:
    """What the next run of a table does, as far as its log and these facts tell; or what one batch of a backfill does.

    `snapshot` is as `known_of` gives it, `variables` are those that the run is given, and nothing is wrong with them;
    `now` is in the zone of the run's session.
    """
    ground = StepPlan(table, snapshot, request, variables, now or datetime.now(UTC), Mode.FULL, "", part=part)
    if _is_up_to_date(ground, facts):
        return replace(_planned(ground, facts), mode=Mode.UP_TO_DATE, reason=INPUTS_UNCHANGED, gap=None)
    return _planned(ground, facts)


def _planned(ground: StepPlan, facts: Facts) -> StepPlan:
    table, snapshot = ground.table, ground.snapshot
    found = _of_producer(ground, facts)
    if ground.request.full_refresh and snapshot is not None:
        return replace(found, mode=Mode.FULL_REFRESH, reason=REFRESHED, window=_refreshed(found.window))
    layout = layout_notices(table, snapshot.partition_columns) if snapshot else ()
    return replace(found, notices=(*found.notices, *layout))


def _refreshed(window: WindowPlan | None) -> WindowPlan | None:
    """The window of a first run, of which a full refresh reads the same rows."""
    return window and replace(window, reason=window.reason.replace(FIRST_RUN, Mode.FULL_REFRESH, 1))


def _of_producer(ground: StepPlan, facts: Facts) -> StepPlan:
    """The plan by what gives the table its rows."""
    if ground.table.function:
        return _of_function(ground, facts)
    if _is_backfill(ground) and ground.part is None:
        return _of_backfill(ground, facts)
    match ground.table.producer:
        case Loads() as loads if not loads.recomputed and ground.base is not None:
            return _of_loads(ground, loads, facts)
        case _:
            return _of_join(ground, facts) if ground.table.join else _of_window(ground, facts)


def _of_window(ground: StepPlan, facts: Facts) -> StepPlan:
    table = ground.table
    found = table_window(table, ground.base, ground.variables, ground.now, ground.part, facts)
    window = found.window
    whole = FIRST_RUN if ground.base is None else reason_of_whole(table, ground.variables)
    reason = window.reason if window else whole
    changed = changed_query(table, ground.base, ground.request) or rebuilt_query(table, ground.base)
    gap_in_time = (f"{table.name}: {window.notice}",) if window and window.notice else ()
    notices = () if _is_backfill(ground) else (*changed, *gap_in_time)
    plan = replace(ground, reason=reason, window=window, notices=notices, notes=found.notes, gap=found.gap)
    return replace(plan, mode=_mode(plan))


def _of_join(ground: StepPlan, facts: Facts) -> StepPlan:
    found: JoinPlan = import_module(_OF_JOINS).plan_join(
        ground.table, ground.base, facts.sides, ground.part, ground.variables
    )
    gap = Gap.JOIN_SIDES if found.window is None else None
    plan = replace(ground, reason=found.reason, window=found.window, notices=found.notices, gap=gap)
    return replace(plan, mode=_mode(plan))


def _of_function(ground: StepPlan, facts: Facts) -> StepPlan:
    table, snapshot, planning = ground.table, ground.base, import_module(_OF_FUNCTIONS)
    if table.window is None:
        called = f"{FIRST_RUN}: {CALLED_ONCE}" if snapshot is None else CALLED_ONCE
        return replace(ground, reason=called, mode=_mode(ground))
    if ground.request.full_refresh:
        return replace(ground, fetches=(planning.whole_of(table, ground.now),), reason=FIRST_RUN, mode=Mode.FIRST)
    found: FetchPlan = planning.plan_fetches(table, snapshot, ground.request.backfill, ground.now, facts.highest)
    gap = Gap.HIGHEST if found.progress is None else None
    plan = replace(ground, fetches=found.fetches, reason=found.reason, gap=gap)
    return replace(plan, mode=_mode(plan))


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
    of_loads = import_module(_OF_LOADS)
    planning: LoadsPlanning = of_loads.LoadsPlanning(
        ground.table, ground.snapshot, ground.variables, ground.now, ground.part, facts
    )
    rounds = tuple(planning.round(together) for together in loads.rounds)
    sources = [each for together in rounds for each in together]
    said = dict.fromkeys(each.window.notice for each in sources if each.window and each.window.notice)
    notices = tuple(f"{ground.table.name}: {notice}" for notice in said)
    gap = next((each.gap for each in sources if each.gap), None)
    plan = replace(ground, reason=of_loads.reason_of_all(sources), rounds=rounds, notices=notices, gap=gap)
    return replace(plan, mode=_mode(plan))


def _is_backfill(ground: StepPlan) -> bool:
    return ground.request.backfill is not None and ground.table.reads_windows


def _mode(plan: StepPlan) -> Mode:
    """How a step goes; a full refresh is known before."""
    if plan.part is not None or _is_backfill(plan):
        return Mode.BACKFILL
    if plan.snapshot is None:
        return Mode.FIRST
    windows = (plan.window, *(each.window for together in plan.rounds for each in together))
    bounded = any(window is not None and window.start is not None for window in windows)
    by_progress = plan.gap is Gap.JOIN_SIDES or bool(plan.table.function and plan.table.window)
    return Mode.INCREMENTAL if bounded or by_progress else Mode.FULL


def reason_of_whole(table: Table, variables: Mapping[str, str]) -> str:
    """Why a table without a window that is there already reads what it does."""
    shown = condition_given(table, variables)
    return shown or reason_of_everything(table.strategy)


def _is_up_to_date(ground: StepPlan, facts: Facts) -> bool:
    """Whether its input is known to be what it was, so is its declaration, and nobody touched its rows."""
    table, snapshot = ground.table, ground.snapshot
    record = snapshot.record if snapshot else None
    if ground.request != USUAL or facts.version is None or record is None:
        return False
    known = snapshot is not None and snapshot.rows is not None
    return known and _is_of(record, table) and _versions_of(record, table) == facts.version


def _is_of(record: Record, table: Table) -> bool:
    """Whether the declaration is what it was, that of one of several sources included."""
    alone = record.inputs.get(table.input)
    config = alone.config_hash if alone else record.config_hash
    return (record.sql_hash, config) == (table.sql_hash, table.config_hash)


def _versions_of(record: Record, table: Table) -> str | None:
    """The versions that the inputs had, as the source of the table gives them."""
    if not isinstance(table.producer, Loads) or table.producer.recomputed:
        return record.input_versions.get(table.input)
    found = {name: record.input_versions.get(name) for name in table.input_names}
    return None if None in found.values() else json.dumps(found, sort_keys=True)


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step of a plan: what a run would do to a table, and why.

    >>> step = tidemill.Project.load("shop").plan(select="daily")[0]
    >>> step.table, step.reason
    ('daily', 'up to date: its inputs are unchanged')
    """

    table: str
    strategy: str
    reason: str
    notices: tuple[str, ...] = ()


def explain(plan: StepPlan) -> PlannedStep:
    """What a run will do to a table, and why."""
    return PlannedStep(plan.table.name, plan.table.declared_strategy, plan.reason, plan.notices)


def explain_view(view: View, record: Record | None, *, up_to_date: bool = False) -> PlannedStep:
    """When the query of a view, and its checks if it has any, are tried, as far as its own record says."""
    return PlannedStep(view.name, view.strategy, INPUTS_UNCHANGED if up_to_date else _view_reason(view, record))


def _view_reason(view: View, record: Record | None) -> str:
    if record is None:
        return "first run"
    if record.sql_hash != view.sql_hash:
        return "its query changed, and is checked"
    if record.config_hash != view.config_hash:
        return "its checks changed, and are run"
    what = "its checks are run" if view.checks else "its query is checked"
    return f"{what} when what it reads has changed"
