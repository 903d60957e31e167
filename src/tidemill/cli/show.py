"""`tidemill show`: the first rows of a table or a view."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tidemill.cli import render
from tidemill.cli.live import Live
from tidemill.cli.naming import named_in, there
from tidemill.cli.options import output, variables
from tidemill.cli.tables import Looks
from tidemill.cli.values import cell, plain
from tidemill.errors import TidemillError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from tidemill.cli.options import Load
    from tidemill.declare.spark import SparkSettings
    from tidemill.declare.views import View
    from tidemill.workspace import Workspace


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
    from tidemill import api  # noqa: PLC0415
    from tidemill.engine.session import session_for  # noqa: PLC0415
    from tidemill.state.logs import log_at  # noqa: PLC0415
    from tidemill.state.rows import some_rows  # noqa: PLC0415

    def read() -> pa.Table:
        return api.read(path, spark=session_for(small=True, settings=settings)).limit(limit).toArrow()

    rows = some_rows(path, limit)
    if rows is None:
        rows = _by_spark(read, path, quiet=quiet)
    snapshot = log_at(path).snapshot()
    return rows, snapshot.rows if snapshot else None


def _rows_of_view(workspace: Workspace, view: View, limit: int, *, quiet: bool) -> pa.Table:
    from tidemill.sources.failures import retold  # noqa: PLC0415
    from tidemill.workspace.looking import first_rows  # noqa: PLC0415

    mask = workspace.masking.mask
    try:
        return _by_spark(lambda: first_rows(workspace, view, limit), workspace.short(view.name), quiet=quiet)
    except TidemillError as failure:
        raise retold(failure, mask(failure.problem), mask(failure.remedy), failure.origin) from failure.__cause__


def _by_spark(read: Callable[[], pa.Table], name: str, *, quiet: bool) -> pa.Table:
    from tidemill.cli.interrupts import interruptible  # noqa: PLC0415
    from tidemill.engine.translate import translated  # noqa: PLC0415

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
