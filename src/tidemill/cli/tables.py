"""`tidemill show` and `drop`: tables by name or path, looked at or removed."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict
from datetime import date, datetime, time, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from tidemill.api import Place, logs
from tidemill.cli import Live, ask, examples, interruptible, output, render
from tidemill.cli.places import is_path, on_spark, there, upkeep
from tidemill.cli.projects import variables
from tidemill.cli.render import Looks
from tidemill.errors import ArgumentError, TidemillError
from tidemill.formats.registry import log_at, some_rows
from tidemill.frontends.project import ProjectSettings
from tidemill.model import absolute
from tidemill.model.project import find_project, is_project
from tidemill.sources.registry import with_texts
from tidemill.spark.errors import translated

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from tidemill.api.workspace import Workspace
    from tidemill.cli import Output
    from tidemill.cli.projects import Load
    from tidemill.model.project import SparkSettings
    from tidemill.model.query import View
    from tidemill.model.record import Snapshot
    from tidemill.model.table import Table

_STARTING = "starting Spark"
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
    epilog=examples(
        "tidemill show daily",
        "tidemill show lake/orders --limit 3 --format json",
    ),
)
@click.argument("table")
@click.option("-n", "--limit", type=click.IntRange(min=1), default=10, metavar="N", help="At the most N rows, not 10.")
@variables
@output
def show(table: str, limit: int, load: Load, out: Output) -> None:
    """Show the first rows of a table, as its files have them; starts Spark only for tables that nothing else can read.

    TABLE is the path of a table, or the name of one of the project's. The rows of a view are made by Spark.
    """
    workspace = None if is_path(table) else load(None)
    view = workspace.view(table) if workspace else None
    if workspace and view:
        rows, total = _rows_of_view(workspace, view, limit, quiet=not out.lines), None
    else:
        rows, total = _rows_of_table(*there(table, workspace), limit, quiet=not out.lines)
    if out.as_json:
        found = [{name: plain(value) for name, value in row.items()} for row in rows.to_pylist()]
        render.document({"table": table, "total": total, "rows": found})
    elif not out.quiet:
        _show(rows, total, limit)


def _rows_of_table(path: str, settings: SparkSettings, limit: int, *, quiet: bool) -> tuple[pa.Table, int | None]:
    """The rows, and how many there are where the log tells."""
    rows = some_rows(path, limit)
    if rows is None:
        with translated(f"Reading {path}"):
            rows = upkeep(on_spark(_STARTING, quiet=quiet, settings=settings)).first_rows(path, limit)
    snapshot = log_at(path).snapshot()
    return rows, snapshot.rows if snapshot else None


def _rows_of_view(workspace: Workspace, view: View, limit: int, *, quiet: bool) -> pa.Table:
    mask = workspace.masking.mask
    try:
        with Live(_STARTING, quiet=quiet), translated(f"Reading {workspace.short(view.name)}"):
            return interruptible(lambda: workspace.engine().first_rows(view, limit))
    except TidemillError as failure:
        raise with_texts(failure, mask(failure.problem), mask(failure.remedy), failure.origin) from failure.__cause__


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
    from pyarrow import types  # noqa: PLC0415  the help of a command needs no Arrow

    numeric = (types.is_integer, types.is_floating, types.is_decimal)
    return [field.name for field in rows.schema if any(is_a(field.type) for is_a in numeric)]


@click.command(
    epilog=examples(
        "tidemill drop bronze.stats_of_2025",
        "tidemill drop lake/orders --confirm",
    ),
)
@click.argument("table_path", metavar="TABLE")
@click.option("--confirm", is_flag=True, help="Do not ask.")
@variables
@output
def drop(table_path: str, confirm: bool, load: Load, out: Output) -> None:
    """Remove a table: its rows, its versions, and what is known of its progress. It cannot be undone.

    TABLE is the path of a table, or the name of one of the project's, declared or not. One that is declared with
    reset_allowed = false, or has the property pipelines.reset.allowed = false, stays.
    """
    workspace = None if is_path(table_path) else load(None)
    path = absolute(workspace.project.table_path(table_path) if workspace else table_path)
    names = [workspace.short(table.name) for table in workspace.tables] if workspace else []
    place = Place(table_path, path, declared=lambda: names)
    asked = () if confirm else (partial(_ask, table_path),)
    result = logs.drop(place, partial(_declared, path, load), *asked)
    line = f"{render.last_name(table_path)}  dropped{_with_rows(result.rows, ' · ')}"
    out.result(asdict(result), partial(render.judged, "✓", line))


def _declared(path: str, load: Load) -> Table | None:
    """The table that the project of the current folder declares at this path."""
    if not is_project():
        return None
    if find_project() is None and not path.startswith(f"{absolute(ProjectSettings.load().warehouse.path)}/"):
        return None  # files beside it that are about other tables
    return next((table for table in load(None).tables if absolute(table.path) == path), None)


def _ask(name: str, snapshot: Snapshot) -> None:
    whole = f"{name}{_with_rows(snapshot.rows, ' with ')}"
    if not sys.stdin.isatty():
        raise ArgumentError(
            "drop.not_confirmed",
            f"Dropping {whole} cannot be undone, and nobody is there to be asked.",
            f"Say --confirm. A copy to go back to: tidemill backup {name}",
        )
    ask(f"Drop {whole}? It cannot be undone.")


def _with_rows(rows: int | None, word: str) -> str:
    return "" if rows is None else f"{word}{render.rows(rows)}"
