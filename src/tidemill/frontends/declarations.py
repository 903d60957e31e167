"""Reads all that the files of a project declare: one graph, or everything that is wrong in any of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError
from tidemill.formats.registry import format_at
from tidemill.frontends.models.functions import read_functions
from tidemill.frontends.models.reader import FOLDER as MODELS
from tidemill.frontends.models.reader import FunctionFile, ModelFiles, Models, find_models, read_models
from tidemill.frontends.pipeline.declarations import Declared
from tidemill.frontends.pipeline.files import read_pipelines
from tidemill.frontends.project import ProjectSettings, must_exist
from tidemill.frontends.project_file import Filling
from tidemill.frontends.tables import with_refresh_check, with_row_key
from tidemill.model import FileErrors, in_order, is_foreign, rejected_name
from tidemill.model.graph import Graph, Node, duplicates
from tidemill.model.mistakes import Mistakes, Wording, wording_of
from tidemill.model.project import ALONE, Masking, secrets_in
from tidemill.model.query import Export, Query
from tidemill.model.strategy import MaterializedView, Refresh, RefreshCheck

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from tidemill.errors import TidemillError
    from tidemill.frontends.project import Flags
    from tidemill.model.project import SparkSettings, Variables
    from tidemill.model.source import Source
    from tidemill.model.strategy import Strategy
    from tidemill.model.table import Table


@dataclass(frozen=True)
class Declarations:
    """What a project is and declares, with nothing wrong in it that can be known without Spark."""

    project: ProjectSettings
    declared: tuple[Declared, ...]
    graph: Graph
    masking: Masking
    wording: Wording
    outside: Mapping[str, Source]
    spark: SparkSettings


def read_declarations(start: Path, profile: str | None, given: Mapping[str, str] | None) -> Declarations:
    """The project that `start` is in; a pipeline file, or a Python file with functions, is all that counts."""
    must_exist(start)
    project = ProjectSettings.load(start, profile)
    start = project.lone_pipeline or start
    files, models = _files(start, project)
    variables = project.variables(given)
    filling = Filling(variables)
    outside, spark = project.outside(filling), project.engine(filling)
    found, secrets = _read(project, files, models, variables, outside)
    if _is_alone(start):
        found = tuple(_of_file(each, start) for each in found)
    wording = _wording(found, project)
    with wording.errors():
        graph = _build_graph(found, project, outside)
    # Functions find all of .env in the `vars` of their run; which of it they use nobody knows.
    lent = secrets_in(variables.dotenv) if models.functions else frozenset()
    masking = Masking(spark.secrets.union(filling.secrets, secrets, lent))
    return Declarations(project, found, graph, masking, wording, outside, spark)


def _is_alone(start: Path) -> bool:
    return start.is_file() and start.suffix in ALONE


def _files(start: Path, project: ProjectSettings) -> tuple[list[Path], ModelFiles]:
    """The pipelines and the models that count."""
    if not _is_alone(start):
        return [_from_here(file) for file in project.pipelines], find_models(project.folder, _from_here)
    is_model = start.absolute().is_relative_to(project.folder / MODELS)
    if is_model and start.with_suffix(".sql").is_file():
        raise _is_model(start)
    if start.suffix == ".sql":
        return [start], ModelFiles()
    schema = start.absolute().parent.name if is_model else project.warehouse.schema
    return [], ModelFiles(functions=(FunctionFile(start, schema),))


def _wording(found: Sequence[Declared], project: ProjectSettings) -> Wording:
    tables = [table.name for each in found for table in each.tables]
    views = [view.name for each in found for view in each.views]
    return wording_of(project.warehouse.schema, [*tables, *map(rejected_name, tables), *views])


def _build_graph(found: Sequence[Declared], project: ProjectSettings, outside: Mapping[str, Source]) -> Graph:
    """The graph of all that is declared, each name once and nothing unknown in it."""
    nodes: list[Node] = []
    for each in found:
        nodes += [*each.tables, *each.views, *each.exports]
    if twice := duplicates(node for node in nodes if not isinstance(node, Export)):
        raise FileErrors(twice)
    graph = Graph.of(nodes)
    errors = [_declared_twice(graph.nodes[name], source) for name, source in outside.items() if name in graph.nodes]
    errors += graph.check(_Held(project, outside).__contains__)
    if errors:
        raise FileErrors(errors)
    return graph


def _read(
    project: ProjectSettings,
    files: Sequence[Path],
    models: ModelFiles,
    variables: Variables,
    outside: Container[str],
) -> tuple[tuple[Declared, ...], frozenset[str]]:
    """What all files declare, and the secrets in it; or everything that is wrong in any of them."""
    naming, folder = project.warehouse.naming, project.folder if project.file else None
    known = _Held(project, outside, (model.name for model in models.models))
    wrong = Mistakes()
    modelled = Models()
    kept: tuple[Table, ...] = ()
    found: list[Declared] = []
    with wrong.collect():
        found += read_pipelines(files, variables, path_of=project.table_path, folder=folder, naming=naming, known=known)
    with wrong.collect():
        modelled = read_models(models, variables, project.table_path, naming)
    with wrong.collect():
        kept = read_functions(models.functions, project.table_path, naming, project.folder)
    if models.models or kept:
        found.append(Declared(MODELS, (*modelled.tables, *kept), views=modelled.views, secrets=modelled.secrets))
    if wrong.errors:
        raise FileErrors(in_order([*wrong.errors, *_unknown_tables(wrong, found, known)]))
    found = [_in_project(each, project) for each in found]
    return tuple(found), frozenset().union(*(each.secrets for each in found))


def _unknown_tables(wrong: Mistakes, found: Sequence[Declared], known: Container[str]) -> list[ArgumentError]:
    """What reads a table that nobody knows, beside other mistakes: where these do not hide what is declared."""
    if not wrong.whole:
        return []
    nodes: list[Node] = [*wrong.reads]
    for each in found:
        nodes += [*each.tables, *each.views, *each.exports]
    reported = {_line(each) for each in wrong.errors if each.code == "language.unknown_table"}
    unknown = Graph.of(nodes).check(lambda name: name.lower() in wrong.perhaps or name in known)
    return [each for each in unknown if _line(each) not in reported]


def _line(error: TidemillError) -> tuple[str, int | None] | None:
    return (error.origin.file, error.origin.line) if error.origin else None


def _in_project(found: Declared, project: ProjectSettings) -> Declared:
    """Tables have the format of the warehouse, unless they name another, and the promise about its writers.

    Those that a query replaces follow their inputs, where the project says how.
    """
    warehouse = project.warehouse
    tables = (
        replace(
            table,
            format=table.format or warehouse.format,
            single_writer=warehouse.single_writer,
            strategy=_followed(table, project.flags),
        )
        for table in found.tables
    )
    return replace(found, tables=tuple(tables))


def _followed(table: Table, flags: Flags) -> Strategy:
    """How the table follows what it reads, by what the project says where its own declaration does not."""
    strategy, refresh = table.strategy, flags.table_refresh
    if refresh and strategy.replaces and strategy.refresh is None and isinstance(table.producer, Query):
        strategy = with_row_key(MaterializedView(strategy.max_shrink, refresh=Refresh(refresh)), table.producer)
    return with_refresh_check(strategy, RefreshCheck(flags.refresh_check)) if flags.refresh_check else strategy


def _of_file(found: Declared, file: Path) -> Declared:
    return replace(found, tables=tuple(replace(table, file=str(file)) for table in found.tables))


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
        self.more = {project.warehouse.naming.key(name) for name in more}

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        if name.lower() in self.outside or name.lower() in self.more or is_foreign(name):
            return True
        return format_at(self.project.table_path(name)) is not None
