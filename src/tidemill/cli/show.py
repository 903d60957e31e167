"""`tidemill show`: the first rows of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tidemill.cli import render
from tidemill.cli.live import Live
from tidemill.cli.naming import there
from tidemill.cli.options import output, variables
from tidemill.cli.values import cell, plain

if TYPE_CHECKING:
    import pyarrow as pa

    from tidemill.cli.options import Load
    from tidemill.declare.spark import SparkSettings


@click.command(
    short_help="Show the first rows of a table.",
    epilog="\b\nExamples:\n  tidemill show daily\n  tidemill show lake/orders --limit 3 --format json",
)
@click.argument("table")
@click.option("-n", "--limit", type=click.IntRange(min=1), default=10, metavar="N", help="At the most N rows, not 10.")
@variables
@output
def show(table: str, limit: int, load: Load, form: str, quiet: bool) -> None:
    """Show the first rows of a table, as its files have them; starts Spark only for tables that nothing else can read.

    TABLE is the path of a table, or the name of one of the project's.
    """
    from tidemill.state.delta_log import DeltaLog  # noqa: PLC0415
    from tidemill.state.rows import some_rows  # noqa: PLC0415

    path, spark = there(table, load)
    rows = some_rows(path, limit)
    if rows is None:
        rows = _read_by_spark(path, limit, spark, quiet=quiet or form == "json")
    snapshot = DeltaLog(path).snapshot()
    total = snapshot.rows if snapshot else None
    if form == "json":
        found = [{name: plain(value) for name, value in row.items()} for row in rows.to_pylist()]
        render.document({"table": table, "total": total, "rows": found})
    elif not quiet:
        _show(rows, total, limit)


def _read_by_spark(path: str, limit: int, settings: SparkSettings, *, quiet: bool) -> pa.Table:
    from tidemill import api  # noqa: PLC0415
    from tidemill.cli.interrupts import interruptible  # noqa: PLC0415
    from tidemill.engine.session import session_for  # noqa: PLC0415
    from tidemill.engine.translate import translated  # noqa: PLC0415

    def read() -> pa.Table:
        return api.read(path, spark=session_for(small=True, settings=settings)).limit(limit).toArrow()

    with Live("starting Spark", quiet=quiet), translated(f"Reading {path}"):
        return interruptible(read)


def _show(rows: pa.Table, total: int | None, limit: int) -> None:
    lines = [[cell(value) for value in row.values()] for row in rows.to_pylist()]
    if lines:
        render.table(rows.column_names, lines, right=frozenset(_numbers(rows)))
    columns = "" if lines else f" of {', '.join(rows.column_names)}"
    render.say(f"{render.INDENT}{_count(len(lines), total, limit)}{columns}")


def _count(shown: int, total: int | None, limit: int) -> str:
    """How many rows of how many; the log does not always tell, and fewer than asked for are all."""
    if shown < limit or shown == total:
        return render.rows(shown)
    return f"the first {render.rows(shown)}" if total is None else f"{shown:,} of {render.rows(total)}"


def _numbers(rows: pa.Table) -> list[str]:
    from pyarrow import types  # noqa: PLC0415

    numeric = (types.is_integer, types.is_floating, types.is_decimal)
    return [field.name for field in rows.schema if any(is_a(field.type) for is_a in numeric)]
