"""`tidemill history` and `tidemill runs`: the commits of a table, and what was run; read without a JVM."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidemill.api.logs import HEADINGS, commits_of, line_of, watermark_of
from tidemill.cli import examples, output, render
from tidemill.cli.places import located, refuse_unknown
from tidemill.cli.render import Looks
from tidemill.display import size_text
from tidemill.errors import ArgumentError
from tidemill.formats.registry import log_at, view_record
from tidemill.frontends.project import must_exist
from tidemill.ledger import INTERRUPTED
from tidemill.ledger.past import past_run, past_runs
from tidemill.model.project import find_project, is_project
from tidemill.model.record import counts_of, without_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidemill.cli import Output
    from tidemill.ledger.past import PastRun, PastStep
    from tidemill.model.record import Commit

_LOOKS = Looks(gives=dict.fromkeys(("window", "watermark", "what", "rows", "when"), ("wrap", 12)))


@click.command(
    epilog=examples(
        "tidemill history lake/orders",
        "tidemill history lake/orders --limit 5 --format json",
    ),
)
@click.argument("table_path", metavar="TABLE")
@click.option("-n", "--limit", type=click.IntRange(min=1), metavar="N", help="Only the newest N commits.")
@output
def history(
    table_path: str,
    limit: int | None,
    out: Output,
) -> None:
    """Show the commits of a table, newest first; starts no Spark.

    TABLE is the path of a table, or the name of one of the project's.

    "+200 ~14 -3" are rows inserted, updated and deleted. Commits that are not Tidemill's are shown with what their
    writer called them. Times are by your clock; windows and watermarks as the table has them, in UTC.
    """
    path = located(table_path)
    refuse_unknown(table_path, path)
    viewed = _is_view(table_path, path)
    if path != table_path and not log_at(path).exists():
        problem = f"{table_path} is not made yet: there is nothing at {path}."
        raise ArgumentError("table.not_made", problem, "Make it: tidemill run. tidemill list shows what is declared.")
    commits = list(islice(without_parts(commits_of(path)), limit))
    document = {"table": table_path, "commits": [_data(commit) for commit in commits]}
    out.result(document, partial(_show_commits, table_path, commits, viewed=viewed))


def _show_commits(table: str, commits: Sequence[Commit], *, viewed: bool) -> None:
    if commits:
        lines = [line_of(commit, render.moment(commit.at)) for commit in commits]
        render.table(HEADINGS, lines, right=frozenset({"version"}), looks=_LOOKS)
    else:
        render.notice(f"{table} has no commits yet: its files were made elsewhere")
    if viewed:
        render.notice(f"{table} is a view now; these commits are of the table that stays on disk")


def _is_view(table: str, path: str) -> bool:
    """Whether it was a view at its last run; one that never was a table has no history, and that is an error."""
    viewed = view_record(path) is not None
    if viewed and not log_at(path).exists():
        raise ArgumentError(
            "table.is_view", f"{table} is a view: it has no commits.", f"See its record: tidemill state {table}"
        )
    return viewed


def _data(commit: Commit) -> dict[str, Any]:
    record = commit.record
    watermark = watermark_of(record) if record else None
    return {
        "version": commit.version,
        "at": commit.at,
        "by": "tidemill" if record or commit.prepares else "other",
        "operation": commit.operation,
        "strategy": record.strategy if record else None,
        "keys": list(record.keys) if record else [],
        "rows": record.rows if record else None,
        **asdict(counts_of(commit)),
        "window": dict(record.window) if record else {},
        "watermark": watermark.text() if watermark else None,
        "refresh": dict(record.refresh) if record and record.refresh else None,
        "restored_from": record.restored_from if record else None,
        "run_id": record.run_id if record else None,
    }


RUNS = ("run", "started", "command", "status", "steps", "took")
STEPS = ("table", "status", "mode", "read", "written", "took", "why")
_PAINT = {"status": render.coloured}
_RUNS_LOOKS = Looks(
    frozenset({"took"}), {"steps": ("wrap", 12), "command": ("wrap", 16), "took": ("drop", 0)}, paint=_PAINT
)
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
def runs(run_id: str | None, limit: int, target: str | None, out: Output) -> None:
    """Show past runs from the ledger, newest first; or of the run whose id begins with ID every step. Starts no Spark.

    A run that was killed is interrupted. Outside of projects these are the runs outside of projects.
    """
    folder = _folder(target)
    if run_id is not None:
        run = past_run(run_id, folder)
        out.result(asdict(run), partial(_show_run, run))
    else:
        found = past_runs(folder, limit)
        out.result({"runs": [asdict(run) for run in found]}, partial(_show_runs, found))


def _show_runs(found: Sequence[PastRun]) -> None:
    if found:
        render.table(RUNS, [_line(run) for run in found], looks=_RUNS_LOOKS)
    else:
        render.say(f"{render.INDENT}no runs yet: the ledger has none of this folder")


def _folder(target: str | None) -> Path | None:
    """That of the project; None where there is none, and the user's own runs are meant."""
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


def _show_run(run: PastRun) -> None:
    facts = [f"run {run.run_id}", run.command, render.coloured(run.status)]
    took = f" to {render.moment(run.ended)}, {_took(run.seconds)}" if run.ended else ""
    render.say(f"{render.INDENT}{render.SEPARATOR.join([*facts, f'{render.moment(run.started)}{took}'])}")
    if run.steps:
        render.table(STEPS, [_step(step) for step in run.steps], looks=_STEP_LOOKS)
    for step in run.steps:
        if step.error_code not in {None, INTERRUPTED}:
            render.failed(step.table, f"error[{step.error_code}] {step.error or ''}".rstrip())
    if run.error_code not in {None, INTERRUPTED} and not any(step.error_code for step in run.steps):
        render.say(f"{render.INDENT}error[{run.error_code}] {run.error or ''}".rstrip())


def _step(step: PastStep) -> tuple[str, ...]:
    counts = (("+", step.inserted), ("~", step.updated), ("-", step.deleted))
    written = " ".join(f"{sign}{count:,}" for sign, count in counts if count)
    size = "" if step.bytes_read is None else f", {size_text(step.bytes_read)}"
    read = "" if step.rows_read is None else f"{render.rows(step.rows_read)}{size}"
    why = step.reason or (f"error[{step.error_code}]" if step.error_code not in {None, INTERRUPTED} else "")
    return (step.table, step.status, step.mode, read, written, _took(step.seconds), why)


def _took(seconds: float | None) -> str:
    return "" if seconds is None else render.duration(seconds)
