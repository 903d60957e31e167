"""`tidemill runs`: what was run, how it ended, and why each step did what it did."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidemill.cli import render
from tidemill.cli.options import examples, output
from tidemill.cli.tables import Looks

if TYPE_CHECKING:
    from tidemill.state.past import PastRun, PastStep

HEADINGS = ("run", "started", "command", "status", "steps", "took")
STEPS = ("table", "status", "mode", "read", "written", "took", "why")
_PAINT = {"status": render.coloured}
_LOOKS = Looks(frozenset({"took"}), {"steps": ("wrap", 12), "command": ("wrap", 16), "took": ("drop", 0)}, paint=_PAINT)
_STEP_LOOKS = Looks(
    frozenset({"took"}),
    {
        "why": ("wrap", 16),
        "read": ("wrap", 8),
        "written": ("wrap", 6),
        "table": ("cut", 16),
        "took": ("last", 0),
        "mode": ("last", 0),
    },
    paint=_PAINT,
)
_ID = 8  # as much of an id as tells runs apart
_FEW = 20
_FIRST = {"failed", "interrupted", "different"}  # what somebody looks for


@click.command(
    short_help="Show past runs, and what one of them did and why.",
    epilog=examples(
        "tidemill runs",
        "tidemill runs --limit 5 --format json",
        "tidemill runs 4f1c",
    ),
)
@click.argument("run_id", metavar="[ID]", required=False)
@click.option(
    "-n", "--limit", type=click.IntRange(min=1), default=_FEW, metavar="N", help="At the most N runs, not 20."
)
@click.option("--target", help="A pipeline file or a project's folder, not that of the current one.")
@output
def runs(run_id: str | None, limit: int, target: str | None, form: str, quiet: bool) -> None:
    """Show past runs from the ledger, newest first; or of the run whose id begins with ID every step. Starts no Spark.

    A run that was killed is interrupted. Outside of projects these are the runs outside of projects.
    """
    from tidemill.state.past import past_run, past_runs  # noqa: PLC0415

    folder = _folder(target)
    if run_id is not None:
        run = past_run(run_id, folder)
        if form == "json":
            render.document(asdict(run))
        elif not quiet:
            _show(run)
        return
    found = past_runs(folder, limit)
    if form == "json":
        render.document({"runs": [asdict(run) for run in found]})
    elif not quiet and not found:
        render.say(f"{render.INDENT}no runs yet: the ledger has none of this folder")
    elif not quiet:
        render.table(HEADINGS, [_line(run) for run in found], looks=_LOOKS)


def _folder(target: str | None) -> Path | None:
    """That of the project; None where there is none, and the user's own runs are meant."""
    from tidemill.project import find_project, is_project, must_exist  # noqa: PLC0415

    place = Path(target or ".")
    must_exist(place)
    folder = (place if place.is_dir() else place.parent).absolute()
    project = find_project(folder)
    return project.parent if project else folder if target or is_project(folder) else None


def _line(run: PastRun) -> tuple[str, ...]:
    counts = Counter(step.status for step in run.steps)
    ordered = sorted(counts, key=lambda status: (status not in _FIRST, status))
    steps = ", ".join(f"{counts[status]} {status}" for status in ordered)
    return (
        run.run_id[:_ID],
        render.moment(run.started),
        run.command,
        run.status,
        steps,
        _took(run.seconds),
    )


def _show(run: PastRun) -> None:
    facts = [f"run {run.run_id}", run.command, render.coloured(run.status)]
    took = f" to {render.moment(run.ended)}, {_took(run.seconds)}" if run.ended else ""
    render.say(f"{render.INDENT}{render.SEPARATOR.join([*facts, f'{render.moment(run.started)}{took}'])}")
    if run.steps:
        render.table(STEPS, [_step(step) for step in run.steps], looks=_STEP_LOOKS)
    for step in run.steps:
        if step.error_code:
            render.failed(step.table, f"error[{step.error_code}] {step.error or ''}".rstrip())
    if run.error_code and not any(step.error_code for step in run.steps):
        render.say(f"{render.INDENT}error[{run.error_code}] {run.error or ''}".rstrip())


def _step(step: PastStep) -> tuple[str, ...]:
    counts = (("+", step.inserted), ("~", step.updated), ("-", step.deleted))
    written = " ".join(f"{sign}{count:,}" for sign, count in counts if count)
    size = "" if step.bytes_read is None else f", {_size(step.bytes_read)}"
    read = "" if step.rows_read is None else f"{render.rows(step.rows_read)}{size}"
    why = step.reason or (f"error[{step.error_code}]" if step.error_code else "")
    return (step.table, step.status, step.mode, read, written, _took(step.seconds), why)


def _took(seconds: float | None) -> str:
    return "" if seconds is None else render.duration(seconds)


def _size(count: int) -> str:
    """Bytes as people say them: 512 B, 1.2 kB, 3.4 MB."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < _THOUSAND:
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= _THOUSAND
    return f"{amount:.1f} TB"


_THOUSAND = 1000
