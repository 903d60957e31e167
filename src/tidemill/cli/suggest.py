"""`tidemill suggest` and `join-stats`: what samples of sources, and the matches of a join, say of how to read them."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidemill import cli
from tidemill.cli import Live, examples, interruptible, output, render
from tidemill.cli.projects import on_project, variables
from tidemill.errors import exit_code_of
from tidemill.graphs.svg import Histogram, histogram_svg

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tidemill.api.workspace import Workspace
    from tidemill.cli import Output
    from tidemill.cli.projects import Load
    from tidemill.join.rows import Arrivals
    from tidemill.suggest.advice import Suggestion


@click.command(
    epilog=examples(
        "tidemill suggest",
        "tidemill suggest shop.sql",
    ),
)
@on_project
@output
def suggest(workspace: Workspace, out: Output) -> int:
    """Look at each source of a project or a pipeline file, and propose a cursor, a mode and keys.

    At most 100,000 rows of each are read, and nothing is changed. What is not safe is not proposed.
    """
    with Live(f"looking at the sources of {workspace.project.name}", quiet=not out.lines):
        found = interruptible(lambda: list(workspace.engine().suggestions()))
    document = workspace.masking.mask_data({"sources": [_data(each) for each in found]})
    out.result(document, partial(_show_suggestions, workspace, found))
    return exit_code_of(each.error for each in found if each.error)


def _show_suggestions(workspace: Workspace, found: list[Suggestion]) -> None:
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


_BAR = 40
_HEAD = 13
_MOST_BARS = 45


@click.command(
    "join-stats",
    epilog=examples(
        "tidemill join-stats payments",
        "tidemill join-stats payments --svg payments.svg",
    ),
)
@click.argument("table")
@click.argument("target", required=False)
@click.option("--within", metavar="LENGTH", help='Leave out pairs that are further apart, such as "60 days".')
@click.option("--svg", "file", metavar="FILE", help="Draw the histogram into this file.")
@variables
@output
def join_stats(table: str, target: str | None, within: str | None, file: str | None, load: Load, out: Output) -> None:
    """Count all pairs that meet the condition of TABLE's join, whenever they came, by how far apart that was.

    Reads both sides whole, and changes nothing. TARGET is the project's folder or a pipeline file.
    """
    workspace = load(target)
    found = _counted(workspace, table, within, shown=out.lines)
    if file:
        Path(file).write_text(_picture(workspace.short(table), found), encoding="utf-8")
    document = {"table": workspace.short(table), **found.to_json(), "svg": file}
    out.result(document, partial(_show_arrivals, workspace.short(table), found, file))


def _show_arrivals(name: str, found: Arrivals, file: str | None) -> None:
    for line in (*lines_of(name, found, cli.width()), *([f"drawn into {file}"] if file else ())):
        render.say(f"{render.INDENT}{line}")


def _counted(workspace: Workspace, table: str, within: str | None, *, shown: bool) -> Arrivals:
    ready = workspace.engine().arrivals(table, within)
    with Live(f"counting the matches of {table}", quiet=not shown):
        return interruptible(ready)


def lines_of(name: str, found: Arrivals, width: int | None = None) -> Iterator[str]:
    """What a terminal shows: the shares that lengths catch, the declared ones among them, and a bar per distance."""
    room = None if width is None else width - len(render.INDENT)
    yield f"{name}{render.SEPARATOR}{found.matches:,} matches, whenever they came"
    if found.matches:
        yield f"in {found.unit}s; * as declared"
        yield from _shares("look back", found.steps_back(), found.back, found.look_back, room)
        yield from _shares("look forward", found.steps_forward(), found.forward, found.look_forward, room)
        yield _advice(found)
        yield from _bars(found)


def _advice(found: Arrivals) -> str:
    """What the declared look forward catches, and what the next one would that catches more."""
    more = [step for step in found.steps_forward() if found.forward(step) > found.forward(found.look_forward)][:1]
    longer = [f"{_length(step, found.unit)} {_percent(found.forward(step))}" for step in more]
    caught = _percent(found.forward(found.look_forward))
    first = f"a look forward of {_length(found.look_forward, found.unit)} catches {caught}"
    both = f"with the look back of {_length(found.look_back, found.unit)} it is {_percent(found.caught)}"
    return f"{', '.join([f'{first} of the matches', *longer])}; {both}"


def _length(count: int, unit: str) -> str:
    return f"{count} {unit}{'' if count == 1 else 's'}"


def _shares(
    word: str, steps: list[int], share: Callable[[int], float], declared: int, room: int | None
) -> Iterator[str]:
    """Lengths, with a star at the declared one, and below each the share of the matches that it catches.

    What does not fit in the room goes on below, as lengths and shares again.
    """
    pairs = [(f"{step}{'*' if step == declared else ''}", _percent(share(step))) for step in steps]
    cells = [[cell.rjust(max(map(len, pair))) for cell in pair] for pair in pairs]
    many = len(cells) if room is None else max((room - _HEAD) // (1 + max(len(cell) for cell, _ in cells)), 1)
    for start in range(0, len(cells), many):
        for first, row in zip((word, "catches"), zip(*cells[start : start + many], strict=True), strict=True):
            yield " ".join([first.ljust(_HEAD), *row])


def _bars(found: Arrivals) -> Iterator[str]:
    if max(found.counts) - min(found.counts) >= _MOST_BARS:
        return  # a picture tells more than hundreds of lines
    most = max(found.counts.values())
    for apart in range(min(found.counts), max(found.counts) + 1):
        count = found.counts.get(apart, 0)
        bar = f"{'█' * max(round(count / most * _BAR), 1)} {count:,}" if count else ""
        yield f"{apart:>5} {bar}".rstrip()


def _picture(name: str, found: Arrivals) -> str:
    title = f"{name}: {found.matches:,} matches, {_percent(found.caught)} within the look back and look forward"
    unit = f"{found.unit}s from a to b"
    return histogram_svg(Histogram(title, found.counts, -found.look_back, found.look_forward, unit))


def _percent(share: float) -> str:
    """Never rounded up to all, and never down to none."""
    if share in {0.0, 1.0}:
        return f"{share:.0%}"
    return f"{min(max(share, 0.001), 0.999):.1%}"
