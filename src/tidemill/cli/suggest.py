"""`tidemill suggest`: how sources could be read incrementally."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from tidemill.cli import render
from tidemill.cli.live import Live
from tidemill.cli.options import examples, on_project, output
from tidemill.errors import exit_code_of

if TYPE_CHECKING:
    from tidemill.suggest.source import Suggestion
    from tidemill.workspace import Workspace


@click.command(
    short_help="Propose how sources can be read incrementally.",
    epilog=examples(
        "tidemill suggest",
        "tidemill suggest shop.sql",
    ),
)
@on_project
@output
def suggest(workspace: Workspace, form: str, quiet: bool) -> int:
    """Look at each source of a project or a pipeline file, and propose a cursor, a mode and keys.

    At most 100,000 rows of each are read, and nothing is changed. What is not safe is not proposed.
    """
    from tidemill.cli.interrupts import interruptible  # noqa: PLC0415
    from tidemill.workspace.looking import suggestions  # noqa: PLC0415

    with Live(f"looking at the sources of {workspace.project.name}", quiet=quiet or form == "json"):
        found = interruptible(lambda: list(suggestions(workspace)))
    if form == "json":
        render.document(workspace.masking.mask_data({"sources": [_data(each) for each in found]}))
    elif not quiet:
        _show(workspace, found)
    return exit_code_of(each.error for each in found if each.error)


def _show(workspace: Workspace, found: list[Suggestion]) -> None:
    if not found:
        render.say(f"{render.INDENT}no source is declared")
    for each in found:
        for depth, line in _lines(each):
            indent = render.INDENT * depth
            for part in workspace.masking.mask(line).splitlines():
                render.say(f"{indent}{part}", hang=len(indent) + len("-- "))


def _lines(each: Suggestion) -> list[tuple[int, str]]:
    """What is said of one source, line by line, with how far each is indented."""
    if each.error is not None:
        return [(1, f"{each.source}  error[{each.error.code}] {each.error.problem}"), (2, each.error.remedy)]
    sampled = f"all its {render.rows(each.sampled)}" if each.whole else f"its first {render.rows(each.sampled)}"
    lines = [(1, render.SEPARATOR.join([f"{each.source}  {each.verdict}", each.kind, f"looked at {sampled}"]))]
    for line in each.lines:
        lines += [(2, line.text), (3, f"-- {line.reason}")]
    lines += [(2, f"-- {reason}") for reason in each.reasons]
    return [*lines, *([(2, f"-- {each.saving}")] if each.saving else [])]


def _data(each: Suggestion) -> dict[str, Any]:
    error = render.error_data(each.error) if each.error else None
    found = asdict(each) | {"verdict": each.verdict.value, "error": error}
    return found | {"lines": [asdict(line) for line in each.lines], "reasons": list(each.reasons)}
