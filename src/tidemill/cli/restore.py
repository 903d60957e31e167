"""`tidemill restore`: an older version of a table, or a backup, its rows and its progress together."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from tidemill.cli import render
from tidemill.cli.live import Live
from tidemill.cli.naming import located, placed
from tidemill.cli.options import output, profiled, single_writer
from tidemill.declare.paths import absolute

if TYPE_CHECKING:
    from tidemill.run.upkeep.restore import RestoreResult


@click.command(
    short_help="Take a table back to an older version, or to a backup.",
    epilog="\b\nExamples:\n"
    "  tidemill history lake/orders\n"
    "  tidemill restore lake/orders --to 3\n"
    '  tidemill restore lake/orders --at "2026-02-04 06:00"\n'
    "  tidemill restore lake/orders --from lake/orders__backup_20260204_060000",
)
@click.argument("table_path", metavar="TABLE")
@click.option("--to", type=click.IntRange(min=0), metavar="VERSION", help="A version that history shows.")
@click.option("--at", metavar="TIME", help="The version of this moment, by your clock unless it has a zone.")
@click.option("--from", "backup", metavar="BACKUP", help="The name or path of a backup; the table need not be there.")
@profiled
@single_writer
@output
def restore(
    table_path: str,
    to: int | None,
    at: str | None,
    backup: str | None,
    profile: str | None,
    alone: bool,
    form: str,
    quiet: bool,
) -> None:
    """Take a table back: its rows and its progress together.

    TABLE is the path of a table, or the name of one of the project's.

    The restore is a commit of its own, so that nothing is lost: it can be undone by another restore. A backup may be
    any Delta table; of one that Tidemill did not make, the rows say how far it was read.
    """
    result = _run(table_path, (to, at, backup), profile, alone=alone, quiet=quiet or form == "json")
    if form == "json":
        render.document({"table": table_path, "path": absolute(located(table_path, profile)), **asdict(result)})
    elif not quiet:
        show(table_path, result)


def _run(
    name: str, way: tuple[int | None, str | None, str | None], profile: str | None, *, alone: bool, quiet: bool
) -> RestoreResult:
    from tidemill.cli.interrupts import on_spark  # noqa: PLC0415
    from tidemill.upkeep import restore  # noqa: PLC0415

    to, at, backup = way
    copy = placed(backup, profile) if backup else None
    with Live(f"restoring {name}", quiet=quiet):
        return restore(placed(name, profile, alone=alone), on_spark(profile), to=to, at=at, backup=copy)


def show(path: str, result: RestoreResult) -> None:
    name = path.rstrip("/").rpartition("/")[2]
    source = f"version {result.restored}" if result.backup is None else result.backup.rstrip("/").rpartition("/")[2]
    facts = [f"restored to {source}", f"{render.rows(result.total)} in all"]
    if result.watermark:
        facts.append(f"watermark {result.watermark}")
    facts.append(f"now version {result.version}")
    if result.undo is not None:
        facts.append(f"to undo it: --to {result.undo}")
    render.done(name, facts, result.seconds)
