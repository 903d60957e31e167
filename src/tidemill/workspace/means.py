"""What a project is worked on with: the session, the catalog of its tables, the runner, its sources."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

from tidemill.declare.names import quoted_text
from tidemill.declare.sources import Source
from tidemill.declare.views import through
from tidemill.errors import ArgumentError, MissingFileError, TidemillError
from tidemill.language.binding import bound

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemill.declare.exports import Export
    from tidemill.run.catalog import Catalog
    from tidemill.run.runner import Runner
    from tidemill.workspace.workspace import Workspace


def runner_of(workspace: Workspace, spark: SparkSession | None) -> Runner:
    """A runner that asks for its session when it needs it; whoever has it closes its catalog."""
    from tidemill.run.exports.memory import ExportMemory  # noqa: PLC0415  slow to import
    from tidemill.run.runner import Runner  # noqa: PLC0415

    return Runner(
        cache(lambda: session_of(workspace, spark)),
        workspace.graph,
        catalog_of(workspace),
        {name: quoted_text(value) for name, value in workspace.given.items()},
        ExportMemory(workspace.project.warehouse.path),
        variables=workspace.given,
        vars=workspace.project.variables(workspace.given).known,
        wording=workspace.wording,
    )


def catalog_of(workspace: Workspace) -> Catalog:
    from tidemill.run.catalog import Catalog  # noqa: PLC0415  slow to import
    from tidemill.run.producers.outside import Outside  # noqa: PLC0415

    outside = {name: Outside(source) for name, source in workspace.outside.items()}
    tables = {table.name.lower(): table for table in workspace.all_tables}
    naming = workspace.project.warehouse.naming
    bind = partial(bound, naming=naming)
    return Catalog(workspace.held_path, naming, outside, workspace.all_views, tables, bind)


def session_of(workspace: Workspace, spark: SparkSession | None) -> SparkSession:
    """The caller's session, or one of ours that fits the size of the sources."""
    from tidemill.engine.session import session_for  # noqa: PLC0415  slow to import
    from tidemill.sources.registry import fetch_drivers  # noqa: PLC0415

    if spark is None:
        fetch_drivers(_sources(workspace))
    return session_for(spark, small=_is_small(workspace), settings=workspace.spark)


def _is_small(workspace: Workspace) -> bool:
    """Whether sources and tables are so small that an engine which starts quickly is the faster one."""
    from tidemill.plan.work import SMALL_WORK, meets_little  # noqa: PLC0415  slow to import
    from tidemill.sources.registry import size_of  # noqa: PLC0415

    try:
        sizes = [size_of(source) for source in _sources(workspace)]
        if not all(map(meets_little, workspace.all_tables)):
            return False
    except TidemillError:  # a source that cannot be looked at fails in its own step
        return True
    return sum(size or 0 for size in sizes) <= SMALL_WORK and None not in sizes


def bad_params(workspace: Workspace) -> list[ArgumentError]:
    """What is wrong with the params of sources and the options of exports, as far as they themselves show it."""
    from tidemill.run.exports.options import Options  # noqa: PLC0415  slow to import
    from tidemill.sources.registry import connector_for  # noqa: PLC0415

    found: list[ArgumentError] = []
    declared: list[Source | Export] = [*_sources(workspace), *workspace.exports]
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
    from tidemill.sources.registry import is_known, size_of  # noqa: PLC0415  slow to import

    found = []
    for source in _sources(workspace):
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


def _sources(workspace: Workspace) -> list[Source]:
    """All that is read from outside: sources of pipelines, and of the project's those that something reads."""
    inputs = [name for node in workspace.graph.nodes.values() for name in node.inputs]
    read = {name.lower() for name in through(inputs, workspace.all_views)}
    own = [source for each in workspace.declared for source in each.sources]
    return [*own, *(source for name, source in workspace.outside.items() if name in read)]
