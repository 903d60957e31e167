"""Walks a plan: steps that do not wait for each other run at once, and a failed one stops what waits for it."""

from __future__ import annotations

import logging
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from tidemill.errors import TidemillError
from tidemill.execution import Outcome, RunOutcome, Silent, in_zone_of, up_to_date
from tidemill.execution.exports.export import unwritten, write_export
from tidemill.execution.functions import run_function
from tidemill.execution.loads import commit_loads
from tidemill.execution.producers import FunctionRows, LoadsSource, facts_by_version, source_of
from tidemill.execution.query_source import QuerySource, ViewSource
from tidemill.execution.record import described
from tidemill.execution.refresh import commit_refresh
from tidemill.execution.step import commit_source, run_commits
from tidemill.execution.views import run_view
from tidemill.formats.registry import forget_view, log_of
from tidemill.model.mistakes import Wording
from tidemill.model.query import Export, View
from tidemill.model.table import Table
from tidemill.planning import USUAL, Mode, plan_step
from tidemill.planning.notices import missed_changes
from tidemill.planning.windows import known_of
from tidemill.sources import Reading
from tidemill.sources.http.fetch import remembering
from tidemill.spark.errors import as_tidemill

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future

    from pyspark.sql import SparkSession

    from tidemill.execution import Listener, StepResult
    from tidemill.execution.catalog import Catalog
    from tidemill.execution.exports.options import ExportMemory
    from tidemill.model.graph import Graph
    from tidemill.planning import Request, StepPlan
    from tidemill.sources import Connector

logger = logging.getLogger("tidemill")

AT_A_TIME = 4  # Spark shares its cores among jobs; more threads would only wait for each other


@dataclass
class Runner:
    """One run over a graph of tables, views and exports. `spark` is asked for a session when a step needs one.

    `variables` are those that the run is given, `parameters` the same as literals, `vars` those that functions find.
    `notices` are what is known of tables and views before they run, by their names; `missed` are the inputs of a table
    of which its window does not see changes. Without a `memory` every export is
    written.
    """

    spark: Callable[[], SparkSession]
    graph: Graph
    catalog: Catalog
    parameters: Mapping[str, str] = field(default_factory=dict)
    memory: ExportMemory | None = None
    listener: Listener = field(default_factory=Silent)
    threads: int = AT_A_TIME
    fail_fast: bool = False
    request: Request = USUAL
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    variables: Mapping[str, str] = field(default_factory=dict)
    notices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    missed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    vars: Mapping[str, str] = field(default_factory=dict)
    wording: Wording = field(default_factory=Wording)
    _has_session: bool = field(init=False, default=False)
    _plans: dict[str, StepPlan] = field(init=False, default_factory=dict)

    def run(self) -> RunOutcome:
        """Does every step once what it reads is done. Never raises for a step that failed: its outcome says so."""
        began = time.monotonic()
        try:
            with remembering():
                outcomes = _Walk(self).outcomes()
        finally:
            self.catalog.close()
        order = [node.name.lower() for node in self.graph.in_order()]
        return RunOutcome(tuple(outcomes[name] for name in order), time.monotonic() - began)

    def session(self) -> SparkSession:
        """The session, which the listener hears of as long as it starts."""
        if not self._has_session:
            self.listener.starting()
            try:
                self.spark()
            finally:
                self.listener.started()
            self._has_session = True
        return self.spark()

    def step(self, name: str) -> Outcome:
        """One table, view or export, whatever comes of it. An error without a place has that of the declaration."""
        node, began = self.graph.nodes[name], time.monotonic()
        self.listener.began(node.name)
        try:
            with self.catalog.user.at_work(), self.wording.log():
                outcome = Outcome(node.name, self._made(node))
        except TidemillError as failure:
            failure.origin = failure.origin or node.origin
            outcome = Outcome(node.name, error=failure)
        except Exception as failure:  # noqa: BLE001  Spark raises many kinds; each is this step's own
            outcome = Outcome(node.name, error=as_tidemill(failure, doing=f"Making {node.name}"))
        took, plan = time.monotonic() - began, self._plans.get(node.name)
        outcome = self.wording.result(replace(outcome, seconds=took, plan=plan))
        self.listener.ended(outcome)
        return outcome

    def _made(self, node: object) -> StepResult:
        match node:
            case Table():
                missed = self._missed(node)
                made = described(self.session, node, self._table(node, self.source_of(node)))
                forget_view(node.path)
                self.catalog.pins.release(node.path)
                unmet = [each.describe(node.name) for each in made.expectations if each.unmet]
                notices = (*self.notices.get(node.name, ()), *missed, *made.notices, *unmet)
                return replace(made, notices=self.wording.texts(notices))
            case View():
                viewed = run_view(self.session, node, self.catalog, self.now)
                notices = (*self.notices.get(node.name, ()), *viewed.notices)
                return replace(viewed, notices=self.wording.texts(notices))
            case Export():
                return self._export(node)
            case _:
                raise NotImplementedError(node)

    def _missed(self, table: Table) -> tuple[str, ...]:
        """Changes that its window will not see: asked just before it runs, when all that it reads is made."""
        inputs = self.missed.get(table.name, ())
        if not inputs or self.request != USUAL:
            return ()
        return missed_changes(table, inputs, known_of(table, log_of(table).snapshot()), self.catalog.version)

    def _table(self, table: Table, source: Connector) -> StepResult:
        """Does what the plan says; asks for Spark unless there is nothing to do."""
        plan, report = self.plan(table, source), partial(self.listener.moved, table.name)
        self._plans[table.name] = plan
        self.listener.planned(plan)
        if plan.mode is Mode.UP_TO_DATE:
            return up_to_date(plan)
        spark = self.session()
        plan = replace(plan, now=in_zone_of(spark, plan.now))
        match source:
            case FunctionRows():
                return run_function(spark, plan, source, report)
            case ViewSource():
                return run_commits(spark, plan, source, commit_refresh, report)
            case LoadsSource():
                return run_commits(spark, plan, source, commit_loads, report)
            case _:
                return run_commits(spark, plan, source, commit_source, report)

    def plan(self, table: Table, source: Connector) -> StepPlan:
        """What the run does to a table, on the table as it is; starts no Spark."""
        snapshot = known_of(table, log_of(table).snapshot())
        try:
            facts = facts_by_version(source, snapshot)
        except TidemillError:  # the step fails, and is kept with what the log of its table tells
            self._plans[table.name] = plan_step(table, snapshot, self.request, self.variables, self.now)
            raise
        return plan_step(table, snapshot, self.request, self.variables, self.now, facts)

    def source_of(self, table: Table) -> Connector:
        """What gives the table its rows."""
        return source_of(table, self.catalog, self.now, self.parameters, self.vars)

    def query_of(self, export: Export) -> QuerySource:
        """What gives the export its rows."""
        assert export.query is not None  # noqa: S101  a pipeline's export has one
        return QuerySource(export.name, export.query, export.inputs, self.catalog, self.now, self.parameters)

    def _export(self, export: Export) -> StepResult:
        source = self.query_of(export)
        # Asked before its rows are read: what comes in between is then seen by the next run.
        version = source.version()
        if self.memory and self.memory.holds(export, version):
            return unwritten(export)
        spark = self.session()
        result = write_export(spark, source.read(Reading(spark)), export)
        if self.memory:
            self.memory.keep(export, version, result.rows_written)
        return result


class _Walk:
    """The state of one walk over the graph."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.sorter = runner.graph.sorter()
        self.found: dict[str, Outcome] = {}

    def outcomes(self) -> dict[str, Outcome]:
        self.sorter.prepare()
        running: dict[Future[Outcome], str] = {}
        order = list(self.runner.graph.nodes)
        with ThreadPoolExecutor(self.runner.threads, thread_name_prefix="tidemill-step") as pool:
            while self.sorter.is_active():
                ready = sorted(self.sorter.get_ready(), key=order.index)
                for name in ready:
                    blocked = self._blocked(name)
                    if blocked:
                        self._end(name, blocked)
                    else:
                        running[pool.submit(self.runner.step, name)] = name
                if not ready:
                    self._collect(running)
        return self.found

    def _collect(self, running: dict[Future[Outcome], str]) -> None:
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            self._end(running.pop(future), future.result())

    def _end(self, name: str, outcome: Outcome) -> None:
        self.found[name] = outcome
        self.sorter.done(name)

    def _blocked(self, name: str) -> Outcome | None:
        """Why a step is not tried: something that it reads has failed, or was not tried itself."""
        node = self.runner.graph.nodes[name]
        lost = next((each for each in self.runner.graph.upstream(name) if not self.found[each].ok), None)
        if lost is None and self.runner.fail_fast:
            lost = next((each for each, outcome in self.found.items() if outcome.error), None)
        if lost is None:
            return None
        outcome = Outcome(node.name, waits_for=self.runner.graph.nodes[lost].name)
        self.runner.listener.ended(outcome)
        return outcome
