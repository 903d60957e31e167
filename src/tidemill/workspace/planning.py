"""What a run of a project stands on and would do, known without Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidemill.declare.joins import Join
from tidemill.declare.views import View, through
from tidemill.errors import ArgumentError, TidemillError
from tidemill.plan import steps
from tidemill.plan.ground import ground_of, refuse
from tidemill.plan.joins import planned, side_by_log
from tidemill.plan.missed import missed_changes
from tidemill.plan.requests import USUAL
from tidemill.plan.steps import PlannedStep, plan_step
from tidemill.plan.views import plan_view
from tidemill.state.views import view_record
from tidemill.workspace.means import bad_params, catalog_of
from tidemill.workspace.warnings import kept_warnings, missed_of

if TYPE_CHECKING:
    from tidemill.contracts.snapshots import Snapshot
    from tidemill.declare.tables import Table
    from tidemill.plan.ground import Ground
    from tidemill.plan.requests import Request
    from tidemill.run.catalog import Catalog
    from tidemill.workspace.workspace import Workspace


def plan_of(workspace: Workspace, request: Request) -> list[PlannedStep]:
    """What a run would do, and why; tables that would be made by earlier steps are taken as they are."""
    now = datetime.now(workspace.spark.zone)
    ground = checked_ground(workspace, request, now)
    refuse(ground.unreadable)
    found: list[PlannedStep] = []
    busy: set[str] = set()
    catalog = catalog_of(workspace)
    for node in workspace.tables_and_views:
        step = _planned(workspace, node, ground, request, now)
        read = {name.lower() for name in through(node.inputs, workspace.all_views)}
        idle = busy.isdisjoint(read) and _is_up_to_date(node, request, catalog)
        step = steps.up_to_date(step) if idle else step
        warned = () if isinstance(node, View) else _warned(workspace, node, ground, request, catalog, busy)
        found.append(replace(step, notices=(*ground.notices.get(node.name, ()), *step.notices, *warned)))
        busy |= set() if idle or isinstance(node, View) else {node.name.lower()}
    return found


def _warned(
    workspace: Workspace, table: Table, ground: Ground, request: Request, catalog: Catalog, busy: set[str]
) -> tuple[str, ...]:
    """What its declaration does not see; `busy` are tables that the run may change before it."""
    kept, missed = kept_warnings(workspace, table), missed_of(workspace, table) if request == USUAL else ()
    if not missed:
        return kept
    return (*kept, *missed_changes(table, missed, ground.snapshots.get(table.name), catalog.version, busy))


def checked_ground(workspace: Workspace, request: Request, now: datetime) -> Ground:
    """What a run stands on; raises where it may not begin."""
    if request.backfill and not any(table.reads_windows for table in workspace.tables):
        raise ArgumentError(
            "backfill.no_time_column",
            "None of these tables has a time column, so there is nothing to read from one time to another.",
            "Leave out --start, --end and --batch: every run reads their sources whole.",
        )
    behavior = workspace.project.flags.materialization_change_behavior
    nodes, wrong = workspace.tables_and_views, bad_params(workspace)
    return ground_of(nodes, request, workspace.given, now, behavior, wrong)


def notices_of(workspace: Workspace, ground: Ground, request: Request) -> dict[str, tuple[str, ...]]:
    """What there is to say on each table and view before a run begins."""
    return {
        node.name: (*ground.notices.get(node.name, ()), *_foreseen(workspace, node, ground, request))
        for node in workspace.tables_and_views
    }


def _foreseen(workspace: Workspace, node: Table | View, ground: Ground, request: Request) -> tuple[str, ...]:
    if isinstance(node, View):
        return ()
    changed = steps.changed_query(node, ground.snapshots.get(node.name), request)
    return (*changed, *kept_warnings(workspace, node))


def _planned(workspace: Workspace, node: Table | View, ground: Ground, request: Request, now: datetime) -> PlannedStep:
    if isinstance(node, View):
        return plan_view(node, view_record(node.path))
    snapshot = ground.snapshots[node.name]
    joins = _joins(workspace, node, node.producer, snapshot) if isinstance(node.producer, Join) else None
    return plan_step(node, snapshot, request, workspace.given, now, joins)


def _joins(workspace: Workspace, table: Table, join: Join, snapshot: Snapshot | None) -> str:
    """What a join would read next."""
    declared = {each.name.lower(): each for each in workspace.all_tables}
    found = [
        side_by_log(side, declared.get(side.table), _side_path(workspace, side.table), workspace.short(side.table))
        for side in (join.a, join.b)
    ]
    lowest = [low for _, low in found if low]
    first = min(lowest) if len(lowest) == len(found) else None
    return planned(table, snapshot, [side for side, _ in found], first, workspace.given)


def _side_path(workspace: Workspace, name: str) -> str | None:
    """Where the Delta table of this name is: one of ours, or of others."""
    return catalog_of(workspace).outside[name].delta_path if name in workspace.outside else workspace.held_path(name)


def _is_up_to_date(node: Table | View, request: Request, catalog: Catalog) -> bool:
    from tidemill.run.producers.query import source_of  # noqa: PLC0415  slow to import
    from tidemill.run.results import up_to_date  # noqa: PLC0415
    from tidemill.run.views import view_up_to_date  # noqa: PLC0415

    try:
        if isinstance(node, View):
            return view_up_to_date(node, catalog) is not None
        source = source_of(node, catalog, datetime.now(UTC), {})
        return request == USUAL and up_to_date(node, source) is not None
    except TidemillError:  # a source that cannot be looked at fails in its own step
        return False
