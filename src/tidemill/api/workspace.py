"""A project with all that its files declare: the ground on which every command about tables stands."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.api.planning import checked_ground, notices_of, plan_of
from tidemill.errors import ArgumentError, did_you_mean
from tidemill.formats.registry import format_at
from tidemill.frontends.declarations import read_declarations
from tidemill.frontends.project import target_here
from tidemill.model import is_foreign
from tidemill.model.mistakes import Wording
from tidemill.model.project import Masking, SparkSettings
from tidemill.model.query import Export, View, through
from tidemill.model.table import Table
from tidemill.planning import USUAL
from tidemill.planning.refusals import missing_variables, refuse
from tidemill.planning.selection import chosen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from tidemill.api.engine import Engine
    from tidemill.execution import Listener, RunOutcome
    from tidemill.execution.checks import TableChecks
    from tidemill.frontends.pipeline.declarations import Declared
    from tidemill.frontends.project import ProjectSettings
    from tidemill.model.graph import Graph
    from tidemill.model.source import Source
    from tidemill.planning import Backfill, PlannedStep, Request
    from tidemill.verify.result import Verified

    Ready = Callable[[SparkSession | None, Listener | None], RunOutcome]


@dataclass(frozen=True)
class Workspace:
    """What a command works on. Loading it starts no Spark; whatever is wrong in any file is reported at once."""

    project: ProjectSettings
    declared: tuple[Declared, ...]
    graph: Graph
    given: Mapping[str, str] = field(default_factory=dict)
    masking: Masking = field(default_factory=lambda: Masking(frozenset()))
    outside: Mapping[str, Source] = field(default_factory=dict)
    spark: SparkSettings = field(default_factory=SparkSettings)
    wording: Wording = field(default_factory=Wording)
    target: str | None = None  # what commands need to be given to find it from here

    @classmethod
    def load(
        cls, target: str | Path | None = None, *, profile: str | None = None, given: Mapping[str, str] | None = None
    ) -> Workspace:
        """The project in `target` (a folder, or a pipeline file, which then is all that counts)."""
        found = read_declarations(Path(target or "."), profile, given)
        means = (found.project, found.declared, found.graph, given or {}, found.masking, found.outside, found.spark)
        return cls(*means, found.wording, target_here(target, found.project))

    def command(self, name: str) -> str:
        """A command about all of it, as a user here types it."""
        return " ".join(["tidemill", name, *([shlex.quote(self.target)] if self.target else [])])

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

    @property
    def sources(self) -> list[Source]:
        """All that is read from outside: sources of pipelines, and of the project's those that something reads."""
        inputs = [name for node in self.graph.nodes.values() for name in node.inputs]
        read = {name.lower() for name in through(inputs, self.all_views)}
        own = [source for each in self.declared for source in each.sources]
        return [*own, *(source for name, source in self.outside.items() if name in read)]

    def engine(self, spark: SparkSession | None = None) -> Engine:
        """All that it does on Spark, on this session or one of ours."""
        from tidemill.api.engine import Engine  # noqa: PLC0415  the border: PySpark is loaded by whoever needs it

        return Engine(self, spark)

    def choose(self, select: Sequence[str] = (), exclude: Sequence[str] = ()) -> Workspace:
        """The same, but for the tables and exports that are not selected (`plan.selection` has the rules)."""
        graph = chosen(self.graph, select, exclude, self.short, self.project.warehouse.naming.catalog)
        for node in graph.nodes.values():
            missing = [name for name in self.unmade(node.inputs, graph.views) if name.lower() not in graph.nodes]
            if missing:
                raise _not_made(self.short(node.name), self.short(missing[0]))
        return replace(self, graph=graph)

    def unmade(self, names: Iterable[str], views: Mapping[str, View]) -> list[str]:
        """The declared tables that the warehouse does not hold, among these names and what views of them read."""
        tables = {table.name.lower() for table in self.all_tables}
        return [name for name in through(names, views) if name.lower() in tables and self.held_path(name) is None]

    def plan(self, request: Request = USUAL) -> list[PlannedStep]:
        """What a run would do, and why; tables that would be made by earlier steps are taken as they are."""
        with self.wording.errors():
            steps = [replace(step, reason=self.wording.text(step.reason)) for step in plan_of(self, request)]
        return [self.wording.result(step, "notices") for step in steps]

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
        """A run that may begin: everything that can be wrong with it, and be known without Spark, is reported here.

        `now` is the moment that counts as its start.
        """
        with self.wording.errors():
            ground = checked_ground(self, request, now or datetime.now(self.spark.zone))
        notices = notices_of(self, ground, request)

        def run(spark: SparkSession | None, listener: Listener | None) -> RunOutcome:
            return self.engine(spark).run(request, notices, listener, now, threads=threads, fail_fast=fail_fast)

        return run

    def verify(
        self,
        names: Sequence[str] = (),
        spark: SparkSession | None = None,
        *,
        now: datetime | None = None,
        dates: Backfill | None = None,
        share: float | None = None,
    ) -> Iterator[Verified]:
        """Compares these tables, or all, with what a full run over their sources as they are now would give.

        Functions are asked for `dates` again; without any, their tables cannot be verified. Of materialized views a
        `share` of the keys is compared.
        """
        chosen = self.select(names)
        with self.wording.errors():
            refuse(each for table in chosen for each in missing_variables(table, self.given, first_run=True))
        found = self.engine(spark).verify(chosen, dates, now, share)
        return (self.wording.result(each, "notes", "remedies") for each in found)

    def logged_verify(
        self,
        names: Sequence[str] = (),
        spark: SparkSession | None = None,
        *,
        dates: Backfill | None = None,
        share: float | None = None,
    ) -> Iterator[Verified]:
        """The same, with what it finds in the ledger."""
        return self.engine(spark).record(self.verify(names, spark, dates=dates, share=share), names)

    @property
    def checked(self) -> list[Table | View]:
        """The tables and views that have checks, each after what it reads."""
        return [node for node in self.graph.in_order() if isinstance(node, Table | View) and node.checks]

    def test(self, spark: SparkSession | None = None) -> Iterator[TableChecks]:
        """Runs all checks on tables and views as they are."""
        return map(self.wording.result, self.engine(spark).test())

    def view(self, name: str) -> View | None:
        """The view of this name; None where there is none."""
        return self.all_views.get(self.project.warehouse.naming.key(name))

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
        wanted = {self.project.warehouse.naming.key(name): name for name in names}
        for key, name in wanted.items():
            if key not in known:
                raise unknown_table(name, [self.short(node.name) for node in known.values()])
        return [node for key, node in known.items() if not wanted or key in wanted]

    @property
    def all_views(self) -> dict[str, View]:
        """All views by name: those too that are not selected are there for who reads them."""
        return {view.name.lower(): view for each in self.declared for view in each.views}

    @property
    def all_tables(self) -> list[Table]:
        """All tables, those too that are not selected."""
        return [table for each in self.declared for table in each.tables]

    def short(self, name: str) -> str:
        """The name as a user writes it: without the schema that goes without saying, and without secrets."""
        return self.masking.mask(name.removeprefix(f"{self.project.warehouse.schema}."))

    def held_path(self, name: str) -> str | None:
        """Where the table of this name is, if the warehouse holds it."""
        if is_foreign(name):
            return None
        path = self.project.table_path(name)
        return path if format_at(path) else None


def _not_made(name: str, missing: str) -> ArgumentError:
    return ArgumentError(
        "plan.not_made",
        f"{name} reads {missing}, which is not selected and has not been made yet.",
        f"Select what it reads too: --select +{name}",
    )


def _is_view(name: str) -> ArgumentError:
    return ArgumentError(
        "table.is_view",
        f"{name} is a view: it keeps no rows of its own.",
        "Name the tables that it reads, or those that read it.",
    )


def unknown_table(name: str, known: Sequence[str]) -> ArgumentError:
    """A name without its schema means the table that is called so, in whichever schema."""
    without_schema = {each.rpartition(".")[2]: each for each in known}
    close = did_you_mean(name, known) or without_schema.get(did_you_mean(name, without_schema) or "")
    return ArgumentError(
        "table.unknown",
        f"No table {name} is declared.",
        f"Did you mean {close}?" if close else f"The tables are {', '.join(known)}." if known else "No table is.",
    )
