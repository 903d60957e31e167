"""`tidemill compile`: the statements that a run would send, as SQL that can be read."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from tidemill.cli import console, render
from tidemill.cli.options import output, variables

if TYPE_CHECKING:
    from tidemill.cli.options import Load
    from tidemill.declare.tables import Table
    from tidemill.declare.views import View
    from tidemill.statements import RunStatements
    from tidemill.workspace import Workspace

HEADINGS = {"first": "the first run", "next": "the next run", "always": "whenever it is read"}


@click.command(
    "compile",
    short_help="Show the statements that a run would send.",
    epilog="\b\nExamples:\n  tidemill compile daily\n  tidemill compile daily ./shop --var start_date=2024-02-01",
)
@click.argument("table")
@click.argument("target", required=False)
@variables
@output
def compile_(table: str, target: str | None, load: Load, form: str, quiet: bool) -> None:
    """Show the statements that a first run of TABLE would send, and the next one as its log says. Starts no Spark.

    TARGET is the project's folder or a pipeline file. What is read is the query as Spark gets it, with literals in the
    place of variables and the filter of the window; what is written is a statement that says the same as what is done.
    Where only a run knows a value, <watermark> or the name of a variable stands in its place.
    """
    workspace = load(target)
    node = _named(workspace, table)
    found = workspace.masking.mask_data(_data(workspace, node, _runs(workspace, node)))
    if form == "json":
        render.document(found)
    elif not quiet:
        _show(found)


def _named(workspace: Workspace, name: str) -> Table | View:
    from tidemill.workspace.workspace import unknown_table  # noqa: PLC0415

    nodes: list[Table | View] = [*workspace.tables, *workspace.views]
    known = {node.name.lower(): node for node in nodes}
    node = known.get(workspace.project.warehouse.naming.key(name))
    if node is None:
        raise unknown_table(name, [workspace.short(each.name) for each in nodes])
    return node


def _runs(workspace: Workspace, node: Table | View) -> tuple[RunStatements, ...]:
    from tidemill.declare.views import View  # noqa: PLC0415
    from tidemill.state.logs import log_of  # noqa: PLC0415
    from tidemill.statements import statements_of, view_statements  # noqa: PLC0415

    if isinstance(node, View):
        return (view_statements(node),)
    return statements_of(node, log_of(node).snapshot(), workspace.given, datetime.now(workspace.spark.zone))


def _data(workspace: Workspace, node: Table | View, runs: tuple[RunStatements, ...]) -> dict[str, Any]:
    return {
        "project": workspace.project.name,
        "table": workspace.short(node.name),
        "strategy": str(getattr(node, "strategy", "view")),
        "origin": str(node.origin) if node.origin else None,
        "runs": [asdict(run) | {"notes": list(run.notes)} for run in runs],
    }


def _show(found: dict[str, Any]) -> None:
    """A script of SQL: all that is no statement is a comment."""
    words = [found["table"], found["strategy"], *([found["origin"]] if found["origin"] else [])]
    console.write(f"-- {render.SEPARATOR.join(words)}")
    for run in found["runs"]:
        console.write(f"\n-- {HEADINGS[run['run']]}: {run['reason']}")
        console.write(f"{run['reads']};")
        if run["writes"]:
            console.write("\n-- and with these rows as change, in one commit:")
            console.write(f"{run['writes']};")
        for note in run["notes"]:
            console.write(f"-- {note}")
