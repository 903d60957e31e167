"""Writes runs and commands to the project's ledger while they last, however they end; reads steps back from logs."""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError, TidemillError
from tidemill.execution import Silent, StepKind
from tidemill.formats.registry import log_at
from tidemill.ledger import FAILED, INTERRUPTED, NOT_RUN, RUNNING, Ledger, Step, code_of, ledger_file, now
from tidemill.model import absolute
from tidemill.model.project import Masking
from tidemill.model.query import Export, View
from tidemill.model.record import Counts, counts_of, without_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from tidemill.execution import Listener, Outcome, StepResult
    from tidemill.ledger import Run
    from tidemill.model.graph import Node
    from tidemill.model.record import Commit, Record
    from tidemill.model.table import Table
    from tidemill.planning import StepPlan


@dataclass(slots=True)
class LoggedStep:
    """One step of a command, filled in while it runs."""

    table: str
    path: str
    strategy: str
    at: str
    status: str = RUNNING
    counts: dict[str, int] = field(default_factory=dict)
    rows_read: int | None = None
    version: int | None = None
    seconds: float | None = None
    error_code: str | None = None
    error: str | None = None

    def step(self) -> Step:
        """The step; window and watermark are those of the table's own record."""
        step = Step(
            table=self.table,
            path=self.path,
            strategy=self.strategy,
            mode="first" if self.status == "created" else "incremental",
            status=self.status,
            at=self.at,
            counts=Counts(**self.counts),
            rows_read=self.rows_read,
            version=self.version,
            seconds=self.seconds,
            error_code=self.error_code,
            error=self.error,
        )
        return _with_record(step)


def _with_record(step: Step) -> Step:
    """The step with what the table's own record says: its watermark, and of a commit that it made the window."""
    commit = None if step.version is None else log_at(step.path).commit(step.version)
    if commit is None or commit.record is None:
        return step
    known = step_of(commit, commit.record, step.path)
    if step.status == "unchanged":  # that commit was another run's
        return replace(step, watermark=known.watermark)
    return replace(step, watermark=known.watermark, window=known.window, commit_id=known.commit_id)


@contextlib.contextmanager
def log_step(strategy: str, command: str, table: str, path: str, folder: Path | None = None) -> Iterator[LoggedStep]:
    """A run of one step in the ledger of the project in `folder`: what the block fills in, or the error that ended it.

    Without a folder it is that of the current one. A command that was called wrongly did nothing to the table, so it is
    no step of it.
    """
    kept = LoggedStep(table, absolute(path), strategy, now())
    began = time.monotonic()
    with Ledger(ledger_file(folder)).run(command, folder) as run:
        run.add(kept.step())
        try:
            yield kept
        except ArgumentError:
            run.steps.clear()
            raise
        except BaseException as failure:
            kept.status = FAILED if isinstance(failure, Exception) else INTERRUPTED
            kept.error_code, kept.seconds = code_of(failure), round(time.monotonic() - began, 3)
            kept.error = failure.problem if isinstance(failure, TidemillError) else None
            run.add(kept.step())
            raise
        run.add(kept.step())


UNPLANNED = "not planned"  # the mode of a step that has not come to its plan


@contextlib.contextmanager
def log_run(
    folder: Path,
    nodes: Iterable[Node],
    command: str,
    masking: Masking,
    short: Callable[[str], str],
) -> Iterator[RunLogger]:
    """A run in the ledger of the project in `folder`, from its start to its end; it must be listened to.

    `short` gives the name of a table as users write it.
    """
    with Ledger(ledger_file(folder)).run(masking.mask(command), folder) as run:
        yield RunLogger(run, {node.name: node for node in nodes}, masking, short)


@contextlib.contextmanager
def log_merge(table: Table, command: str) -> Iterator[RunLogger]:
    """A merge in the ledger of the project in the current folder, outside of projects in the user's own.

    It must be listened to. One that was called wrongly did nothing to the table, so it is no step of it.
    """
    node, began = replace(table, path=absolute(table.path)), time.monotonic()
    with Ledger(ledger_file()).run(command) as run:
        try:
            yield RunLogger(run, {node.name: node}, Masking(frozenset()), str, is_merge=True)
        except ArgumentError:
            run.steps.clear()
            raise
        except BaseException as failure:
            for step in [each for each in run.steps.values() if each.status == RUNNING]:
                status = FAILED if isinstance(failure, Exception) else INTERRUPTED
                took = round(time.monotonic() - began, 3)
                run.add(replace(step, status=status, error_code=code_of(failure), seconds=took))
            raise


@dataclass
class RunLogger:
    """Listens to a run, or to a merge, and hands on what it hears to `listener`. No secret reaches the ledger."""

    run: Run
    nodes: dict[str, Node]
    masking: Masking
    short: Callable[[str], str]
    listener: Listener = field(default_factory=Silent)
    is_merge: bool = False
    _began: dict[str, str] = field(default_factory=dict)

    def starting(self) -> None:
        self.listener.starting()

    def started(self) -> None:
        self.listener.started()

    def moved(self, name: str, where: str) -> None:
        self.listener.moved(name, where)

    def began(self, name: str) -> None:
        self._began[name] = now()
        self.run.add(self._unfinished(name, RUNNING, None))
        self.listener.began(name)

    def planned(self, plan: StepPlan) -> None:
        self.run.add(self._unfinished(plan.table.name, RUNNING, plan))
        self.listener.planned(plan)

    def ended(self, outcome: Outcome) -> None:
        self.run.add(self._done(outcome))
        self.listener.ended(outcome)

    def _done(self, outcome: Outcome) -> Step:
        name, result, error = outcome.name, outcome.result, outcome.error
        if error is not None:
            failed = {"error_code": error.code, "error": self.masking.mask(error.problem), "seconds": outcome.seconds}
            return self._unfinished(name, FAILED, outcome.plan, **failed)
        if result is None:
            return self._step(name, "skipped", NOT_RUN, reason=self._why_not(outcome))
        step = self._finished(name, result)
        return _with_record(step) if self.is_merge else step

    def _finished(self, name: str, result: StepResult) -> Step:
        mode, reason = _why(result)
        has_rows = result.kind in {StepKind.TABLE, StepKind.MERGE} or mode == "export"
        return self._step(
            name,
            mode,
            "unchanged" if result.up_to_date else result.status,
            strategy=result.strategy,
            reason=self.masking.mask(reason) if reason else None,
            counts=result.counts,
            rows_read=result.rows_read if has_rows else None,
            bytes_read=result.bytes_read,
            version=result.version,
            window=self.masking.mask(json.dumps(result.window.to_json())) if result.window else None,
            watermark=result.watermark.text() if result.watermark else None,
            seconds=result.seconds,
            commit_id=result.commit_id,
        )

    def _unfinished(self, name: str, status: str, plan: StepPlan | None, **facts: object) -> Step:
        """A step that runs, or has failed: it goes as its plan says, where it came to one."""
        if plan is not None:
            return self._step(name, str(plan.mode), status, reason=self.masking.mask(plan.reason), **facts)
        return self._step(name, "incremental" if self.is_merge else _mode(self.nodes[name]), status, **facts)

    def _step(self, name: str, mode: str, status: str, **facts: object) -> Step:
        node, at = self.nodes[name], self._began.get(name) or now()
        strategy = facts.pop("strategy", None) or str(getattr(node, "strategy", f"export {getattr(node, 'mode', '')}"))
        table, path = self.short(name), self.masking.mask(getattr(node, "path", name))
        return Step(table, path, str(strategy), mode, status, at, **facts)  # type: ignore[arg-type] # its own fields

    def _why_not(self, outcome: Outcome) -> str:
        return f"{self.short(outcome.waits_for or '')} was not made by this run"


def _mode(node: Node) -> str:
    """How the step of a view or an export goes, or one of a table without a plan."""
    match node:
        case View():
            return "view"
        case Export():
            return "export"
        case _:
            return UNPLANNED


def _why(result: StepResult) -> tuple[str, str | None]:
    """How a step went, and why so."""
    match result.kind:
        case StepKind.VIEW:
            return "view", None
        case StepKind.EXPORT:
            return ("skipped", "what it reads is unchanged") if result.up_to_date else ("export", None)
        case StepKind.MERGE:
            return "first" if result.first_run else "incremental", None
        case StepKind.TABLE:
            return str(result.mode), result.reason


def rebuild(ledger: Ledger, paths: Iterable[str]) -> int:
    """Reads the steps of tables back from their own logs, without Spark; says how many the ledger lacked.

    Runs that committed nothing, failed steps and seconds are in no log, so they do not come back.
    """
    return ledger.refill(step for path in paths for step in _steps_of(path))


def step_of(commit: Commit, record: Record, path: str) -> Step:
    """The step behind a commit of ours."""
    watermark = record.reached(record.progress)
    first = commit.version == 0
    restored = record.restored_from is not None
    return Step(
        table=record.table,
        path=path,
        strategy=record.strategy,
        mode=mode_of(record, first=first),
        status="restored" if restored else "created" if first else "changed",
        at=record.at,
        counts=counts_of(commit),
        rows_read=record.rows,
        version=commit.version,
        window=json.dumps(dict(record.window)) if record.window else None,
        watermark=watermark.text() if watermark else None,
        reason=record.window.get("reason"),
        commit_id=record.run_id,
    )


def mode_of(record: Record, *, first: bool) -> str:
    """How a commit of ours read its source."""
    if record.window.get("reason", "").startswith("backfill"):
        return "backfill"
    if record.strategy == "full refresh":
        return record.strategy
    return "first" if first else "incremental" if record.window else "full"


def _steps_of(path: str) -> Iterator[Step]:
    log = log_at(path)
    if log.snapshot() is None:
        return
    for commit in without_parts(log.commits()):
        if commit.record is not None:
            yield step_of(commit, commit.record, path)
