"""`tidemill backup`: a copy of a table to go back to."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from tidemill.cli import render
from tidemill.cli.live import Live
from tidemill.cli.naming import placed
from tidemill.cli.options import output, profiled, single_writer

if TYPE_CHECKING:
    from tidemill.run.upkeep.backup import BackupResult


@click.command(
    short_help="Copy a table, to go back to it later.",
    epilog="\b\nExamples:\n"
    "  tidemill backup bronze.player_game_stats\n"
    "  tidemill backup bronze.player_game_stats --to bronze.stats_of_2025\n"
    "  tidemill restore bronze.player_game_stats --from bronze.stats_of_2025",
)
@click.argument("table_path", metavar="TABLE")
@click.option("--to", metavar="NAME", help="The name or path of the copy; else it is TABLE__backup_ and the time.")
@profiled
@single_writer
@output
def backup(table_path: str, to: str | None, profile: str | None, alone: bool, form: str, quiet: bool) -> None:
    """Copy a table as it is: its rows, with its progress, in one commit of a new table.

    TABLE is the path of a table, or the name of one of the project's. The copy is a table like others: queries read it
    by its name, `tidemill restore TABLE --from NAME` goes back to it, `tidemill drop NAME` removes it.
    """
    from tidemill.run.upkeep.backup import beside  # noqa: PLC0415

    name = to or beside(table_path)
    result = _run(table_path, name, profile, alone=alone, quiet=quiet or form == "json")
    if form == "json":
        render.document({"table": table_path, "backup": name, **asdict(result)})
    elif not quiet:
        show(table_path, name, result)


def _run(table: str, name: str, profile: str | None, *, alone: bool, quiet: bool) -> BackupResult:
    from tidemill.cli.interrupts import on_spark  # noqa: PLC0415
    from tidemill.upkeep import back_up  # noqa: PLC0415

    with Live(f"copying {table}", quiet=quiet):
        return back_up(placed(table, profile), placed(name, profile, alone=alone), on_spark(profile))


def show(table: str, name: str, result: BackupResult) -> None:
    facts = [f"copied to {name}", render.rows(result.total)]
    if result.watermark:
        facts.append(f"watermark {result.watermark}")
    render.done(table.rstrip("/").rpartition("/")[2], facts, result.seconds)
