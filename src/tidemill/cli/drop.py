"""`tidemill drop`: a table leaves for good, unless its history is to be kept."""

from __future__ import annotations

import sys
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

import click

from tidemill.cli import render
from tidemill.cli.naming import named_in
from tidemill.cli.options import output, variables
from tidemill.declare.paths import absolute
from tidemill.errors import ArgumentError

if TYPE_CHECKING:
    from tidemill.cli.options import Load
    from tidemill.contracts.snapshots import Snapshot
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
    from tidemill import upkeep  # noqa: PLC0415

    workspace = named_in(table_path, load)
    path = absolute(workspace.project.table_path(table_path) if workspace else table_path)
    names = [workspace.short(table.name) for table in workspace.tables] if workspace else []
    place = upkeep.Place(table_path, path, declared=lambda: names)
    asked = () if confirm else (partial(_ask, table_path),)
    result = upkeep.drop(place, partial(_declared, path, load), *asked)
    if form == "json":
        render.document(asdict(result))
    elif not quiet:
        render.judged("✓", f"{table_path.rstrip('/').rpartition('/')[2]}  dropped{_with_rows(result.rows, ' · ')}")


def _declared(path: str, load: Load) -> Table | None:
    """The table that the project of the current folder declares at this path."""
    from tidemill.project import ProjectSettings, find_project, is_project  # noqa: PLC0415

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
    click.confirm(f"Drop {whole}? It cannot be undone.", abort=True)


def _with_rows(rows: int | None, word: str) -> str:
    return "" if rows is None else f"{word}{render.rows(rows)}"
