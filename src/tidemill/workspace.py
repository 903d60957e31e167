"""A project with all that its files declare: the ground on which every command about tables stands."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.declare.exports import Export
from tidemill.declare.mistakes import FileErrors, collecting
from tidemill.declare.names import name_key, quoted_text
from tidemill.declare.producers import Loaded
from tidemill.declare.secrets import Masking
from tidemill.declare.spark import SparkSettings
from tidemill.declare.tables import Table
from tidemill.declare.views import View
from tidemill.errors import ArgumentError, TidemillError, did_you_mean
from tidemill.language.declared import Declared, declared
from tidemill.language.pipeline import read_pipelines
from tidemill.models import ModelFiles, Models, find_models, read_models
from tidemill.models.files import FOLDER as MODELS
from tidemill.plan import steps
from tidemill.plan.graph import Graph, Node, duplicates
from tidemill.plan.requests import USUAL
from tidemill.plan.selection import chosen
from tidemill.plan.steps import PlannedStep, plan_step
from tidemill.project import Filling, ProjectSettings
from tidemill.state.delta_log import DeltaLog

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from tidemill.declare.sources import Source
    from tidemill.declare.variables import Variables
    from tidemill.language.pipeline import Pipeline
    from tidemill.plan.requests import Request
    from tidemill.run.catalog import Catalog
    from tidemill.run.events import Listener, RunOutcome
    from tidemill.run.runner import Runner
    from tidemill.suggest.source import Suggestion
    from tidemill.verify.result import Verified


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
        start = Path(target or ".")
        if not start.exists():
            raise ArgumentError(
                "target.missing", f"There is no {start}.", "Name a pipeline file, or a project's folder."
            )
        project = ProjectSettings.load(start, profile)
        alone = start.is_file() and start.suffix == ".sql"
        if alone and start.absolute().is_relative_to(project.folder / MODELS):
            raise _is_model(start)
        files = [start] if alone else [_from_here(file) for file in project.pipelines]
        models = ModelFiles() if alone else find_models(project.folder, _from_here)
        variables = project.variables(given)
        filling = Filling(variables)
        outside, spark = project.outside(filling), project.engine(filling)
        found, secrets = _read(project, files, models, variables, outside)
        nodes: list[Node] = []
        for each in found:
            nodes += [*each.tables, *each.views, *each.exports]
        if twice := duplicates(node for node in nodes if not isinstance(node, Export)):
            raise FileErrors(twice)
        masking = Masking(spark.secrets.union(filling.secrets, secrets))
        workspace = cls(project, found, Graph.of(nodes), given or {}, masking, outside, spark)
        workspace.check()
        return workspace

    @property
    def tables(self) -> list[Table]:
        """The declared tables, each after what it reads."""
        return [node for node in self.graph.in_order() if isinstance(node, Table)]

    @property
    def views(self) -> list[View]:
        return [node for node in self.graph.in_order() if isinstance(node, View)]

    @property
    def exports(self) -> list[Export]:
        return [node for node in self.graph.in_order() if isinstance(node, Export)]

    def check(self) -> None:
        errors = [_declared_twice(self.graph.nodes[name], source) for name, source in self._doubled()]
        errors += self.graph.check(_Held(self.project, self.outside).__contains__)
        if errors:
            raise FileErrors(errors)

    def _doubled(self) -> list[tuple[str, Source]]:
        return [(name, source) for name, source in self.outside.items() if name in self.graph.nodes]

    def choose(self, select: Sequence[str] = (), exclude: Sequence[str] = ()) -> Workspace:
        """The same, but for the tables and exports that are not selected (`plan.selection` has the rules)."""
        graph = chosen(self.graph, select, exclude, self.short)
        for node in graph.nodes.values():
            for name in node.inputs:
                unmade = name.lower() in self.graph.nodes and self.held_path(name) is None
                if unmade and name.lower() not in graph.nodes:
                    raise _not_made(self.short(node.name), self.short(name))
        return replace(self, graph=graph)

    def plan(self, request: Request = USUAL) -> list[PlannedStep]:
        """What a run would do, and why; tables that would be made by earlier steps are taken as they are."""
        self._check_request(request)
        found: list[PlannedStep] = []
        busy: set[str] = set()
        for table in self.tables:
            step = plan_step(table, DeltaLog(table.path).snapshot(), request)
            idle = request == USUAL and busy.isdisjoint(table.inputs) and self._is_up_to_date(table)
            found.append(steps.up_to_date(step) if idle else step)
            busy |= set() if idle else {table.name.lower()}
        return found

    def _is_up_to_date(self, table: Table) -> bool:
        from tidemill.run.query import source_of  # noqa: PLC0415
        from tidemill.run.results import up_to_date  # noqa: PLC0415

        try:
            return up_to_date(table, source_of(table, self._catalog(), datetime.now(UTC), {})) is not None
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
    ) -> RunOutcome:
        """Brings every table up to date and writes every export; or does what is asked for instead."""
        from tidemill.run.events import Silent  # noqa: PLC0415  slow to import
        from tidemill.run.runner import AT_A_TIME  # noqa: PLC0415

        self._check_request(request)
        runner = self._runner(spark)
        runner.request = request
        runner.listener, runner.threads, runner.fail_fast = listener or Silent(), threads or AT_A_TIME, fail_fast
        return runner.run()

    def verify(
        self, names: Sequence[str] = (), spark: SparkSession | None = None, *, now: datetime | None = None
    ) -> Iterator[Verified]:
        """Compares these tables, or all, with what a full run over their sources as they are now would give."""
        chosen = self.select(names)
        runner = self._runner(spark)
        runner.now = now or runner.now
        return _verified(runner, chosen)

    def suggest(self, spark: SparkSession | None = None) -> Iterator[Suggestion]:
        """Looks at a sample of each source, and proposes how to read it incrementally."""
        from tidemill.suggest.look import look_at  # noqa: PLC0415

        session = self._session(spark)
        for each in self.declared:
            for source in each.sources:
                loading = [t for t in each.tables if isinstance(t.producer, Loaded) and t.producer.source == source]
                yield look_at(session, source, loading, self.short)

    def select(self, names: Sequence[str]) -> list[Table]:
        """The tables of these names, in the order of a run; all where none are named."""
        known = {table.name.lower(): table for table in self.tables}
        wanted = {name_key(name, self.project.warehouse.schema): name for name in names}
        for key, name in wanted.items():
            if key not in known:
                raise unknown_table(name, [self.short(table.name) for table in self.tables])
        return [table for key, table in known.items() if not wanted or key in wanted]

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
        )

    def _catalog(self) -> Catalog:
        from tidemill.run.catalog import Catalog  # noqa: PLC0415
        from tidemill.run.outside import Outside  # noqa: PLC0415

        outside = {name: Outside(source) for name, source in self.outside.items()}
        return Catalog(self.held_path, self.project.warehouse.schema, outside)

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
        read = {name.lower() for node in self.graph.nodes.values() for name in node.inputs}
        own = [source for each in self.declared for source in each.sources]
        return [*own, *(source for name, source in self.outside.items() if name in read)]

    def short(self, name: str) -> str:
        """The name as a user writes it: without the schema that goes without saying, and without secrets."""
        return self.masking.mask(name.removeprefix(f"{self.project.warehouse.schema}."))

    def held_path(self, name: str) -> str | None:
        """Where the table of this name is, if the warehouse holds it."""
        if name.count(".") > 1:
            return None
        path = self.project.table_path(name)
        return path if (Path(path) / "_delta_log").is_dir() else None


def _verified(runner: Runner, tables: Sequence[Table]) -> Iterator[Verified]:
    from tidemill.verify.table import verify_table  # noqa: PLC0415  slow to import

    try:
        for table in tables:
            yield verify_table(runner.spark(), table, runner.source_of, runner.now)
    finally:
        runner.catalog.close()


def _not_made(name: str, missing: str) -> ArgumentError:
    return ArgumentError(
        "plan.not_made",
        f"{name} reads {missing}, which is not selected and has not been made yet.",
        f"Select what it reads too: --select +{name}",
    )


def _read(
    project: ProjectSettings,
    files: Sequence[Path],
    models: ModelFiles,
    variables: Variables,
    outside: Container[str],
) -> tuple[tuple[Declared, ...], frozenset[str]]:
    """What all files declare, and the secrets in it; or everything that is wrong in any of them."""
    schema, folder = project.warehouse.schema, project.folder if project.file else None
    known = _Held(project, outside, (model.name for model in models.models))
    errors: list[TidemillError] = []
    pipelines: tuple[Pipeline, ...] = ()
    modelled = Models()
    with collecting(errors):
        pipelines = read_pipelines(files, variables, schema=schema, known=known)
    with collecting(errors):
        modelled = read_models(models, variables, project.table_path, schema)
    if errors:
        raise FileErrors(errors)
    found = [declared(each, project.table_path, schema, folder) for each in pipelines]
    if models.models:
        found.append(Declared(MODELS, modelled.tables, (), (), modelled.views))
    return tuple(found), modelled.secrets.union(*(each.secrets for each in pipelines))


def _is_model(file: Path) -> ArgumentError:
    name = f"{file.parent.name}.{file.stem}"
    return ArgumentError(
        "target.is_model",
        f"{file} is a model of a project, and not a pipeline by itself.",
        f"Name the project's folder, and the model with -s {name}.",
    )


def _from_here(file: Path) -> Path:
    """The path as a user here would type it."""
    here = Path.cwd()
    return file.relative_to(here) if file.is_relative_to(here) else file


def unknown_table(name: str, known: Sequence[str]) -> ArgumentError:
    close = did_you_mean(name, known)
    return ArgumentError(
        "table.unknown",
        f"No table {name} is declared.",
        f"Did you mean {close}?" if close else f"The tables are {', '.join(known) or 'none'}.",
    )


def _declared_twice(node: Node, source: Source) -> ArgumentError:
    return ArgumentError(
        "project.source_is_table",
        f"{source} is declared as outside data, and as a table at {node.origin}.",
        "Give one of them another name.",
        origin=source.origin,
    )


class _Held:
    """The tables that no pipeline declares and that are there all the same: outside data, and what the warehouse holds.

    `more` are names that are declared elsewhere.
    """

    def __init__(self, project: ProjectSettings, outside: Container[str], more: Iterable[str] = ()) -> None:
        self.project, self.outside = project, outside
        self.more = {name_key(name, project.warehouse.schema) for name in more}

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        if name.lower() in self.outside or name.lower() in self.more or name.count(".") > 1:
            return True
        return (Path(self.project.table_path(name)) / "_delta_log").is_dir()
