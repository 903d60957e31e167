"""Questions to a project that Spark answers and that change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.api.planning import runner_of, session_of
from tidemill.errors import ArgumentError
from tidemill.model.join import Join
from tidemill.model.names import quoted_name
from tidemill.model.query import View

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from tidemill.api.workspace import Workspace
    from tidemill.execution.checks import TableChecks
    from tidemill.execution.runner import Runner
    from tidemill.join.arrivals import Arrivals
    from tidemill.model.graph import Node
    from tidemill.model.table import Table
    from tidemill.planning.request import Backfill
    from tidemill.suggest.advice import Suggestion
    from tidemill.verify.result import Verified


def kept_verify(
    workspace: Workspace, names: Sequence[str], spark: SparkSession | None = None, dates: Backfill | None = None
) -> Iterator[Verified]:
    """`Workspace.verify`, with what it finds in the ledger."""
    from tidemill.verify.table import record_results  # noqa: PLC0415  slow to import

    tables, results = workspace.select(names), workspace.verify(names, spark, dates=dates)
    return record_results(results, tables, names, workspace.project.folder, workspace.masking, workspace.short)


def verified(runner: Runner, tables: Sequence[Table], dates: Backfill | None) -> Iterator[Verified]:
    """Each table beside what a full run over its sources as they are now would give."""
    from tidemill.verify.table import verify_table  # noqa: PLC0415  slow to import

    try:
        for table in tables:
            yield verify_table(runner.spark(), table, runner.source_of, runner.now, runner.variables, dates)
    finally:
        runner.catalog.close()


def tested(workspace: Workspace, runner: Runner) -> Iterator[TableChecks]:
    """All checks on tables and views as they are."""
    from tidemill.execution.checks import TableChecks, table_checks  # noqa: PLC0415  slow to import

    try:
        for node in workspace.checked:
            made = _is_made(workspace, node)
            yield table_checks(runner.spark(), node, runner.catalog) if made else TableChecks(node.name)
    finally:
        runner.catalog.close()


def _is_made(workspace: Workspace, node: Node) -> bool:
    """Whether its rows can be read: a table's are there, a view's come from tables that are."""
    if not isinstance(node, View):
        return workspace.held_path(node.name) is not None
    upstream = workspace.graph.upstream(node.name.lower())
    return all(_is_made(workspace, workspace.graph.nodes[name]) for name in upstream)


def arrivals(
    workspace: Workspace, name: str, within: str | None = None, spark: SparkSession | None = None
) -> Callable[[], Arrivals]:
    """How far apart the two sides of a join come: to be counted, once nothing is wrong with what is asked."""
    (table,) = workspace.select([name])
    if not isinstance(table.producer, Join):
        joins = [workspace.short(each.name) for each in workspace.tables if isinstance(each.producer, Join)]
        raise _no_join(workspace.short(table.name), joins)
    _made_below(workspace, table)

    def count() -> Arrivals:
        from tidemill.execution.joins import JoinSource  # noqa: PLC0415  slow to import
        from tidemill.join.arrivals import arrivals_of  # noqa: PLC0415

        runner = runner_of(workspace, spark)
        source = runner.source_of(table)
        assert isinstance(source, JoinSource)  # noqa: S101  its producer is a join
        try:
            return arrivals_of(runner.spark(), source, within)
        finally:
            runner.catalog.close()

    return count


def first_rows(workspace: Workspace, view: View, limit: int, spark: SparkSession | None = None) -> pa.Table:
    """Some rows of a view, made by Spark; what it reads has to be there."""
    _made_below(workspace, view)
    runner = runner_of(workspace, spark)
    try:
        session = runner.catalog.session(runner.spark(), [view.name])
        return session.table(quoted_name(view.name)).limit(limit).toArrow()
    finally:
        runner.catalog.close()


def suggestions(workspace: Workspace, spark: SparkSession | None = None) -> Iterator[Suggestion]:
    """Looks at a sample of each source, and proposes how to read it incrementally."""
    from tidemill.suggest.facts import look_at  # noqa: PLC0415  slow to import

    session = session_of(workspace, spark)
    for each in workspace.declared:
        for source in each.sources:
            loading = [t for t in each.tables if any(load.source == source for load in t.loads)]
            yield look_at(session, source, loading, workspace.short)


def _made_below(workspace: Workspace, node: Table | View) -> None:
    for missing in workspace.unmade(node.inputs, workspace.all_views):
        raise ArgumentError(
            "table.not_made",
            f"{workspace.short(node.name)} reads {workspace.short(missing)}, which is declared and not made yet.",
            f"Make it: {workspace.command('run')}.",
        )


def _no_join(name: str, joins: Sequence[str]) -> ArgumentError:
    remedy = f"The joins are {', '.join(joins)}." if joins else "No incremental join is declared here."
    return ArgumentError("join.no_join", f"{name} is no incremental join.", remedy)
