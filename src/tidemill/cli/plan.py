"""`tidemill plan`, `validate`, `list` and `compile`: what is declared, and what a run would do; without Spark."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from tidemill import cli
from tidemill.api.planning import bad_params, doubtful_sources, unparsed_queries, warnings_of
from tidemill.api.workspace import unknown_table
from tidemill.cli import examples, output, render
from tidemill.cli.projects import on_project, on_selection, requested, variables
from tidemill.cli.render import Looks
from tidemill.formats.registry import log_of
from tidemill.model.query import View
from tidemill.planning.refusals import refuse
from tidemill.planning.statements import statements_of, view_statements

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidemill.api.workspace import Workspace
    from tidemill.cli import Output
    from tidemill.cli.projects import Load
    from tidemill.model.table import Table
    from tidemill.planning import PlannedStep, Request
    from tidemill.planning.statements import RunStatements

LISTED = ("name", "strategy", "reads", "declared in")
_LIST_LOOKS = Looks(
    gives={"declared in": ("cut", 14), "reads": ("wrap", 14), "strategy": ("wrap", 10), "name": ("cut", 20)},
    paths=frozenset({"declared in"}),
)
PLANNED = ("table", "strategy", "reads")
_PLAN_LOOKS = Looks(gives={"reads": ("wrap", 30), "strategy": ("wrap", 14), "table": ("cut", 20)})


@click.command(
    epilog=examples(
        "tidemill plan",
        "tidemill plan shop.sql --var region=us",
        "tidemill plan --start 2024-01-01 --end 2024-01-31",
    ),
)
@on_selection
@requested
@output
def plan(workspace: Workspace, request: Request, out: Output) -> None:
    """Show what tidemill run would do, and why. Starts no Spark and changes nothing."""
    show_plan(workspace, request, out)


@click.command(
    epilog=examples(
        "tidemill validate",
        "tidemill validate shop.sql --format json",
    ),
)
@on_project
@output
def validate(workspace: Workspace, out: Output) -> None:
    """Find everything that can be wrong in the files of a project or in one pipeline file, without Spark."""
    refuse(bad_params(workspace))
    proposals = _proposals(workspace)
    warned = [text for table in workspace.tables for text in warnings_of(workspace, table)]
    said = (*doubtful_sources(workspace), *map(workspace.wording.text, (*unparsed_queries(workspace), *warned)))
    notices = [workspace.masking.mask(each) for each in said]
    counts = {name: len(getattr(workspace, name)) for name in ("tables", "views", "exports")}
    document = {"ok": True, **counts, "notices": notices, "proposals": proposals}
    out.result(document, partial(_show_validated, counts, notices, proposals))


def _show_validated(counts: Mapping[str, int], notices: Sequence[str], proposals: Sequence[str]) -> None:
    for text in (*notices, *proposals):
        render.notice(text)
    words = [f"{count} {name if count != 1 else name[:-1]}" for name, count in counts.items() if count]
    counted = render.SEPARATOR.join(words) or render.NOTHING_DECLARED
    doubts = f"! no errors · {len(notices)} notice{'' if len(notices) == 1 else 's'}"
    render.say(f"{render.INDENT}{doubts if notices else '✓ nothing is wrong'} · {counted}")


@click.command(
    "list",
    epilog=examples(
        "tidemill list",
        "tidemill list -s +daily",
    ),
)
@on_selection
@output
def list_(workspace: Workspace, out: Output) -> None:
    """Show the tables, views and exports that a project or a pipeline file declares, each after what it reads."""
    nodes = workspace.graph.in_order()
    data = [_declaration(node, workspace) for node in nodes]
    lines = [_listed(each) for each in data]
    document = {"project": workspace.project.name, "declared": data}
    out.result(document, partial(render.declared, LISTED, lines, looks=_LIST_LOOKS))


def _listed(each: dict[str, Any]) -> list[str]:
    return [each["name"], each["strategy"], ", ".join(each["reads"]), each["origin"] or ""]


def _declaration(node: Any, workspace: Workspace) -> dict[str, Any]:
    reads = [load.source.name for load in getattr(node, "loads", ())] or list(node.inputs)
    strategy = _strategy(node)
    return {
        "name": workspace.short(node.name),
        "strategy": strategy,
        "reads": [workspace.short(name) for name in reads],
        "origin": str(node.origin) if node.origin else None,
    }


def _strategy(node: Any) -> str:
    several = len(getattr(node, "loads", ())) > 1
    return node.declared_strategy if several else str(getattr(node, "strategy", f"export {getattr(node, 'mode', '')}"))


def show_plan(workspace: Workspace, request: Request, out: Output) -> None:
    """What a run would do, as `plan` and `run --dry-run` tell it."""
    steps, mask = workspace.plan(request), workspace.masking.mask
    data = [asdict(step) | {"table": workspace.short(step.table), "reason": mask(step.reason)} for step in steps]
    exports = [{"to": mask(export.name), "strategy": f"export {export.mode}"} for export in workspace.exports]
    document = {"project": workspace.project.name, "steps": data, "exports": exports}
    out.result(document, partial(_show_steps, workspace, steps))


def _show_steps(workspace: Workspace, steps: Sequence[PlannedStep]) -> None:
    mask = workspace.masking.mask
    lines = [[workspace.short(step.table), step.strategy, mask(step.reason)] for step in steps]
    when = "written when what it reads has changed"
    lines += [[mask(export.name), f"export {export.mode}", when] for export in workspace.exports]
    render.declared(PLANNED, lines, looks=_PLAN_LOOKS)
    for step in steps:
        for text in step.notices:
            render.notice(mask(text))


def _proposals(workspace: Workspace) -> list[str]:
    """What could be done better: a source that could be read in windows is read whole."""
    found = []
    for table in workspace.tables:
        name = workspace.short(table.name)
        source = table.loads[0].source if len(table.loads) == 1 else None
        if source and source.cursor and table.strategy.replaces:
            found.append(
                f"{name} is replaced by all of {source.name} each run, though that has a cursor: "
                "MODE APPEND or MODE MERGE ON its keys would read only what is new"
            )
        if table.strategy.appends and table.window is None:
            cursor = "time_column=…" if table.function else "a cursor (INCREMENTAL BY a time column)"
            found.append(f"{name} appends every row that it is given; {cursor} would let each row enter once")
        if table.strategy.replaces and table.function:
            found.append(
                f"{name} is read and written whole each run; with keys=[…] its function may give only what is "
                "new, and only that is written"
            )
    return found


HEADINGS = {"first": "the first run", "next": "the next run", "always": "whenever it is read"}


@click.command(
    "compile",
    epilog=examples(
        "tidemill compile daily",
        "tidemill compile daily ./shop --var start_date=2024-02-01",
    ),
)
@click.argument("table")
@click.argument("target", required=False)
@variables
@output
def compile_(table: str, target: str | None, load: Load, out: Output) -> None:
    """Show the statements that a first run of TABLE would send, and the next one as its log says. Starts no Spark.

    TARGET is the project's folder or a pipeline file. What is read is the query as Spark gets it, with literals in the
    place of variables and the filter of the window; what is written is a statement that says the same as what is done.
    Where only a run knows a value, <watermark> or the name of a variable stands in its place.
    """
    workspace = load(target)
    node = _named(workspace, table)
    found = workspace.masking.mask_data(_data(workspace, node, _runs(workspace, node)))
    out.result(found, partial(_show, found))


def _named(workspace: Workspace, name: str) -> Table | View:
    nodes: list[Table | View] = [*workspace.tables, *workspace.views]
    known = {node.name.lower(): node for node in nodes}
    node = known.get(workspace.project.warehouse.naming.key(name))
    if node is None:
        raise unknown_table(name, [workspace.short(each.name) for each in nodes])
    return node


def _runs(workspace: Workspace, node: Table | View) -> tuple[RunStatements, ...]:
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
    cli.write(f"-- {render.SEPARATOR.join(words)}")
    for run in found["runs"]:
        cli.write(f"\n-- {HEADINGS[run['run']]}: {run['reason']}")
        cli.write(f"{run['reads']};")
        if run["writes"]:
            cli.write("\n-- and with these rows as change, in one commit:")
            cli.write(f"{run['writes']};")
        for note in run["notes"]:
            cli.write(f"-- {note}")
