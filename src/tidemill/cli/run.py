"""`tidemill run`: tables are brought up to date; a head, a line per step as it ends, a closing line; or all as JSON."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from tidemill import __version__
from tidemill.api.results import step_of
from tidemill.cli import Live, examples, interruptible, output, render
from tidemill.cli.plan import show_plan
from tidemill.cli.projects import requested, selection, variables
from tidemill.cli.render import COUNTS
from tidemill.errors import exit_code_of
from tidemill.execution.journal import log_run

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tidemill.api.workspace import Workspace
    from tidemill.cli import Output
    from tidemill.cli.projects import Load
    from tidemill.errors import TidemillError
    from tidemill.execution import Outcome, RefreshReport, RunOutcome, StepResult
    from tidemill.execution.journal import RunLogger
    from tidemill.ledger import Run
    from tidemill.planning import Request, StepPlan

STARTING = "starting Spark"
_VERBS = {
    "replace": "replaced",
    "materialized_view": "refreshed",
    "append": "appended",
    "delete_insert": "replaced",
    "incremental_join": "joined",
}


@click.command(
    epilog=examples(
        "tidemill run",
        "tidemill run pipelines/shop.sql --var region=us",
        'tidemill run ./shop -s orders+ --vars \'{"start_date": "2024-02-01"}\'',
        'tidemill run -s orders --start 2024-01-01 --end 2024-03-31 --batch "7 days"',
        "tidemill run -s daily --full-refresh",
    ),
)
@click.argument("target", required=False)
@variables
@selection
@requested
@click.option("--threads", type=click.IntRange(min=1), metavar="N", help="How many steps run at the same time.")
@click.option("--fail-fast", is_flag=True, help="Start nothing more once a step has failed.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, as tidemill plan does.")
@click.option("--summary", is_flag=True, help="Show only how it ended.")
@output
def run(
    target: str | None,
    load: Load,
    request: Request,
    threads: int | None,
    fail_fast: bool,
    dry_run: bool,
    summary: bool,
    out: Output,
) -> int:
    """Bring every table up to date: in the project that TARGET is in, or in one pipeline file.

    Each table is changed in one commit, or in none when nothing differs. A failed step stops what reads its table;
    the rest goes on.
    """
    workspace = load(target)
    if dry_run:
        show_plan(workspace, request, out)
        return 0
    ready = workspace.ready(threads=threads, fail_fast=fail_fast, request=request)
    live = Live("reading logs", quiet=not out.lines)
    shown = Shown(workspace, live, lines=out.lines and not summary, failures=not out.as_json)
    shown.head()
    with _log_run(workspace, target, request) as kept, live:
        kept.listener = shown
        outcome = interruptible(partial(ready, None, kept))
    out.result(run_data(workspace, outcome, kept.run), partial(shown.close, outcome))
    return exit_code_of(each.error for each in outcome.outcomes if each.error)


def _log_run(workspace: Workspace, target: str | None, request: Request) -> AbstractContextManager[RunLogger]:
    """The run, kept in the ledger under the command that started it."""
    asked = request.backfill.to_json() if request.backfill else {}
    flags = ["--full-refresh"] if request.full_refresh else [f"--{name} {value}" for name, value in asked.items()]
    command = " ".join(["run", *([target] if target else []), *flags])
    nodes = workspace.graph.in_order()
    return log_run(workspace.project.folder, nodes, command, workspace.masking, workspace.short)


@dataclass
class Shown:
    """Listens to a run and shows it.

    `lines` is false where only its end is asked for: then failures go to stderr, or into the document that is made.
    """

    workspace: Workspace
    live: Live
    lines: bool = True
    failures: bool = True

    def __post_init__(self) -> None:
        self.outcomes: list[Outcome] = []
        self._turn = threading.Lock()
        self._width = max((len(self.workspace.short(node.name)) for node in self._nodes), default=0)
        self._first = bool(self.workspace.tables) and not any(
            self.workspace.held_path(table.name) for table in self.workspace.tables
        )

    @property
    def _nodes(self) -> list[Any]:
        return self.workspace.graph.in_order()

    def head(self) -> None:
        if self.lines:
            count = len(self._nodes)
            words = (
                f"Tidemill {__version__.removesuffix('.0')}",
                self.workspace.project.name,
                self.workspace.masking.mask(str(self.workspace.spark)),
                f"{count} step{'' if count == 1 else 's'}",
            )
            render.say(f"{render.INDENT}{render.SEPARATOR.join(words)}{'   first run' if self._first else ''}")

    def starting(self) -> None:
        with self._turn:
            self.live.began(STARTING)

    def started(self) -> None:
        with self._turn:
            self.live.ended(STARTING)

    def began(self, name: str) -> None:
        with self._turn:
            self.live.began(self.workspace.short(name))

    def planned(self, plan: StepPlan) -> None:
        with self._turn:
            self.live.moved(self.workspace.short(plan.table.name), self.workspace.masking.mask(plan.reason))

    def moved(self, name: str, where: str) -> None:
        with self._turn:
            self.live.moved(self.workspace.short(name), where)

    def ended(self, outcome: Outcome) -> None:
        with self._turn:
            self.live.ended(self.workspace.short(outcome.name))
            self.outcomes.append(outcome)
            if outcome.error is None and self.lines:
                self._show(outcome)
            elif outcome.error is not None and self.failures:
                self._show_failure(outcome, outcome.error)

    def close(self, outcome: RunOutcome) -> None:
        """The closing line: how it ended, and what to do next."""
        render.say(f"{render.INDENT}{render.SEPARATOR.join(self._end(outcome))}")

    def _show_failure(self, outcome: Outcome, error: TidemillError) -> None:
        mask = self.workspace.masking.mask
        name = self.workspace.short(outcome.name).ljust(self._width)
        if any(str(each.error) == str(error) for each in self.outcomes[:-1]):  # Java is missing for one as for all
            render.failed(name, f"error[{error.code}] the same as above", err=not self.lines)
            return
        render.failed(name, f"error[{error.code}] {mask(error.problem)}", err=not self.lines)
        for line in (error.origin, mask(error.remedy)):
            if line:
                render.say(f"{render.INDENT * 2}{line}", err=not self.lines)

    def _show(self, outcome: Outcome) -> None:
        name = self.workspace.short(outcome.name).ljust(self._width)
        if outcome.result is None:
            render.passed_over(name, self._why_not(outcome))
            return
        did, count, facts = self._did(outcome.result)
        render.done(name, facts, outcome.result.seconds, f"{did:10} {count:>12}   ")
        for text in outcome.result.notices:
            render.notice(self.workspace.masking.mask(text))

    def _why_not(self, outcome: Outcome) -> str:
        waits_for = outcome.waits_for or ""
        if waits_for.lower() in self.workspace.graph.upstream(outcome.name.lower()):
            return f"not run: it reads {self.workspace.short(waits_for)}, which this run could not make"
        return f"not run: {self.workspace.short(waits_for)} failed, and --fail-fast starts nothing more"

    def _did(self, result: StepResult) -> tuple[str, str, list[str]]:
        """What was done, to how many rows, and all else that is known."""
        if result.up_to_date:
            return "up to date", "", ["its inputs are unchanged"]
        match result.kind:
            case "view":
                return "view", _count(len(result.columns), "column"), [_checked(result), *_checks(result)]
            case "export":
                return "exported", render.rows(result.rows_written), []
        facts = [f"{getattr(result.counts, name):,} {name}" for name in COUNTS if getattr(result.counts, name)]
        if result.joined is not None:
            return _verb(result), render.rows(result.rows_read), self._met(result, facts)
        if result.refresh is not None and not result.first_run:
            return _verb(result), render.rows(result.rows_read), self._refresh(result.refresh, facts)
        shown = [*self._keys(result), *facts, *_checks(result), *self._window(result), *self._in_all(result)]
        return _verb(result), render.rows(result.rows_read), shown

    def _met(self, result: StepResult, facts: list[str]) -> list[str]:
        """A join's window, and what it has met; how rows entered only where that was not by being new."""
        met = result.joined
        assert met is not None  # noqa: S101  asked only for joins
        counts = {"matched": met.matched, "arrived late": met.late, "outdated": met.outdated, "waiting": met.waiting}
        met_rows = [f"{count:,} {word}" for word, count in counts.items() if count]
        redone = facts if result.counts.deleted else []
        why = result.window.reason if result.window else ""
        return [self.workspace.masking.mask(why), *met_rows, *redone, *_checks(result)]

    def _refresh(self, refresh: RefreshReport, facts: list[str]) -> list[str]:
        """What of the inputs of a view has changed, how much of it was computed again, and what became of that; of a
        full refresh that and why.
        """
        if refresh.mode != "incremental":
            return [*facts, self.workspace.masking.mask(refresh.reason)]
        inputs = [
            f"{_count(rows, 'changed row')} of {self.workspace.short(name)}" for name, rows in refresh.changed.items()
        ]
        return [*inputs, *_computed(refresh), *facts]

    def _keys(self, result: StepResult) -> list[str]:
        found = next((each.strategy for each in self.workspace.tables if each.name == result.table), None)
        return [f"on {', '.join(found.keys)}"] if found and found.keys else []

    def _in_all(self, result: StepResult) -> list[str]:
        """How much history a function's table holds by now."""
        kept = any(each.name == result.table and each.function for each in self.workspace.tables)
        return [f"{render.rows(result.total or 0)} in all"] if kept and not result.first_run else []

    def _window(self, result: StepResult) -> list[str]:
        batches = [f"{result.batches} batches"] if result.batches > 1 else []
        if result.first_run and not (result.window and result.window.is_backfill):
            return [] if self._first else ["first run"]
        if result.rebuilt:
            return ["full refresh"]
        return [*batches, self.workspace.masking.mask(result.reason)] if result.window else []

    def _end(self, outcome: RunOutcome) -> list[str]:
        failed = sum(1 for each in outcome.outcomes if each.error)
        skipped = sum(1 for each in outcome.outcomes if not each.ok and not each.error)
        done = [each.result for each in outcome.outcomes if each.result]
        exports = sum(1 for each in done if each.status == "exported")
        steps = [each for each in done if each.kind == "table"]
        changed = sum(1 for step in steps if step.status in {"created", "changed"})
        views = sum(1 for each in done if each.kind == "view" and not each.up_to_date)
        if not outcome.outcomes:
            return [render.NOTHING_DECLARED]
        if not failed and not views and all(step.up_to_date for step in steps):
            return ["up to date", f"no table changed · {_count(exports, 'export')} written" if exports else _NOTHING]
        tables = f"{_count(changed, 'table')} changed" + (f" · {_count(views, 'view')} checked" if views else "")
        if failed:
            passed = [f"{skipped} not run"] if skipped else []
            return [f"{failed} failed", *passed, tables, "what is done stays: fix the rest and run again"]
        ended = [f"done in {render.duration(outcome.seconds)}", tables]
        return [*ended, f"next: {self.workspace.command('status')}"] if self._first else ended


_NOTHING = "nothing read, nothing written"


def _count(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def _computed(refresh: RefreshReport) -> list[str]:
    """What of the view was computed again."""
    if refresh.rule == "summed":
        return ["sums are added up", *([_count(refresh.keys, "group")] if refresh.keys is not None else [])]
    return [f"{_count(refresh.keys, 'value')} of {refresh.key} computed again"] if refresh.keys is not None else []


def _checked(result: StepResult) -> str:
    return "its new query is right" if result.status == "changed" else "its query is right"


def _checks(result: StepResult) -> list[str]:
    passed, count = sum(not each.failures for each in result.checks), len(result.checks)
    shown = f"{count}" if passed == count else f"{passed} of {count}"
    return [f"{shown} check{'' if count == 1 else 's'} passed"] if count else []


def _verb(result: StepResult) -> str:
    if result.status == "unchanged":
        return "unchanged"
    if result.first_run and result.joined is None:
        return "loaded"
    if result.rebuilt:
        return "rebuilt"
    return next((verb for word, verb in _VERBS.items() if (result.strategy or "").startswith(word)), "merged")


def run_data(workspace: Workspace, outcome: RunOutcome, run: Run) -> dict[str, Any]:
    """The run as JSON. Every step has every key, whatever became of it."""
    return {
        "project": workspace.project.name,
        "run_id": run.run_id,
        "started": run.started,
        "ended": run.ended,
        "ok": outcome.ok,
        "seconds": round(outcome.seconds, 3),
        "steps": [_data(workspace, each) for each in outcome.outcomes],
    }


def _data(workspace: Workspace, outcome: Outcome) -> dict[str, Any]:
    """What Python code sees of a step, with null in the place of what it has not."""
    step = step_of(outcome, workspace)
    result = outcome.result if outcome.result and outcome.result.kind == "table" else None
    wrote = outcome.result is not None and outcome.result.kind != "view"
    done = {name: getattr(step, name) if result else None for name in ("rebuilt", "batches", "rows_read", "bytes_read")}
    return {
        "table": step.table,
        "status": step.status,
        "strategy": step.strategy,
        "first_run": step.first_run,
        **done,
        "rows_written": step.rows_written if wrote else None,
        **{name: getattr(step, name) if result else None for name in COUNTS},
        "total": step.total,
        "window": _masked(workspace, result.window.to_json()) if result and result.window else None,
        "watermark": result.watermark.text() if result and result.watermark else None,
        "version": step.version,
        "seconds": None if outcome.waits_for else round(step.seconds, 3),
        "notices": list(step.notices),
        "checks": [_masked(workspace, each.to_json()) for each in step.checks],
        "expectations": [_masked(workspace, each.to_json()) for each in step.expectations],
        "joined": step.joined,
        "refresh": step.refresh,
        "error": _masked(workspace, render.error_data(outcome.error)) if outcome.error else None,
        "waits_for": step.waits_for,
    }


def _masked(workspace: Workspace, data: dict[str, Any]) -> dict[str, Any]:
    """Its values without secrets; its keys are ours."""
    return {key: workspace.masking.mask_data(value) for key, value in data.items()}
