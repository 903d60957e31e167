"""What a project is worked on with, what its tables will not see, and what a run would do; without Spark."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError, MissingFileError, TidemillError
from tidemill.execution.catalog import Catalog
from tidemill.execution.exports.options import Options
from tidemill.execution.outside import Outside
from tidemill.execution.producers import columns_given, facts_by_log, source_of
from tidemill.execution.views import view_up_to_date
from tidemill.formats.registry import log_of, view_record
from tidemill.frontends.sql.binding import bind_tables, unparsed
from tidemill.frontends.sql.lineage import losing_parts, missed_inputs
from tidemill.model import spelled
from tidemill.model.query import Query, View, through
from tidemill.model.source import Source
from tidemill.model.strategy import Refresh
from tidemill.model.table import SchemaPolicy, Table, schema_changed
from tidemill.planning import USUAL, Mode, explain, explain_view, plan_step
from tidemill.planning.notices import NO_FACTS, changed_query, may_miss, missed_changes, rows_will_stay
from tidemill.planning.refusals import ground_of, refuse
from tidemill.planning.windows import known_of
from tidemill.sources.registry import connector_for, is_known, size_of

if TYPE_CHECKING:
    from tidemill.api.workspace import Workspace
    from tidemill.model.query import Export
    from tidemill.model.record import Snapshot
    from tidemill.planning import PlannedStep, Request, StepPlan
    from tidemill.planning.refusals import Ground


def catalog_of(workspace: Workspace) -> Catalog:
    outside = {name: Outside(source) for name, source in workspace.outside.items()}
    tables = {table.name.lower(): table for table in workspace.all_tables}
    naming = workspace.project.warehouse.naming
    bind = partial(bind_tables, naming=naming)
    return Catalog(workspace.held_path, naming, outside, workspace.all_views, tables, bind)


def bad_params(workspace: Workspace) -> list[ArgumentError]:
    """What is wrong with the params of sources and the options of exports, as far as they themselves show it."""
    found: list[ArgumentError] = []
    declared: list[Source | Export] = [*workspace.sources, *workspace.exports]
    for each in declared:
        try:
            connector_for(each) if isinstance(each, Source) else Options(each)
        except ArgumentError as wrong:
            wrong.origin = wrong.origin or each.origin
            found.append(wrong)
        except TidemillError:  # a kind that cannot be loaded fails in its own step
            continue
    return found


def doubtful_sources(workspace: Workspace) -> list[str]:
    """Sources that a run may not be able to read: files that are not there (yet), kinds that Spark has to know."""
    found = []
    for source in workspace.sources:
        if not is_known(source.kind):
            found.append(
                f"The source {source} needs a Spark data source called {source.kind.upper()}, which is not looked for."
            )
        if "://" in str(source.params.get("path", "")):  # to look there takes a network, and a login
            continue
        try:
            size_of(source)
        except TidemillError as failure:
            found += [failure.problem] if isinstance(failure, MissingFileError) else []
    return found


def unparsed_queries(workspace: Workspace) -> list[str]:
    """Queries that stop our parser, and of which nobody says what they read: mostly they are wrong."""
    found = []
    for node in (*workspace.tables_and_views, *workspace.exports):
        query = node.producer if isinstance(node, Table) else node.query
        wrong = unparsed(query.text) if isinstance(query, Query) and not node.inputs else None
        if isinstance(query, Query) and wrong:
            place = query.at(wrong.line, wrong.column, wrong.word)
            said = f"{place}: the query of {node.name} cannot be parsed: {wrong.why}."
            found.append(f"{said} Correct it; if Spark knows this syntax, what the query reads stays unknown.")
    return found


def kept_warnings(workspace: Workspace, table: Table) -> tuple[str, ...]:
    """That rows will stay which its query, or a view that it reads, no longer returns."""
    parts = dict.fromkeys(part for query in _queries(workspace, table) for part in losing_parts(query.text))
    warning = rows_will_stay(table, list(parts))
    return (warning,) if warning else ()


def _queries(workspace: Workspace, table: Table) -> list[Query]:
    """That of the table, and those of the views in it."""
    if not isinstance(table.producer, Query):
        return []
    views = workspace.all_views
    read = [views[name.lower()].query for name in through(table.inputs, views) if name.lower() in views]
    return [table.producer, *read]


def failing_refresh(workspace: Workspace, table: Table) -> tuple[str, ...]:
    """That a view will fail in each run after its first one, as its queries show."""
    if table.strategy.refresh is not Refresh.INCREMENTAL or not table.inputs:
        return ()
    from tidemill.planning.refresh import will_fail  # noqa: PLC0415  loads what analyses queries; few projects need it

    warning = will_fail(table, _queries(workspace, table))
    return (warning,) if warning else ()


def missed_of(workspace: Workspace, table: Table) -> tuple[str, ...]:
    """The inputs of which its window does not see changes."""
    if not isinstance(table.producer, Query) or table.window is None or not table.reads_windows:
        return ()
    naming, views = workspace.project.warehouse.naming, workspace.all_views

    def view(name: str) -> str | None:
        found = views.get(name.lower())
        return found.query.text if found else None

    found = missed_inputs(table.producer.text, table.window.time_column, naming.key, view)
    if found is None:  # only its author knows what it reads
        return table.inputs if len(table.inputs) > 1 else ()
    return found


def warnings_of(workspace: Workspace, table: Table) -> tuple[str, ...]:
    """All of a table, run or not: of one that has run, which inputs have changed since, else which may be missed."""
    kept = (*kept_warnings(workspace, table), *failing_refresh(workspace, table))
    missed = missed_of(workspace, table)
    if not missed:
        return kept
    snapshot = known_of(table, log_of(table).snapshot())
    changed = missed_changes(table, missed, snapshot, lambda name: catalog_of(workspace).version(name))
    return (*kept, *(changed or (may_miss(table, missed),)))


def refused_columns(table: Table, snapshot: Snapshot | None) -> tuple[str, ...]:
    """What `plan` says of a table whose run will stop at its columns; nothing where they fit or are not known."""
    strict = table.schema_policy is SchemaPolicy.FAIL and not table.strategy.replaces
    if snapshot is None or not strict:
        return ()
    return tuple(text for part in table.parts for text in _refused(part, snapshot))


def _refused(table: Table, snapshot: Snapshot) -> tuple[str, ...]:
    try:
        held, given = log_of(table).columns(), columns_given(table)
    except TidemillError:  # what cannot be looked at fails in its own step
        return ()
    if not held or given is None:
        return ()
    added = [name for name in given if not spelled(name, held)]
    missing = [name for name in held if not spelled(name, given) and name.lower() not in snapshot.fills]
    if not added and not missing:
        return ()
    error = schema_changed(table.name, added, missing)
    return (f"{table.name}: this run will fail with {error.code}. {error.problem} {error.remedy}",)


@dataclass(frozen=True, slots=True)
class Planned:
    """What a run would do to a table or a view; of a table, all of its plan."""

    node: Table | View
    step: PlannedStep
    plan: StepPlan | None = None


def plan_of(workspace: Workspace, request: Request) -> list[PlannedStep]:
    """What a run would do, and why; tables that would be made by earlier steps are taken as they are."""
    return [each.step for each in plans_of(workspace, request, catalog_of(workspace))]


def plans_of(workspace: Workspace, request: Request, catalog: Catalog) -> list[Planned]:
    """The same with the plans, by the versions that the catalog has pinned."""
    now = datetime.now(workspace.spark.zone)
    ground = checked_ground(workspace, request, now)
    refuse(ground.unreadable)
    found: list[Planned] = []
    busy: set[str] = set()
    for node in workspace.tables_and_views:
        if isinstance(node, View):
            read = through(node.inputs, workspace.all_views)
            unread = busy.isdisjoint(name.lower() for name in read)
            found.append(Planned(node, _plan_of_view(node, ground, catalog, unread=unread)))
            continue
        plan = _plan_of_table(workspace, node, ground, request, now, catalog, busy)
        idle = plan.mode is Mode.UP_TO_DATE
        refused = () if idle or request.full_refresh else refused_columns(node, plan.snapshot)
        warned = _warned(workspace, node, ground, request, catalog, busy)
        notices = (*ground.notices.get(node.name, ()), *plan.notices, *warned, *refused)
        plan = replace(plan, notices=notices)
        found.append(Planned(node, explain(plan), plan))
        busy |= set() if idle else {node.name.lower()}
    return found


def _plan_of_view(view: View, ground: Ground, catalog: Catalog, *, unread: bool) -> PlannedStep:
    try:
        idle = unread and view_up_to_date(view, catalog) is not None
    except TidemillError:  # what cannot be looked at fails in its own step
        idle = False
    step = explain_view(view, view_record(view.path), up_to_date=idle)
    return replace(step, notices=(*ground.notices.get(view.name, ()), *step.notices))


def _plan_of_table(
    workspace: Workspace,
    table: Table,
    ground: Ground,
    request: Request,
    now: datetime,
    catalog: Catalog,
    busy: set[str],
) -> StepPlan:
    """The plan that a run would execute; `busy` are tables that it may change before."""
    snapshot, facts = ground.snapshots[table.name], NO_FACTS
    with suppress(TidemillError):  # a source that cannot be looked at fails in its own step
        facts = facts_by_log(table, source_of(table, catalog, now, {}), snapshot)
    if not busy.isdisjoint(name.lower() for name in through(table.inputs, workspace.all_views)):
        facts = replace(facts, version=None, inputs=facts.inputs and facts.inputs.after(busy))
    return plan_step(table, snapshot, request, workspace.given, now, facts)


def _warned(
    workspace: Workspace, table: Table, ground: Ground, request: Request, catalog: Catalog, busy: set[str]
) -> tuple[str, ...]:
    """What its declaration does not see; `busy` are tables that the run may change before it."""
    snapshot = ground.snapshots.get(table.name)
    kept, missed = _foreseen_of(workspace, table, snapshot), missed_of(workspace, table) if request == USUAL else ()
    if not missed:
        return kept
    return (*kept, *missed_changes(table, missed, snapshot, catalog.version, busy))


def _foreseen_of(workspace: Workspace, table: Table, snapshot: Snapshot | None) -> tuple[str, ...]:
    """What its declaration shows; that its later runs will fail only as long as none has."""
    return (*kept_warnings(workspace, table), *(failing_refresh(workspace, table) if snapshot is None else ()))


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
    changed = changed_query(node, ground.snapshots.get(node.name), request)
    return (*changed, *_foreseen_of(workspace, node, ground.snapshots.get(node.name)))
