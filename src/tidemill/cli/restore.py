"""`tidemill restore`: an older version of a table, or a backup, its rows and its progress together."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from tidemill.cli import render
from tidemill.cli.live import Live
from tidemill.cli.naming import absolute, located, spark_here
from tidemill.cli.options import output

if TYPE_CHECKING:
    from tidemill.run.restore import RestoreResult


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
@output
def restore(
    table_path: str,
    to: int | None,
    at: str | None,
    backup: str | None,
    form: str,
    quiet: bool,
) -> None:
    """Take a table back: its rows and its progress together.

    TABLE is the path of a table, or the name of one of the project's.

    The restore is a commit of its own, so that nothing is lost: it can be undone by another restore. A backup may be
    any Delta table; of one that Tidemill did not make, the rows say how far it was read.
    """
    from tidemill import api  # noqa: PLC0415

    api.check_one_way(to, at, backup)
    path = located(table_path)
    way = {"to": to, "at": None if at is None else api.moment_of(at), "backup": backup and located(backup)}
    result = _run(table_path, path, way, quiet=quiet or form == "json")
    if form == "json":
        render.document({"table": table_path, "path": absolute(path), **asdict(result)})
    elif not quiet:
        show(table_path, result)


def _run(name: str, path: str, way: dict[str, Any], *, quiet: bool) -> RestoreResult:
    from tidemill import api  # noqa: PLC0415
    from tidemill.cli.interrupts import interruptible  # noqa: PLC0415
    from tidemill.cli.keeping import keeping  # noqa: PLC0415
    from tidemill.engine.session import session_for  # noqa: PLC0415

    said = next(f"{_FLAGS[name]} {value}" for name, value in way.items() if value is not None)
    with keeping("restore", f"restore {name} {said}", name, path) as kept:
        api.history(way["backup"] or path, 1)  # what is not there is found before Spark starts
        with Live(f"restoring {name}", quiet=quiet):
            settings = spark_here()
            spark = interruptible(lambda: session_for(small=True, settings=settings))
            result = interruptible(lambda: api.restore(path, **way, spark=spark))
        kept.status, kept.version, kept.seconds = "restored", result.version, result.seconds
        return result


_FLAGS = {"to": "--to", "at": "--at", "backup": "--from"}


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
