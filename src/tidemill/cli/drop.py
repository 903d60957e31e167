"""`tidemill drop`: a table leaves for good, unless its history is to be kept."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from tidemill.cli import render
from tidemill.cli.naming import absolute, located
from tidemill.cli.options import output, variables
from tidemill.errors import ArgumentError

if TYPE_CHECKING:
    from tidemill.cli.options import Load
    from tidemill.contracts import Snapshot
    from tidemill.declare.tables import Table


@click.command(
    short_help="Remove a table with all its history.",
    epilog="\b\nExamples:\n  tidemill drop bronze.stats_of_2025\n  tidemill drop lake/orders --confirm",
)
@click.argument("table_path", metavar="TABLE")
@click.option("--confirm", is_flag=True, help="Do not ask.")
@variables
@output
def drop(table_path: str, confirm: bool, load: Load, form: str, quiet: bool) -> None:
    """Remove a table: its rows, its versions, and what is known of its progress. It cannot be undone.

    TABLE is the path of a table, or the name of one of the project's, declared or not. One that is declared with
    reset_allowed = false, or has the property pipelines.reset.allowed = false, stays.
    """
    from tidemill.cli.keeping import keeping  # noqa: PLC0415
    from tidemill.run.drop import drop_table, refuse_drop  # noqa: PLC0415

    path = absolute(located(table_path))
    with keeping("drop", f"drop {table_path}", table_path, path) as kept:
        snapshot = _snapshot(path, table_path)
        refuse_drop(table_path, snapshot, _declared(path, load))
        if not confirm:
            _ask(table_path, snapshot)
        drop_table(path)
        kept.status = "dropped"
    if form == "json":
        render.document({"table": table_path, "path": path, "rows": snapshot.rows})
    elif not quiet:
        render.judged("✓", f"{table_path.rstrip('/').rpartition('/')[2]}  dropped{_with_rows(snapshot, ' · ')}")


def _snapshot(path: str, name: str) -> Snapshot:
    from tidemill.state.logs import log_at  # noqa: PLC0415

    snapshot = log_at(path).snapshot()
    if snapshot is None:
        raise ArgumentError("table.missing", f"There is no table {name}.", f"Nothing is at {path}.")
    return snapshot


def _declared(path: str, load: Load) -> Table | None:
    """The table that the project of the current folder declares at this path."""
    from tidemill.project import find_project  # noqa: PLC0415

    if find_project() is None:
        return None
    return next((table for table in load(None).tables if absolute(table.path) == path), None)


def _ask(name: str, snapshot: Snapshot) -> None:
    whole = f"{name}{_with_rows(snapshot, ' with ')}"
    if not sys.stdin.isatty():
        raise ArgumentError(
            "drop.not_confirmed",
            f"Dropping {whole} cannot be undone, and nobody is there to be asked.",
            f"Say --confirm. A copy to go back to: tidemill backup {name}",
        )
    click.confirm(f"Drop {whole}? It cannot be undone.", abort=True)


def _with_rows(snapshot: Snapshot, word: str) -> str:
    return "" if snapshot.rows is None else f"{word}{render.rows(snapshot.rows)}"
