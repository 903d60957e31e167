"""`tidemill backup`: a copy of a table to go back to."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from tidemill.cli import render
from tidemill.cli.live import Live
from tidemill.cli.naming import located, spark_here
from tidemill.cli.options import output

if TYPE_CHECKING:
    from tidemill.run.backup import BackupResult


@click.command(
    short_help="Copy a table, to go back to it later.",
    epilog="\b\nExamples:\n"
    "  tidemill backup bronze.player_game_stats\n"
    "  tidemill backup bronze.player_game_stats --to bronze.stats_of_2025\n"
    "  tidemill restore bronze.player_game_stats --from bronze.stats_of_2025",
)
@click.argument("table_path", metavar="TABLE")
@click.option("--to", metavar="NAME", help="The name or path of the copy; else it is TABLE__backup_ and the time.")
@output
def backup(table_path: str, to: str | None, form: str, quiet: bool) -> None:
    """Copy a table as it is: its rows, with its progress, in one commit of a new table.

    TABLE is the path of a table, or the name of one of the project's. The copy is a table like others: queries read it
    by its name, `tidemill restore TABLE --from NAME` goes back to it, `tidemill drop NAME` removes it.
    """
    from tidemill.run.backup import beside  # noqa: PLC0415

    name = to or beside(table_path)
    result = _run(table_path, name, quiet=quiet or form == "json")
    if form == "json":
        render.document({"table": table_path, "backup": name, **asdict(result)})
    elif not quiet:
        show(table_path, name, result)


def _run(table: str, name: str, *, quiet: bool) -> BackupResult:
    from tidemill import api  # noqa: PLC0415
    from tidemill.cli.interrupts import interruptible  # noqa: PLC0415
    from tidemill.cli.keeping import keeping  # noqa: PLC0415
    from tidemill.engine.session import session_for  # noqa: PLC0415
    from tidemill.run.backup import check_free  # noqa: PLC0415

    path, to = located(table), located(name)
    api.history(path, 1)  # a table that is not there is found before Spark starts
    check_free(to)
    with keeping("backup", f"backup {table} --to {name}", name, to) as kept:
        with Live(f"copying {table}", quiet=quiet):
            settings = spark_here()
            spark = interruptible(lambda: session_for(small=True, settings=settings))
            result = interruptible(lambda: api.backup(path, to, spark=spark))
        kept.status, kept.version, kept.seconds = "created", 0, result.seconds
        return result


def show(table: str, name: str, result: BackupResult) -> None:
    facts = [f"copied to {name}", render.rows(result.total)]
    if result.watermark:
        facts.append(f"watermark {result.watermark}")
    render.done(table.rstrip("/").rpartition("/")[2], facts, result.seconds)
