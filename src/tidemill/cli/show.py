"""`tidemill show`, `suggest` and `join-stats`: rows of tables and sources, looked at and left as they are."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidemill.cli import console, render
from tidemill.cli.console import Live
from tidemill.cli.options import examples, named_in, on_project, output, there, variables
from tidemill.cli.render import Looks
from tidemill.errors import TidemillError, exit_code_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from tidemill.api.workspace import Workspace
    from tidemill.cli.options import Load
    from tidemill.join.arrivals import Arrivals
    from tidemill.model.project import SparkSettings
    from tidemill.model.query import View
    from tidemill.suggest.advice import Suggestion

LONGEST = 60  # characters of a cell; JSON has the whole


def cell(value: Any) -> str:
    """One line. A moment is in UTC; texts and lists are cut."""
    match value:
        case None:
            return "NULL"
        case "":
            return "''"
        case str():
            return _cut("".join(char if char.isprintable() else ascii(char)[1:-1] for char in value))
        case datetime():
            return value.replace(tzinfo=None).isoformat(sep=" ") + (" UTC" if value.tzinfo else "")
        case bool() | dict() | list():
            return _cut(json.dumps(plain(value), ensure_ascii=False))
        case _:
            return _cut(str(plain(value)))


def plain(value: Any) -> Any:
    """What JSON can hold: texts for what it has no type for, so that nothing is lost."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case date() | time():
            return value.isoformat()
        case timedelta():
            return str(value)
        case bytes():
            return value.hex()
        case dict():
            return {str(name): plain(each) for name, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
        case _:
            return str(value)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


@click.command(
    short_help="Show the first rows of a table or a view.",
    epilog="\b\nExamples:\n  tidemill show daily\n  tidemill show lake/orders --limit 3 --format json",
)
@click.argument("table")
@click.option("-n", "--limit", type=click.IntRange(min=1), default=10, metavar="N", help="At the most N rows, not 10.")
@variables
@output
def show(table: str, limit: int, load: Load, form: str, quiet: bool) -> None:
    """Show the first rows of a table, as its files have them; starts Spark only for tables that nothing else can read.

    TABLE is the path of a table, or the name of one of the project's. The rows of a view are made by Spark.
    """
    workspace = named_in(table, load)
    view = workspace.view(table) if workspace else None
    silent = quiet or form == "json"
    if workspace and view:
        rows, total = _rows_of_view(workspace, view, limit, quiet=silent), None
    else:
        rows, total = _rows_of_table(*there(table, workspace), limit, quiet=silent)
    if form == "json":
        found = [{name: plain(value) for name, value in row.items()} for row in rows.to_pylist()]
        render.document({"table": table, "total": total, "rows": found})
    elif not quiet:
        _show(rows, total, limit)


def _rows_of_table(path: str, settings: SparkSettings, limit: int, *, quiet: bool) -> tuple[pa.Table, int | None]:
    """The rows, and how many there are where the log tells."""
    from tidemill.api import tables as api  # noqa: PLC0415
    from tidemill.formats.registry import log_at, some_rows  # noqa: PLC0415
    from tidemill.spark.session import session_for  # noqa: PLC0415

    def read() -> pa.Table:
        return api.read(path, spark=session_for(small=True, settings=settings)).limit(limit).toArrow()

    rows = some_rows(path, limit)
    if rows is None:
        rows = _by_spark(read, path, quiet=quiet)
    snapshot = log_at(path).snapshot()
    return rows, snapshot.rows if snapshot else None


def _rows_of_view(workspace: Workspace, view: View, limit: int, *, quiet: bool) -> pa.Table:
    from tidemill.api.questions import first_rows  # noqa: PLC0415
    from tidemill.sources.registry import retold  # noqa: PLC0415

    mask = workspace.masking.mask
    try:
        return _by_spark(lambda: first_rows(workspace, view, limit), workspace.short(view.name), quiet=quiet)
    except TidemillError as failure:
        raise retold(failure, mask(failure.problem), mask(failure.remedy), failure.origin) from failure.__cause__


def _by_spark(read: Callable[[], pa.Table], name: str, *, quiet: bool) -> pa.Table:
    from tidemill.cli.console import interruptible  # noqa: PLC0415
    from tidemill.spark.errors import translated  # noqa: PLC0415

    with Live("starting Spark", quiet=quiet), translated(f"Reading {name}"):
        return interruptible(read)


def _show(rows: pa.Table, total: int | None, limit: int) -> None:
    lines = [[cell(value) for value in row.values()] for row in rows.to_pylist()]
    if lines:
        numbers = frozenset(_numbers(rows))
        render.table(rows.column_names, lines, right=numbers, looks=_looks(rows.column_names, lines, numbers))
    columns = "" if lines else f" of {', '.join(rows.column_names)}"
    render.say(f"{render.INDENT}{_count(len(lines), total, limit)}{columns}")


def _looks(names: Sequence[str], lines: Sequence[Sequence[str]], numbers: frozenset[str]) -> Looks:
    """The widest texts become shorter first. Numbers stay whole; where nothing else helps, columns at the end go."""
    widest = sorted(range(len(names)), key=lambda n: -max(len(line[n]) for line in lines))
    return Looks(gives={names[n]: ("last", 0) if names[n] in numbers else ("cut", 10) for n in widest})


def _count(shown: int, total: int | None, limit: int) -> str:
    """How many rows of how many; the log does not always tell, and fewer than asked for are all."""
    if shown < limit or shown == total:
        return render.rows(shown)
    return f"the first {render.rows(shown)}" if total is None else f"{shown:,} of {render.rows(total)}"


def _numbers(rows: pa.Table) -> list[str]:
    from pyarrow import types  # noqa: PLC0415

    numeric = (types.is_integer, types.is_floating, types.is_decimal)
    return [field.name for field in rows.schema if any(is_a(field.type) for is_a in numeric)]


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
    from tidemill.api.questions import suggestions  # noqa: PLC0415
    from tidemill.cli.console import interruptible  # noqa: PLC0415

    with Live(f"looking at the sources of {workspace.project.name}", quiet=quiet or form == "json"):
        found = interruptible(lambda: list(suggestions(workspace)))
    if form == "json":
        render.document(workspace.masking.mask_data({"sources": [_data(each) for each in found]}))
    elif not quiet:
        _show_suggestion(workspace, found)
    return exit_code_of(each.error for each in found if each.error)


def _show_suggestion(workspace: Workspace, found: list[Suggestion]) -> None:
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
    short_help="Show how far apart the matches of a join come.",
    epilog="\b\nExamples:\n  tidemill join-stats payments\n  tidemill join-stats payments --svg payments.svg",
)
@click.argument("table")
@click.argument("target", required=False)
@click.option("--within", metavar="LENGTH", help='Leave out pairs that are further apart, such as "60 days".')
@click.option("--svg", "file", metavar="FILE", help="Draw the histogram into this file.")
@variables
@output
def join_stats(
    table: str, target: str | None, within: str | None, file: str | None, load: Load, form: str, quiet: bool
) -> None:
    """Count all pairs that meet the condition of TABLE's join, whenever they came, by how far apart that was.

    Reads both sides whole, and changes nothing. TARGET is the project's folder or a pipeline file.
    """
    workspace = load(target)
    found = _counted(workspace, table, within, shown=form == "text" and not quiet)
    if file:
        Path(file).write_text(_picture(workspace.short(table), found), encoding="utf-8")
    if form == "json":
        render.document({"table": workspace.short(table), **found.to_json(), "svg": file})
    elif not quiet:
        shown = lines_of(workspace.short(table), found, console.width())
        for line in (*shown, *([f"drawn into {file}"] if file else ())):
            render.say(f"{render.INDENT}{line}")


def _counted(workspace: Workspace, table: str, within: str | None, *, shown: bool) -> Arrivals:
    from tidemill.api.questions import arrivals  # noqa: PLC0415
    from tidemill.cli.console import interruptible  # noqa: PLC0415

    ready = arrivals(workspace, table, within)
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
    from tidemill.graphs.svg import Histogram, histogram_svg  # noqa: PLC0415

    title = f"{name}: {found.matches:,} matches, {_percent(found.caught)} within the look back and look forward"
    unit = f"{found.unit}s from a to b"
    return histogram_svg(Histogram(title, found.counts, -found.look_back, found.look_forward, unit))


def _percent(share: float) -> str:
    """Never rounded up to all, and never down to none."""
    if share in {0.0, 1.0}:
        return f"{share:.0%}"
    return f"{min(max(share, 0.001), 0.999):.1%}"
