"""Merges and runs as Python code sees them: what became of each table, view and export."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tidemill.display import html_table
from tidemill.execution import StepKind
from tidemill.execution.journal import log_run
from tidemill.sources.registry import with_texts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from tidemill.api.workspace import Workspace
    from tidemill.errors import TidemillError
    from tidemill.execution import Outcome, RefreshReport, StepResult
    from tidemill.model.check import Checked, Expected
    from tidemill.model.cursor import CursorType
    from tidemill.model.project import Masking
    from tidemill.planning.windows import WindowPlan


@dataclass(frozen=True, slots=True)
class MergeResult:
    """What a merge did to the rows and files of its target. Every number is exact.

    `status` is created, changed or unchanged; a table that has lost columns is changed, whatever its rows did.

    >>> result = tidemill.merge([{"order_id": 1, "amount": 9.5}], "lake/one", on="order_id")
    >>> result.inserted, result.status
    (1, 'created')
    """

    inserted: int
    updated: int
    deleted: int
    unchanged: int
    ignored: int
    total: int
    files_rewritten: int
    files_kept: int
    seconds: float
    version: int
    created: bool = False
    status: str = "unchanged"
    notices: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        names = self._counted()
        seconds = f"{self.seconds:.1f}"
        caption = " · ".join((self.status, *self.notices))
        return html_table([*names, "seconds"], [[*(getattr(self, name) for name in names), seconds]], caption)

    def _counted(self) -> list[str]:
        names = ("inserted", "updated", "deleted", "unchanged", "ignored", "total", "files_rewritten", "files_kept")
        return [name for name in names if name != "ignored" or self.ignored]

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name}={getattr(self, name):_}" for name in self._counted())
        notices = f", notices={self.notices!r}" if self.notices else ""
        return f"MergeResult({numbers}, seconds={self.seconds:.1f}{notices})"


def merge_result(result: StepResult) -> MergeResult:
    """What a merge gives, from what its step did."""
    return MergeResult(
        inserted=result.counts.inserted,
        updated=result.counts.updated,
        deleted=result.counts.deleted,
        unchanged=result.counts.unchanged,
        ignored=result.counts.ignored,
        total=result.total or 0,
        files_rewritten=result.files_rewritten,
        files_kept=result.files_kept,
        seconds=result.seconds,
        version=result.version or 0,
        created=result.first_run,
        status=result.status,
        notices=result.notices,
    )


_SHOWN = ("rows_read", "inserted", "updated", "deleted", "unchanged", "total")


@dataclass(frozen=True, slots=True)
class RunWindow:
    """What a step read of its source: from `start` up to and without `end`, None where it is open, and why.

    >>> tidemill.Project.load("shop").run(select="raw_orders", start="2024-01-15").steps[0].window.column
    'updated_at'
    """

    column: str
    start: CursorType | None
    end: CursorType | None
    reason: str


@dataclass(frozen=True, slots=True)
class RunStep:
    """What became of one table, view or export. Counts are exact, and 0 where nothing was done.

    `status` is created, changed, unchanged or up to date; exported; failed, with the `error`; or not run, because
    of `waits_for`. `total` is how many rows the table holds, `watermark` how far it has read its source, `batches` in
    how many commits a backfill came, `checks` how those fared that were run before a commit, or on a view,
    `expectations` how the rows of a function fared, `joined` what an incremental join has matched,
    `refresh` how a materialized view followed its inputs.

    >>> step = tidemill.Project.load("shop").run(select="daily").steps[0]
    >>> step.table, step.status, step.ok
    ('daily', 'up to date', True)
    """

    table: str
    status: str
    strategy: str | None = None
    first_run: bool | None = None
    rebuilt: bool = False
    batches: int = 0
    rows_read: int = 0
    bytes_read: int | None = None
    rows_written: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0
    ignored: int = 0
    total: int | None = None
    window: RunWindow | None = None
    watermark: CursorType | None = None
    version: int | None = None
    seconds: float = 0.0
    notices: tuple[str, ...] = ()
    checks: tuple[Checked, ...] = ()
    expectations: tuple[Expected, ...] = ()
    joined: Mapping[str, int | str] | None = None
    refresh: Mapping[str, object] | None = None
    error: TidemillError | None = None
    waits_for: str | None = None

    def __repr__(self) -> str:
        """What differs from the default: most steps have neither notices nor checks nor a window."""
        shown = [each.name for each in fields(self) if getattr(self, each.name) != each.default]
        return f"RunStep({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    @property
    def ok(self) -> bool:
        return self.status not in {"failed", "not run"}

    @property
    def summary(self) -> str:
        """Why it failed or was not run, and its notices, in one line."""
        error = [f"[{self.error.code}] {self.error.problem}"] if self.error else []
        waits = [f"waits for {self.waits_for}"] if self.waits_for else []
        return " · ".join([*error, *waits, *self.notices])


@dataclass(frozen=True, slots=True)
class RunResult:
    """A run, with its steps in the order of the plan. `run_id` is what `tidemill runs` knows it by.

    >>> result = tidemill.Project.load("shop").run()
    >>> result.ok, {step.table: step.status for step in result.steps}
    (True, {...'daily': 'up to date'...})
    """

    steps: tuple[RunStep, ...] = field(default=())
    seconds: float = 0.0
    run_id: str = ""
    started: datetime | None = None
    ended: datetime | None = None

    def __repr__(self) -> str:
        """One line for a notebook; `steps` has the rest."""
        steps = {step.table: step.status for step in self.steps}
        return f"RunResult(ok={self.ok}, seconds={self.seconds:.1f}, steps={steps})"

    def _repr_html_(self) -> str:
        steps = [
            [step.table, step.status, *(getattr(step, name) for name in _SHOWN), step.summary] for step in self.steps
        ]
        ended = "done" if self.ok else "failed"
        return html_table(["table", "status", *_SHOWN, "notes"], steps, f"{ended} in {self.seconds:.1f} s")

    @property
    def ok(self) -> bool:
        """Whether every step was done."""
        return all(step.ok for step in self.steps)


def logged_run(workspace: Workspace, spark: SparkSession | None, **how: Any) -> RunResult:
    """A run that is in the ledger, however it ends, if it may begin; `how` goes to `Workspace.ready`."""
    ready = workspace.ready(**how)
    project, nodes = workspace.project, workspace.graph.in_order()
    with log_run(project.folder, nodes, "run", workspace.masking, workspace.short) as kept:
        done = ready(spark, kept)
    steps, run = tuple(step_of(outcome, workspace) for outcome in done.outcomes), kept.run
    assert run.ended is not None  # noqa: S101  the block has ended
    started, ended = datetime.fromisoformat(run.started), datetime.fromisoformat(run.ended)
    return RunResult(steps, done.seconds, run.run_id, started, ended)


def step_of(outcome: Outcome, workspace: Workspace) -> RunStep:
    """An outcome as Python code and JSON have it, without secrets."""
    name, result, error, masking = workspace.short(outcome.name), outcome.result, outcome.error, workspace.masking
    if error is not None:
        shown = with_texts(error, masking.mask(error.problem), masking.mask(error.remedy), error.origin)
        return RunStep(name, "failed", seconds=outcome.seconds, checks=getattr(error, "checks", ()), error=shown)
    if result is None:
        waits_for = workspace.short(outcome.waits_for) if outcome.waits_for else None
        return RunStep(name, "not run", waits_for=waits_for)
    return _done(name, result, workspace)


def _done(name: str, result: StepResult, workspace: Workspace) -> RunStep:
    counts, masking = result.counts, workspace.masking
    return RunStep(
        table=name,
        status=result.status,
        strategy=result.strategy,
        first_run=None if result.kind is StepKind.EXPORT else result.first_run,
        rebuilt=result.rebuilt,
        batches=result.batches if result.kind is StepKind.TABLE else 0,
        rows_read=result.rows_read,
        bytes_read=result.bytes_read,
        rows_written=result.rows_written,
        inserted=counts.inserted,
        updated=counts.updated,
        deleted=counts.deleted,
        unchanged=counts.unchanged,
        ignored=counts.ignored,
        total=result.total,
        window=_window(result.window, masking) if result.window else None,
        watermark=result.watermark.value if result.watermark else None,
        version=result.version,
        seconds=result.seconds,
        notices=tuple(map(masking.mask, result.notices)),
        checks=result.checks,
        expectations=result.expectations,
        joined=result.joined.to_json() if result.joined else None,
        refresh=_refresh(result.refresh, workspace) if result.refresh else None,
    )


def _refresh(refresh: RefreshReport, workspace: Workspace) -> dict[str, object]:
    """With tables as all else calls them."""
    changed = {workspace.short(name): rows for name, rows in refresh.changed.items()}
    return workspace.masking.mask_data(replace(refresh, changed=changed).to_json())


def _window(window: WindowPlan, masking: Masking) -> RunWindow:
    start, end = (bound.value if bound else None for bound in (window.start, window.end))
    return RunWindow(window.column, start, end, masking.mask(window.reason))
