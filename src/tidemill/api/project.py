"""Projects from Python: what one declares, what a run would do, a run, the proof that it is exact, and ways back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.api import Place, beside, logs, upkeep
from tidemill.api.explaining import explain_query, explain_tables
from tidemill.api.results import logged_run
from tidemill.api.workspace import Workspace
from tidemill.errors import ArgumentError
from tidemill.frontends.project import ProjectSettings, must_exist
from tidemill.ledger.past import past_runs
from tidemill.model import absolute
from tidemill.model.project import as_text
from tidemill.planning import Request, backfill_of
from tidemill.verify.result import VerifiedTables
from tidemill.verify.share import check_share

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from typing import Self

    from pyspark.sql import SparkSession

    from tidemill.api.logs import DropResult
    from tidemill.api.results import RunResult
    from tidemill.api.tables import Upkeep
    from tidemill.execution.checks import TableChecks
    from tidemill.ledger.past import PastRuns
    from tidemill.maintenance.backup import BackupResult, RestoreResult
    from tidemill.model.table import Table
    from tidemill.planning import PlannedStep
    from tidemill.planning.explanation import Explanation

    Names = str | Iterable[str]
    Vars = Mapping[str, object]
    Bound = str | int | date | datetime

_VALUES = (str, int, float, Decimal, date)


@dataclass(frozen=True)
class Project:
    """A project's folder, or one pipeline file. Its files are read again at every call, and Spark starts when it must.

    `select` and `exclude` take what `--select` and `--exclude` do: a name, a wildcard, `tag:NAME`, `+NAME`, `NAME+`.
    `vars` are variables, which win over all other places.

    >>> project = tidemill.Project.load("shop")
    >>> [table.name for table in project.tables]
    ['raw_orders', 'raw_customers', 'daily']
    >>> project.run(select="daily").ok
    True
    """

    target: Path
    profile: str | None = None
    vars: Vars = field(default_factory=dict)

    @classmethod
    def load(cls, target: str | Path = ".", profile: str | None = None, vars: Vars | None = None) -> Self:  # noqa: A002
        """The project that `target` is in, under a profile; `vars` count in all calls."""
        must_exist(Path(target))
        ProjectSettings.load(target, profile)  # what is wrong with its file is reported at once
        return cls(Path(target).absolute(), profile, _mapping(vars))

    @property
    def tables(self) -> tuple[Table, ...]:
        """The declared tables, each after what it reads."""
        workspace = self._workspace()
        return tuple(replace(table, name=workspace.short(table.name)) for table in workspace.tables)

    def plan(
        self,
        select: Names = (),
        exclude: Names = (),
        vars: Vars | None = None,  # noqa: A002  the word of the command line
        *,
        full_refresh: bool = False,
        start: Bound | None = None,
        end: Bound | None = None,
        batch: str | int | None = None,
    ) -> list[PlannedStep]:
        """What a run would do, and why. Starts no Spark and changes nothing."""
        workspace = self._chosen(select, exclude, vars)
        steps, mask = workspace.plan(_request(start, end, batch, full_refresh=full_refresh)), workspace.masking.mask
        return [
            replace(
                step,
                table=workspace.short(step.table),
                reason=mask(step.reason),
                notices=tuple(map(mask, step.notices)),
            )
            for step in steps
        ]

    def explain(
        self,
        tables: Names = (),
        vars: Vars | None = None,  # noqa: A002
    ) -> list[Explanation]:
        """How the next run brings these tables up to date, or all, and why; what prevents an incremental refresh.

        Of a materialized view with what is known of its inputs, and by which rules it can follow them. Starts no Spark.
        """
        return explain_tables(self._workspace(vars), _names(tables))

    def explain_query(self, query: str, vars: Vars | None = None) -> Explanation:  # noqa: A002
        """Whether a materialized view of this query would follow changes of its inputs, and how. Starts no Spark.

        The query is over tables and views of the project, and may be in no file yet.
        """
        return explain_query(self._workspace(vars), query)

    def run(
        self,
        select: Names = (),
        exclude: Names = (),
        vars: Vars | None = None,  # noqa: A002
        *,
        full_refresh: bool = False,
        start: Bound | None = None,
        end: Bound | None = None,
        batch: str | int | None = None,
        spark: SparkSession | None = None,
        threads: int | None = None,
        fail_fast: bool = False,
    ) -> RunResult:
        """Brings tables up to date; with `start` and `end` it is a backfill. Runs on `spark`, or as tidemill.toml says.

        A failed step raises nothing: the result is not `ok`, and the step has the error. The run is in the ledger.
        """
        workspace = self._chosen(select, exclude, vars)
        request = _request(start, end, batch, full_refresh=full_refresh)
        return logged_run(workspace, spark, threads=threads, fail_fast=fail_fast, request=request)

    def verify(
        self,
        tables: Names = (),
        vars: Vars | None = None,  # noqa: A002
        *,
        start: Bound | None = None,
        end: Bound | None = None,
        sample: float | None = None,
        spark: SparkSession | None = None,
    ) -> VerifiedTables:
        """Compares these tables, or all, with what one full run over their sources as they are now would give.

        Functions are asked for the dates from `start` to `end` again; without them their tables cannot be verified.
        With a `sample`, such as 0.01, only the rows of that share of the keys of materialized views are computed and
        compared. What is found is in the ledger.
        """
        share = None if sample is None else check_share(sample)
        dates = _request(start, end, None, full_refresh=False).backfill
        workspace = self._workspace(vars)
        found = workspace.logged_verify(_names(tables), spark, dates=dates, share=share)
        return VerifiedTables(replace(each, table=workspace.short(each.table)) for each in found)

    def test(
        self,
        select: Names = (),
        exclude: Names = (),
        vars: Vars | None = None,  # noqa: A002
        *,
        spark: SparkSession | None = None,
    ) -> list[TableChecks]:
        """Runs the checks of tables and views on all their rows, as they are. A check that fails raises nothing."""
        workspace = self._chosen(select, exclude, vars)
        return [replace(each, table=workspace.short(each.table)) for each in workspace.test(spark)]

    def runs(self, limit: int | None = None) -> PastRuns:
        """Past runs from the ledger, newest first, with their steps: how each ended, what it read, and why."""
        return past_runs(self._settings.folder, limit)

    def backup(
        self, table: str | Path, to: str | Path | None = None, *, spark: SparkSession | None = None
    ) -> BackupResult:
        """Copies a table as it is, with its progress, in one commit: to the name `to`, or beside it under one with
        the time. A `Path`, or a text with a `/`, is a path; `table.missing` and `backup.exists` are errors.
        """
        copy = beside(str(table)) if to is None else to
        return self._upkeep(spark).back_up(self._place(table), self._place(copy))

    def restore(
        self,
        table: str | Path,
        *,
        to: int | None = None,
        at: datetime | str | None = None,
        backup: str | Path | None = None,
        spark: SparkSession | None = None,
    ) -> RestoreResult:
        """Takes a table back, rows and progress together: to version `to`, to that of the moment `at`, or to a backup.

        It is a commit, so another restore takes it back. A moment without a zone is by this machine's clock.
        """
        copy = None if backup is None else self._place(backup)
        return self._upkeep(spark).restore(self._place(table), to=to, at=at, backup=copy)

    def drop(self, table: str | Path) -> DropResult:
        """Removes a table with all its history, at once and for good; needs no Spark.

        One that is declared `reset_allowed=False`, or has the property `pipelines.reset.allowed = false`, stays: that
        is a `TableError`.
        """
        place = self._place(table)
        return logs.drop(place, lambda: next((each for each in self.tables if each.path == place.path), None))

    def _place(self, table: str | Path) -> Place:
        """A table by its name in the project, or by its path."""
        settings = self._settings
        path = settings.table_path(table) if isinstance(table, str) and "/" not in table else absolute(table)
        alone = settings.warehouse.has_one_writer(path)
        return Place(str(table), path, settings.folder, alone, lambda: [each.name for each in self.tables])

    def _upkeep(self, spark: SparkSession | None) -> Upkeep:
        """On the session given, or the one that tidemill.toml names."""
        settings = self._settings
        return upkeep().on(spark, settings.engine_with(_texts(self.vars)))

    @property
    def _settings(self) -> ProjectSettings:
        return ProjectSettings.load(self.target, self.profile)

    def _chosen(self, select: Names, exclude: Names, given: Vars | None) -> Workspace:
        workspace, wanted, unwanted = self._workspace(given), _names(select), _names(exclude)
        return workspace.choose(wanted, unwanted) if wanted or unwanted else workspace

    def _workspace(self, given: Vars | None = None) -> Workspace:
        return Workspace.load(self.target, profile=self.profile, given=_texts({**self.vars, **_mapping(given)}))


def _request(start: Bound | None, end: Bound | None, batch: str | int | None, *, full_refresh: bool) -> Request:
    """All that a run can be asked for beyond its usual work, in one."""
    begins, ends = (None if bound is None else _text(name, bound) for name, bound in (("start", start), ("end", end)))
    return Request(full_refresh, backfill_of(begins, ends, batch))


def _mapping(given: Vars | None) -> Vars:
    if not isinstance(given, Mapping | None):
        raise ArgumentError(
            "variables.bad_value", f"vars is a {type(given).__name__}.", 'Give a dict: vars={"region": "eu"}.'
        )
    return given or {}


def _names(given: Names) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _texts(values: Vars) -> dict[str, str]:
    return {name: _text(name, value) for name, value in values.items()}


def _text(name: str, value: object) -> str:
    if not isinstance(value, _VALUES):
        raise ArgumentError(
            "variables.bad_value", f"{name} is a {type(value).__name__}.", "Give a text, a number, a date or a moment."
        )
    return value.isoformat() if isinstance(value, date) else as_text(value)
