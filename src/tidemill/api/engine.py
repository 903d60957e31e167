"""What a project does on Spark: runs, verification, checks, and looks at rows. Importing this imports PySpark."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from tidemill.api.merge_step import SMALL_WORK, meets_little
from tidemill.api.planning import catalog_of, missed_of
from tidemill.errors import ArgumentError, TidemillError
from tidemill.execution import Silent
from tidemill.execution.checks import TableChecks, table_checks
from tidemill.execution.exports.options import ExportMemory
from tidemill.execution.joins import JoinSource
from tidemill.execution.runner import AT_A_TIME, Runner
from tidemill.formats.registry import log_at, log_of
from tidemill.join.rows import arrivals_of
from tidemill.maintenance.repair import never_run, set_watermark
from tidemill.model import quoted_name, quoted_text
from tidemill.model.join import Join
from tidemill.model.query import View, through
from tidemill.sources.registry import fetch_drivers, size_of
from tidemill.spark.errors import translated
from tidemill.spark.session import session_for
from tidemill.suggest.facts import look_at
from tidemill.verify.recording import record_results
from tidemill.verify.table import verify_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from tidemill.api.workspace import Workspace
    from tidemill.execution import Listener, RunOutcome
    from tidemill.join.rows import Arrivals
    from tidemill.model.cursor import Cursor
    from tidemill.model.graph import Node
    from tidemill.model.table import Table
    from tidemill.planning import Backfill, Request
    from tidemill.suggest.advice import Suggestion
    from tidemill.verify.result import Verified


@dataclass(frozen=True)
class Engine:
    """A project with the caller's session, or with one of ours, which starts when it is needed."""

    workspace: Workspace
    spark: SparkSession | None = None

    def session(self) -> SparkSession:
        """The caller's session, or one of ours that fits the size of the sources."""
        if self.spark is None:
            fetch_drivers(self.workspace.sources)
        return session_for(self.spark, small=self._is_small(), settings=self.workspace.spark)

    def _is_small(self) -> bool:
        """Whether sources and tables are so small that an engine which starts quickly is the faster one."""
        try:
            sizes = [size_of(source) for source in self.workspace.sources]
            if not all(map(meets_little, self.workspace.all_tables)) or self._reads_much():
                return False
        except TidemillError:  # a source that cannot be looked at fails in its own step
            return True
        return sum(size or 0 for size in sizes) <= SMALL_WORK and None not in sizes

    def _reads_much(self) -> bool:
        """Whether materialized views read large tables: even what changed is looked for in all of their files."""
        views = [table for table in self.workspace.all_tables if table.strategy.refresh]
        names = {name for view in views for name in through(view.inputs, self.workspace.all_views)}
        paths = {path for name in names if (path := self.workspace.held_path(name))}
        return sum(log_at(path).reach(()).size for path in paths) > SMALL_WORK

    def runner(self) -> Runner:
        """A runner that asks for its session when it needs it; whoever has it closes its catalog."""
        workspace = self.workspace
        return Runner(
            cache(self.session),
            workspace.graph,
            catalog_of(workspace),
            {name: quoted_text(value) for name, value in workspace.given.items()},
            ExportMemory(workspace.project.warehouse.path),
            variables=workspace.given,
            vars=workspace.project.variables(workspace.given).known,
            wording=workspace.wording,
        )

    def run(
        self,
        request: Request,
        notices: Mapping[str, tuple[str, ...]],
        listener: Listener | None,
        now: datetime | None,
        *,
        threads: int | None,
        fail_fast: bool,
    ) -> RunOutcome:
        """Brings every table up to date and writes every export; with each step these notices."""
        runner = self.runner()
        runner.request, runner.notices, runner.now = request, notices, now or runner.now
        runner.missed = {table.name: missed_of(self.workspace, table) for table in self.workspace.tables}
        runner.listener, runner.threads, runner.fail_fast = listener or Silent(), threads or AT_A_TIME, fail_fast
        return runner.run()

    def verify(
        self, tables: Sequence[Table], dates: Backfill | None, now: datetime | None, share: float | None = None
    ) -> Iterator[Verified]:
        """Each table beside what a full run over its sources as they are now would give."""
        runner = self.runner()
        at = now or runner.now
        try:
            for table in tables:
                yield verify_table(runner.spark(), table, runner.source_of, at, runner.variables, dates, share)
        finally:
            runner.catalog.close()

    def record(self, results: Iterator[Verified], names: Sequence[str]) -> Iterator[Verified]:
        """What a verification finds, written to the ledger as it comes."""
        workspace = self.workspace
        folder, tables = workspace.project.folder, workspace.select(names)
        return record_results(results, tables, names, folder, workspace.masking, workspace.short)

    def test(self) -> Iterator[TableChecks]:
        """All checks on tables and views as they are."""
        runner = self.runner()
        try:
            for node in self.workspace.checked:
                made = _is_made(self.workspace, node)
                yield table_checks(runner.spark(), node, runner.catalog) if made else TableChecks(node.name)
        finally:
            runner.catalog.close()

    def arrivals(self, name: str, within: str | None = None) -> Callable[[], Arrivals]:
        """How far apart the two sides of a join come: to be counted, once nothing is wrong with what is asked."""
        workspace = self.workspace
        (table,) = workspace.select([name])
        if not isinstance(table.producer, Join):
            joins = [workspace.short(each.name) for each in workspace.tables if isinstance(each.producer, Join)]
            raise _no_join(workspace.short(table.name), joins)
        _refuse_not_made(workspace, table)

        def count() -> Arrivals:
            runner = self.runner()
            source = runner.source_of(table)
            assert isinstance(source, JoinSource)  # noqa: S101  its producer is a join
            try:
                return arrivals_of(runner.spark(), source, within)
            finally:
                runner.catalog.close()

        return count

    def first_rows(self, view: View, limit: int) -> pa.Table:
        """Some rows of a view; what it reads has to be there."""
        _refuse_not_made(self.workspace, view)
        runner = self.runner()
        try:
            session = runner.catalog.session(runner.spark(), [view.name])
            return session.table(quoted_name(view.name)).limit(limit).toArrow()
        finally:
            runner.catalog.close()

    def suggestions(self) -> Iterator[Suggestion]:
        """Looks at a sample of each source, and proposes how to read it incrementally."""
        session = self.session()
        for each in self.workspace.declared:
            for source in each.sources:
                loading = [t for t in each.tables if any(load.source == source for load in t.loads)]
                yield look_at(session, source, loading, self.workspace.short)

    def refuse_never_run(self, tables: Iterable[Table]) -> None:
        """A table that is yet to be made has no log that could hold a watermark."""
        for table in tables:
            if log_of(table).snapshot() is None:
                raise never_run(table)

    def set_watermarks(self, changes: Iterable[tuple[Table, Cursor | None]]) -> None:
        """The next run of each table reads from its value on; from the beginning where that is None."""
        with translated("Setting the watermark"):
            spark = session_for(self.spark, small=True, settings=self.workspace.spark)
            for table, value in changes:
                set_watermark(spark, table, value)


def _is_made(workspace: Workspace, node: Node) -> bool:
    """Whether its rows can be read: a table's are there, a view's come from tables that are."""
    if not isinstance(node, View):
        return workspace.held_path(node.name) is not None
    upstream = workspace.graph.upstream(node.name.lower())
    return all(_is_made(workspace, workspace.graph.nodes[name]) for name in upstream)


def _refuse_not_made(workspace: Workspace, node: Table | View) -> None:
    for missing in workspace.unmade(node.inputs, workspace.all_views):
        raise ArgumentError(
            "table.not_made",
            f"{workspace.short(node.name)} reads {workspace.short(missing)}, which is declared and not made yet.",
            f"Make it: {workspace.command('run')}.",
        )


def _no_join(name: str, joins: Sequence[str]) -> ArgumentError:
    remedy = f"The joins are {', '.join(joins)}." if joins else "No incremental join is declared here."
    return ArgumentError("join.no_join", f"{name} is no incremental join.", remedy)
