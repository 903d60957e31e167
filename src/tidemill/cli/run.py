"""`tidemill run`: a project, or one pipeline file, is brought up to date."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from tidemill.cli.console import Live, interruptible
from tidemill.cli.options import examples, output
from tidemill.cli.outcome import Shown, run_data
from tidemill.cli.plan import show_plan
from tidemill.cli.projects import requested, selection, variables
from tidemill.errors import exit_code_of
from tidemill.execution.journal import keeping_run

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tidemill.api.workspace import Workspace
    from tidemill.cli.options import Output
    from tidemill.cli.projects import Load
    from tidemill.execution.journal import KeptRun
    from tidemill.planning.request import Request


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
    with _keeping(workspace, target, request) as kept, live:
        kept.listener = shown
        outcome = interruptible(partial(ready, None, kept))
    out.result(run_data(workspace, outcome, kept.run), partial(shown.close, outcome))
    return exit_code_of(each.error for each in outcome.outcomes if each.error)


def _keeping(workspace: Workspace, target: str | None, request: Request) -> AbstractContextManager[KeptRun]:
    """The run, kept in the ledger under the command that started it."""
    asked = request.backfill.to_json() if request.backfill else {}
    flags = ["--full-refresh"] if request.full_refresh else [f"--{name} {value}" for name, value in asked.items()]
    command = " ".join(["run", *([target] if target else []), *flags])
    nodes = workspace.graph.in_order()
    return keeping_run(workspace.project.folder, nodes, command, workspace.masking, workspace.short, request)
