"""`tidemill run`, `plan`, `validate`, `list`: a project, or one pipeline file."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import click

from tidemill.cli import render
from tidemill.cli.options import output, variables

if TYPE_CHECKING:
    from tidemill.run.events import Outcome, RunOutcome
    from tidemill.run.export import ExportResult
    from tidemill.run.step import StepResult
    from tidemill.workspace import Workspace

FAILED = 1
_VERBS = {"replace": "replaced", "append": "appended", "delete_insert": "replaced its window of"}


@click.command(short_help="Bring the tables of a project or a pipeline file up to date.")
@click.argument("target", required=False)
@variables
@click.option("--threads", type=click.IntRange(min=1), help="How many steps run at the same time.")
@click.option("--fail-fast", is_flag=True, help="Start nothing more once a step has failed.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, as tidemill plan does.")
@click.option("--summary", is_flag=True, help="Show only how it ended.")
@output
def run(
    target: str | None,
    given: dict[str, str],
    profile: str | None,
    threads: int | None,
    fail_fast: bool,
    dry_run: bool,
    summary: bool,
    form: str,
    quiet: bool,
    verbose: bool,  # noqa: ARG001  its callback has done it
) -> int:
    """Bring every table up to date: in the project that TARGET is in, or in one pipeline file.

    Each table is changed in one commit, or in none when nothing differs. A failed step stops what reads its table;
    the rest goes on.
    """
    from tidemill.workspace import Workspace  # noqa: PLC0415  slow to import

    workspace = Workspace.load(target, profile=profile, given=given)
    if dry_run:
        _show_plan(workspace, form)
        return 0
    shown = _Shown(workspace, quiet=quiet or summary or form == "json")
    outcome = _kept(workspace, target, shown, threads, fail_fast=fail_fast)
    if form == "json":
        render.document(_data(outcome))
    elif not quiet:
        _show_end(outcome)
    return 0 if outcome.ok else FAILED


@click.command(short_help="Show what a run would do, and why.")
@click.argument("target", required=False)
@variables
@output
def plan(
    target: str | None,
    given: dict[str, str],
    profile: str | None,
    form: str,
    quiet: bool,
    verbose: bool,  # noqa: ARG001  its callback has done it
) -> None:
    """Show what tidemill run would do, and why. Starts no Spark and changes nothing."""
    from tidemill.workspace import Workspace  # noqa: PLC0415  slow to import

    workspace = Workspace.load(target, profile=profile, given=given)
    if not quiet:
        _show_plan(workspace, form)


@click.command(short_help="Find everything that is wrong without Spark.")
@click.argument("target", required=False)
@variables
@output
def validate(
    target: str | None,
    given: dict[str, str],
    profile: str | None,
    form: str,
    quiet: bool,
    verbose: bool,  # noqa: ARG001  its callback has done it
) -> None:
    """Find everything that can be wrong in the files of a project or in one pipeline file, without Spark."""
    from tidemill.workspace import Workspace  # noqa: PLC0415  slow to import

    workspace = Workspace.load(target, profile=profile, given=given)
    proposals = _proposals(workspace)
    counts = {"tables": len(workspace.tables), "exports": len(workspace.exports)}
    if form == "json":
        render.document({"ok": True, **counts, "proposals": proposals})
    elif not quiet:
        for proposal in proposals:
            render.notice(proposal)
        words = [f"{count} {name if count != 1 else name[:-1]}" for name, count in counts.items() if count]
        render.say(f"{render.INDENT}✓ nothing is wrong · {render.SEPARATOR.join(words) or 'nothing is declared'}")


@click.command("list", short_help="Show what is declared.")
@click.argument("target", required=False)
@variables
@output
def list_(
    target: str | None,
    given: dict[str, str],
    profile: str | None,
    form: str,
    quiet: bool,
    verbose: bool,  # noqa: ARG001  its callback has done it
) -> None:
    """Show the tables and exports that a project or a pipeline file declares, each after what it reads."""
    from tidemill.workspace import Workspace  # noqa: PLC0415  slow to import

    workspace = Workspace.load(target, profile=profile, given=given)
    nodes = workspace.graph.in_order()
    data = [_declaration(node) for node in nodes]
    if form == "json":
        render.document({"project": workspace.project.name, "declared": data})
    elif not quiet:
        lines = [[each["name"], each["strategy"], ", ".join(each["reads"]), each["origin"] or ""] for each in data]
        render.table(["name", "strategy", "reads", "declared in"], lines, right=frozenset())


def _declaration(node: Any) -> dict[str, Any]:
    from tidemill.declare.producers import Loaded  # noqa: PLC0415

    producer = getattr(node, "producer", None)
    reads = [producer.source.name] if isinstance(producer, Loaded) else list(node.inputs)
    strategy = str(getattr(node, "strategy", f"export {getattr(node, 'mode', '')}"))
    return {
        "name": node.name,
        "strategy": strategy,
        "reads": reads,
        "origin": str(node.origin) if node.origin else None,
    }


def _show_plan(workspace: Workspace, form: str) -> None:
    from dataclasses import asdict  # noqa: PLC0415

    steps = workspace.plan()
    if form == "json":
        render.document({"project": workspace.project.name, "steps": [asdict(step) for step in steps]})
        return
    lines = [[workspace.short(step.table), step.strategy, workspace.masking.mask(step.reason)] for step in steps]
    render.table(["table", "strategy", "reads"], lines, right=frozenset())
    for step in steps:
        for text in step.notices:
            render.notice(text)


def _proposals(workspace: Workspace) -> list[str]:
    """What could be done better: a source that could be read in windows is read whole."""
    from tidemill.declare.producers import Loaded  # noqa: PLC0415
    from tidemill.declare.strategies import Append, Replace  # noqa: PLC0415

    found = []
    for table in workspace.tables:
        source = table.producer.source if isinstance(table.producer, Loaded) else None
        if source and source.cursor and isinstance(table.strategy, Replace):
            found.append(
                f"{table.name} is replaced by all of {source.name} each run, though that has a cursor: "
                "MODE APPEND or MODE MERGE ON its keys would read only what is new"
            )
        if isinstance(table.strategy, Append) and table.window is None:
            found.append(
                f"{table.name} appends every row that it is given; a cursor (INCREMENTAL BY a time column) "
                "would let each row enter once"
            )
    return found


class _Shown:
    """What a run shows while it lasts: a line per step as it ends, and on a terminal what is being done."""

    def __init__(self, workspace: Workspace, *, quiet: bool) -> None:
        self.workspace, self.quiet = workspace, quiet
        self.width = max((len(workspace.short(name)) for name in workspace.graph.nodes), default=0)
        self._turn = threading.Lock()
        self.outcomes: list[tuple[Outcome, float]] = []

    def began(self, name: str) -> None:
        del name

    def ended(self, outcome: Outcome) -> None:
        with self._turn:
            self.outcomes.append((outcome, time.time()))
            if not self.quiet:
                self._show(outcome)

    def _show(self, outcome: Outcome) -> None:
        name = self.workspace.short(outcome.name).ljust(self.width)
        mask = self.workspace.masking.mask
        if outcome.error is not None:
            render.failed(name, f"error[{outcome.error.code}] {mask(outcome.error.problem)}")
            for line in (outcome.error.origin, mask(outcome.error.remedy)):
                if line:
                    render.say(f"{render.INDENT}{render.INDENT}{line}")
        elif outcome.result is None:
            render.passed_over(name, f"not run: it reads {outcome.waits_for}, which failed")
        else:
            render.done(name, _facts(outcome.result), outcome.result.seconds)
            for text in getattr(outcome.result, "notices", ()):
                render.notice(mask(text))


def _facts(result: StepResult | ExportResult) -> list[str]:
    from tidemill.run.step import StepResult  # noqa: PLC0415  slow to import

    if not isinstance(result, StepResult):
        return [f"exported {render.rows(result.rows)}", f"to {result.path}"]
    if result.status == "up to date":
        return ["up to date", "its inputs are unchanged"]
    counts = ("inserted", "updated", "deleted", "unchanged", "ignored")
    counted = [f"{getattr(result.counts, name):,} {name}" for name in counts if getattr(result.counts, name)]
    if result.status == "unchanged":
        return ["unchanged", *_window(result)]
    return [f"{_verb(result)} {render.rows(result.rows_read)}", *counted, *_window(result)]


def _verb(result: StepResult) -> str:
    if result.first_run:
        return "first run: loaded"
    return next((verb for word, verb in _VERBS.items() if result.strategy.startswith(word)), "merged")


def _window(result: StepResult) -> list[str]:
    return [result.window.reason] if result.window and not result.first_run else []


def _show_end(outcome: RunOutcome) -> None:
    failed = sum(1 for each in outcome.outcomes if each.error)
    skipped = sum(1 for each in outcome.outcomes if not each.ok and not each.error)
    if not failed and all(getattr(each.result, "status", "") == "up to date" for each in outcome.outcomes):
        render.say(f"{render.INDENT}up to date · nothing read, nothing written")
        return
    changed = sum(1 for each in outcome.outcomes if getattr(each.result, "status", "") in {"created", "changed"})
    words = [f"done in {render.duration(outcome.seconds)}", f"{changed} table{'' if changed == 1 else 's'} changed"]
    if failed:
        words = [f"{failed} failed", *([f"{skipped} not run"] if skipped else []), *words[1:]]
    render.say(f"{render.INDENT}{render.SEPARATOR.join(words)}")


def _data(outcome: RunOutcome) -> dict[str, Any]:
    return {"ok": outcome.ok, "seconds": round(outcome.seconds, 3), "steps": [_step(each) for each in outcome.outcomes]}


def _step(outcome: Outcome) -> dict[str, Any]:
    from tidemill.run.step import StepResult  # noqa: PLC0415  slow to import

    found: dict[str, Any] = {"table": outcome.name}
    result = outcome.result
    if outcome.error is not None:
        return {**found, "status": "failed", "error": render.error_data(outcome.error)}
    if result is None:
        return {**found, "status": "not run", "waits_for": outcome.waits_for}
    if not isinstance(result, StepResult):
        return {**found, "status": "exported", "rows_written": result.rows, "seconds": round(result.seconds, 3)}
    counts = ("inserted", "updated", "deleted", "unchanged", "ignored")
    return {
        **found,
        "status": result.status,
        "strategy": result.strategy,
        "first_run": result.first_run,
        "rows_read": result.rows_read,
        "rows_written": result.counts.written,
        **{name: getattr(result.counts, name) for name in counts},
        "total": result.total,
        "window": result.window.to_json() if result.window else None,
        "watermark": result.watermark.text() if result.watermark else None,
        "version": result.version,
        "seconds": round(result.seconds, 3),
        "notices": list(result.notices),
    }


def _kept(
    workspace: Workspace, target: str | None, shown: _Shown, threads: int | None, *, fail_fast: bool
) -> RunOutcome:
    """The run, kept in the ledger."""
    from tidemill.cli.interrupts import interruptible  # noqa: PLC0415
    from tidemill.cli.ledgers import keep_outcomes  # noqa: PLC0415

    command = f"run {target or ''}".strip()
    working = render.working(f"running {workspace.project.name}", quiet=shown.quiet)
    with keep_outcomes(workspace, command, shown.outcomes), working:
        return interruptible(lambda: workspace.run(listener=shown, threads=threads, fail_fast=fail_fast))
