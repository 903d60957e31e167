"""A project with all that its files declare: the ground on which every command about tables stands."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.declare.exports import Export
from tidemill.declare.joins import Join
from tidemill.declare.names import name_key, quoted_name, quoted_text
from tidemill.declare.producers import Loaded
from tidemill.declare.secrets import Masking
from tidemill.declare.spark import SparkSettings
from tidemill.declare.tables import Table
from tidemill.declare.views import View, through
from tidemill.errors import ArgumentError, TidemillError, did_you_mean
from tidemill.loading import read_declarations
from tidemill.plan import steps
from tidemill.plan.ground import Ground, ground_of, refuse
from tidemill.plan.joins import planned, side_by_log
from tidemill.plan.requests import USUAL
from tidemill.plan.selection import chosen
from tidemill.plan.steps import PlannedStep, plan_step
from tidemill.plan.variables import missing_variables
from tidemill.plan.views import plan_view
from tidemill.state.logs import format_at
from tidemill.state.views import view_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from tidemill.contracts.snapshots import Snapshot
    from tidemill.declare.sources import Source
    from tidemill.join.arrivals import Arrivals
    from tidemill.language.declared import Declared
    from tidemill.plan.backfills import Backfill
    from tidemill.plan.graph import Graph, Node
    from tidemill.plan.ground import Ground
    from tidemill.plan.requests import Request
    from tidemill.project import ProjectSettings
    from tidemill.run.catalog import Catalog
    from tidemill.run.events import Listener, RunOutcome
    from tidemill.run.runner import Runner
    from tidemill.suggest.source import Suggestion
    from tidemill.verify.checks import TableChecks
    from tidemill.verify.result import Verified

    Ready = Callable[[SparkSession | None, Listener | None], RunOutcome]


@dataclass(frozen=True)
class Workspace:
    """What a command works on. Loading it starts no Spark; whatever is wrong in any file is told at once."""

    project: ProjectSettings
    declared: tuple[Declared, ...]
    graph: Graph
    given: Mapping[str, str] = field(default_factory=dict)
    masking: Masking = field(default_factory=lambda: Masking(frozenset()))
    outside: Mapping[str, Source] = field(default_factory=dict)
    spark: SparkSettings = field(default_factory=SparkSettings)

    @classmethod
    def load(
        cls, target: str | Path | None = None, *, profile: str | None = None, given: Mapping[str, str] | None = None
    ) -> Workspace:
        """The project in `target` (a folder, or a pipeline file, which then is all that counts)."""
        found = read_declarations(Path(target or "."), profile, given)
        return cls(found.project, found.declared, found.graph, given or {}, found.masking, found.outside, found.spark)

    @property
    def tables(self) -> list[Table]:
        """The declared tables, each after what it reads."""
        return [node for node in self.graph.in_order() if isinstance(node, Table)]

    @property
    def views(self) -> list[View]:
        return [node for node in self.graph.in_order() if isinstance(node, View)]

    @property
    def tables_and_views(self) -> list[Table | View]:
        return [node for node in self.graph.in_order() if isinstance(node, Table | View)]

    @property
    def exports(self) -> list[Export]:
        return [node for node in self.graph.in_order() if isinstance(node, Export)]

    def choose(self, select: Sequence[str] = (), exclude: Sequence[str] = ()) -> Workspace:
        """The same, but for the tables and exports that are not selected (`plan.selection` has the rules)."""
        graph = chosen(self.graph, select, exclude, self.short)
        for node in graph.nodes.values():
            unmade = [name for name in self._unmade(node.inputs, graph.views) if name.lower() not in graph.nodes]
            if unmade:
                raise _not_made(self.short(node.name), self.short(unmade[0]))
        return replace(self, graph=graph)

    def _unmade(self, names: Iterable[str], views: Mapping[str, View]) -> list[str]:
        """The declared tables that the warehouse does not hold, among these names and what views of them read."""
        tables = {table.name.lower() for each in self.declared for table in each.tables}
        return [name for name in through(names, views) if name.lower() in tables and self.held_path(name) is None]

    def plan(self, request: Request = USUAL) -> list[PlannedStep]:
        """What a run would do, and why; tables that would be made by earlier steps are taken as they are."""
        now = datetime.now(self.spark.zone)
        ground = self._ground(request, now)
        refuse(ground.unreadable)
        found: list[PlannedStep] = []
        busy: set[str] = set()
        catalog = self._catalog()
        for node in self.tables_and_views:
            step = self._planned(node, ground, request, now)
            read = {name.lower() for name in through(node.inputs, self._views)}
            idle = busy.isdisjoint(read) and self._is_up_to_date(node, request, catalog)
            step = steps.up_to_date(step) if idle else step
            found.append(replace(step, notices=(*ground.notices.get(node.name, ()), *step.notices)))
            busy |= set() if idle or isinstance(node, View) else {node.name.lower()}
        return found

    def _planned(self, node: Table | View, ground: Ground, request: Request, now: datetime) -> PlannedStep:
        if isinstance(node, View):
            return plan_view(node, view_record(node.path))
        snapshot = ground.snapshots[node.name]
        joins = self._joins(node, snapshot) if isinstance(node.producer, Join) else None
        return plan_step(node, snapshot, request, self.given, now, joins)

    def _joins(self, table: Table, snapshot: Snapshot | None) -> str:
        """What a join would read next."""
        assert isinstance(table.producer, Join)  # noqa: S101  asked only for joins
        declared = {each.name.lower(): each for each in self._declared_tables}
        found = [
            side_by_log(side, declared.get(side.table), self._side_path(side.table), self.short(side.table))
            for side in (table.producer.a, table.producer.b)
        ]
        lowest = [low for _, low in found if low]
        first = min(lowest) if len(lowest) == len(found) else None
        return planned(table, snapshot, [side for side, _ in found], first, self.given)

    def _side_path(self, name: str) -> str | None:
        """Where the Delta table of this name is: one of ours, or of others."""
        return self._catalog().outside[name].delta_path if name in self.outside else self.held_path(name)

    @property
    def _declared_tables(self) -> list[Table]:
        """All tables, those too that are not selected."""
        return [table for each in self.declared for table in each.tables]

    def _is_up_to_date(self, node: Table | View, request: Request, catalog: Catalog) -> bool:
        from tidemill.run.query import source_of  # noqa: PLC0415
        from tidemill.run.results import up_to_date  # noqa: PLC0415
        from tidemill.run.views import view_up_to_date  # noqa: PLC0415

        try:
            if isinstance(node, View):
                return view_up_to_date(node, catalog) is not None
            source = source_of(node, catalog, datetime.now(UTC), {})
            return request == USUAL and up_to_date(node, source) is not None
        except TidemillError:  # a source that cannot be looked at fails in its own step
            return False

    def run(
        self,
        spark: SparkSession | None = None,
        listener: Listener | None = None,
        *,
        threads: int | None = None,
        fail_fast: bool = False,
        request: Request = USUAL,
        now: datetime | None = None,
    ) -> RunOutcome:
        """Brings every table up to date and writes every export; or does what is asked for instead."""
        return self.ready(threads=threads, fail_fast=fail_fast, request=request, now=now)(spark, listener)

    def ready(
        self,
        *,
        threads: int | None = None,
        fail_fast: bool = False,
        request: Request = USUAL,
        now: datetime | None = None,
    ) -> Ready:
        """A run that may begin: everything that can be wrong with it, and be known without Spark, is told here.

        `now` is the moment that counts as its start.
        """
        ground = self._ground(request, now or datetime.now(self.spark.zone))
        notices = {
            node.name: (*ground.notices.get(node.name, ()), *self._requeried(node, ground, request))
            for node in self.tables_and_views
        }

        def run(spark: SparkSession | None, listener: Listener | None) -> RunOutcome:
            from tidemill.run.events import Silent  # noqa: PLC0415  slow to import
            from tidemill.run.runner import AT_A_TIME  # noqa: PLC0415

            runner = self._runner(spark)
            runner.request, runner.notices, runner.now = request, notices, now or runner.now
            runner.listener, runner.threads, runner.fail_fast = listener or Silent(), threads or AT_A_TIME, fail_fast
            return runner.run()

        return run

    def _requeried(self, node: Table | View, ground: Ground, request: Request) -> tuple[str, ...]:
        return () if isinstance(node, View) else steps.changed_query(node, ground.snapshots.get(node.name), request)

    def verify(
        self,
        names: Sequence[str] = (),
        spark: SparkSession | None = None,
        *,
        now: datetime | None = None,
        dates: Backfill | None = None,
    ) -> Iterator[Verified]:
        """Compares these tables, or all, with what a full run over their sources as they are now would give.

        Functions are asked for `dates` again; without any, their tables cannot be verified.
        """
        chosen = self.select(names)
        refuse(each for table in chosen for each in missing_variables(table, self.given, first_run=True))
        runner = self._runner(spark)
        runner.now = now or runner.now
        return _verified(runner, chosen, dates)

    def join_stats(
        self, name: str, within: str | None = None, spark: SparkSession | None = None
    ) -> Callable[[], Arrivals]:
        """How far apart the two sides of a join come: to be counted, once nothing is wrong with what is asked."""
        (table,) = self.select([name])
        if not isinstance(table.producer, Join):
            raise _no_join(self.short(table.name), [self.short(t.name) for t in self.tables if _is_join(t)])
        unmade = self._unmade(table.inputs, self._views)
        if unmade:
            raise _not_made_below(self.short(table.name), self.short(unmade[0]))

        def count() -> Arrivals:
            from tidemill.run.arrivals import arrivals_of  # noqa: PLC0415  slow to import
            from tidemill.run.join import JoinSource  # noqa: PLC0415

            runner = self._runner(spark)
            source = runner.source_of(table)
            assert isinstance(source, JoinSource)  # noqa: S101  its producer is a join
            try:
                return arrivals_of(runner.spark(), source, within)
            finally:
                runner.catalog.close()

        return count

    @property
    def checked(self) -> list[Table | View]:
        """The tables and views that have checks, each after what it reads."""
        return [node for node in self.graph.in_order() if isinstance(node, Table | View) and node.checks]

    def test(self, spark: SparkSession | None = None) -> Iterator[TableChecks]:
        """Runs all checks on tables and views as they are."""
        from tidemill.verify.checks import TableChecks, table_checks  # noqa: PLC0415  slow to import

        runner = self._runner(spark)
        try:
            for node in self.checked:
                made = self._is_made(node)
                yield table_checks(runner.spark(), node, runner.catalog) if made else TableChecks(node.name)
        finally:
            runner.catalog.close()

    def _is_made(self, node: Node) -> bool:
        """Whether its rows can be read: a table's are there, a view's come from tables that are."""
        if not isinstance(node, View):
            return self.held_path(node.name) is not None
        return all(self._is_made(self.graph.nodes[name]) for name in self.graph.upstream(node.name.lower()))

    def suggest(self, spark: SparkSession | None = None) -> Iterator[Suggestion]:
        """Looks at a sample of each source, and proposes how to read it incrementally."""
        from tidemill.suggest.look import look_at  # noqa: PLC0415

        session = self._session(spark)
        for each in self.declared:
            for source in each.sources:
                loading = [t for t in each.tables if isinstance(t.producer, Loaded) and t.producer.source == source]
                yield look_at(session, source, loading, self.short)

    def view(self, name: str) -> View | None:
        """The view of this name; None where there is none."""
        return self._views.get(name_key(name, self.project.warehouse.schema))

    def first_rows(self, view: View, limit: int, spark: SparkSession | None = None) -> pa.Table:
        """Some rows of a view, made by Spark; what it reads has to be there."""
        for name in self._unmade(view.inputs, self._views):
            raise _not_made_below(self.short(view.name), self.short(name))
        runner = self._runner(spark)
        try:
            session = runner.catalog.session(runner.spark(), [view.name])
            return session.table(quoted_name(view.name)).limit(limit).toArrow()
        finally:
            runner.catalog.close()

    def select(self, names: Sequence[str]) -> list[Table]:
        """The tables of these names, in the order of a run; all where none are named. A view is an error."""
        found = self.select_also_views(names)
        for view in found if names else ():
            if isinstance(view, View):
                raise _is_view(self.short(view.name))
        return [table for table in found if isinstance(table, Table)]

    def select_also_views(self, names: Sequence[str]) -> list[Table | View]:
        """The tables and views of these names, in the order of a run; all where none are named."""
        known = {node.name.lower(): node for node in self.tables_and_views}
        wanted = {name_key(name, self.project.warehouse.schema): name for name in names}
        for key, name in wanted.items():
            if key not in known:
                raise unknown_table(name, [self.short(node.name) for node in known.values()])
        return [node for key, node in known.items() if not wanted or key in wanted]

    def _ground(self, request: Request, now: datetime) -> Ground:
        """What a run stands on; raises where it may not begin."""
        self._check_request(request)
        behavior = self.project.flags.materialization_change_behavior
        return ground_of(self.tables_and_views, request, self.given, now, behavior, self.bad_sources())

    def _check_request(self, request: Request) -> None:
        if request.backfill and not any(table.reads_windows for table in self.tables):
            raise ArgumentError(
                "backfill.no_time_column",
                "None of these tables has a time column, so there is nothing to read from one time to another.",
                "Leave out --start, --end and --batch: every run reads their sources whole.",
            )

    def _runner(self, spark: SparkSession | None) -> Runner:
        from tidemill.run.export_memory import ExportMemory  # noqa: PLC0415
        from tidemill.run.runner import Runner  # noqa: PLC0415

        return Runner(
            cache(lambda: self._session(spark)),
            self.graph,
            self._catalog(),
            {name: quoted_text(value) for name, value in self.given.items()},
            ExportMemory(self.project.warehouse.path),
            variables=self.given,
            vars=self.project.variables(self.given).known,
        )

    @property
    def _views(self) -> dict[str, View]:
        """All views by name: those too that are not selected are there for who reads them."""
        return {view.name.lower(): view for each in self.declared for view in each.views}

    def _catalog(self) -> Catalog:
        from tidemill.run.catalog import Catalog  # noqa: PLC0415
        from tidemill.run.outside import Outside  # noqa: PLC0415

        outside = {name: Outside(source) for name, source in self.outside.items()}
        tables = {table.name.lower(): table for table in self._declared_tables}
        return Catalog(self.held_path, self.project.warehouse.schema, outside, self._views, tables)

    def _session(self, spark: SparkSession | None) -> SparkSession:
        from tidemill.engine.session import session_for  # noqa: PLC0415  slow to import
        from tidemill.sources.registry import fetch_drivers  # noqa: PLC0415

        if spark is None:
            fetch_drivers(self._sources())
        return session_for(spark, small=self._is_small(), settings=self.spark)

    def _is_small(self) -> bool:
        """Whether all sources together are so small that an engine which starts quickly is the faster one."""
        from tidemill.engine.session import SMALL_WORK  # noqa: PLC0415  slow to import
        from tidemill.sources.registry import size_of  # noqa: PLC0415

        try:
            sizes = [size_of(source) for source in self._sources()]
        except TidemillError:  # a source that cannot be looked at fails in its own step
            return True
        return sum(size or 0 for size in sizes) <= SMALL_WORK and None not in sizes

    def _sources(self) -> list[Source]:
        """All that is read from outside: sources of pipelines, and of the project's those that something reads."""
        inputs = [name for node in self.graph.nodes.values() for name in node.inputs]
        read = {name.lower() for name in through(inputs, self._views)}
        own = [source for each in self.declared for source in each.sources]
        return [*own, *(source for name, source in self.outside.items() if name in read)]

    def bad_sources(self) -> list[ArgumentError]:
        """What is wrong with the params of sources, as far as that can be known without looking at them."""
        from tidemill.sources.registry import connector_for  # noqa: PLC0415  slow to import

        found: list[ArgumentError] = []
        for source in self._sources():
            try:
                connector_for(source)
            except ArgumentError as wrong:
                wrong.origin = wrong.origin or source.origin
                found.append(wrong)
            except TidemillError:  # a kind that cannot be loaded fails in its own step
                continue
        return found

    def short(self, name: str) -> str:
        """The name as a user writes it: without the schema that goes without saying, and without secrets."""
        return self.masking.mask(name.removeprefix(f"{self.project.warehouse.schema}."))

    def held_path(self, name: str) -> str | None:
        """Where the table of this name is, if the warehouse holds it."""
        if name.count(".") > 1:
            return None
        path = self.project.table_path(name)
        return path if format_at(path) else None


def _verified(runner: Runner, tables: Sequence[Table], dates: Backfill | None) -> Iterator[Verified]:
    from tidemill.verify.table import verify_table  # noqa: PLC0415  slow to import

    try:
        for table in tables:
            yield verify_table(runner.spark(), table, runner.source_of, runner.now, runner.variables, dates)
    finally:
        runner.catalog.close()


def _not_made(name: str, missing: str) -> ArgumentError:
    return ArgumentError(
        "plan.not_made",
        f"{name} reads {missing}, which is not selected and has not been made yet.",
        f"Select what it reads too: --select +{name}",
    )


def _not_made_below(view: str, missing: str) -> ArgumentError:
    return ArgumentError(
        "table.not_made", f"{view} reads {missing}, which is declared and not made yet.", "Make it: tidemill run."
    )


def _is_join(table: Table) -> bool:
    return isinstance(table.producer, Join)


def _no_join(name: str, joins: Sequence[str]) -> ArgumentError:
    remedy = f"The joins are {', '.join(joins)}." if joins else "No incremental join is declared here."
    return ArgumentError("join.no_join", f"{name} is no incremental join.", remedy)


def _is_view(name: str) -> ArgumentError:
    return ArgumentError(
        "table.is_view",
        f"{name} is a view: it keeps no rows of its own.",
        "Name the tables that it reads, or those that read it.",
    )


def unknown_table(name: str, known: Sequence[str]) -> ArgumentError:
    close = did_you_mean(name, known)
    return ArgumentError(
        "table.unknown",
        f"No table {name} is declared.",
        f"Did you mean {close}?" if close else f"The tables are {', '.join(known) or 'none'}.",
    )
