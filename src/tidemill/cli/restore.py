"""`tidemill restore`: a table goes back to an older version, rows and progress together."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidemill.cli import render
from tidemill.cli.live import Live
from tidemill.cli.naming import located, spark_here
from tidemill.cli.options import output

if TYPE_CHECKING:
    from tidemill.run.restore import RestoreResult


@click.command(
    short_help="Take a table back to an older version.",
    epilog="\b\nExamples:\n  tidemill history lake/orders\n  tidemill restore lake/orders --to 3",
)
@click.argument("table_path", metavar="TABLE")
@click.option(
    "--to", type=click.IntRange(min=0), required=True, metavar="VERSION", help="A version that history shows."
)
@output
def restore(
    table_path: str,
    to: int,
    form: str,
    quiet: bool,
) -> None:
    """Take a table back to an older version: its rows and its progress together.

    TABLE is the path of a table, or the name of one of the project's.

    The restore is a commit of its own, so that nothing is lost: it can be undone by another restore.
    """
    result = _run(located(table_path), to, quiet=quiet or form == "json")
    if form == "json":
        found = located(table_path)
        path = found if "://" in found else str(Path(found).absolute())
        render.document({"table": table_path, "path": path, **asdict(result)})
    elif not quiet:
        show(table_path, result)


def _run(path: str, to: int, *, quiet: bool) -> RestoreResult:
    from tidemill import api  # noqa: PLC0415
    from tidemill.cli.interrupts import interruptible  # noqa: PLC0415
    from tidemill.cli.keeping import keeping  # noqa: PLC0415
    from tidemill.engine.session import session_for  # noqa: PLC0415

    with keeping("restore", f"restore {path} --to {to}", path, path) as kept:
        api.history(path, 1)  # a table that is not there is found before Spark starts
        with Live(f"restoring {path} to version {to}", quiet=quiet):
            settings = spark_here()
            spark = interruptible(lambda: session_for(small=True, settings=settings))
            result = interruptible(lambda: api.restore(path, to=to, spark=spark))
        kept.status, kept.version, kept.seconds = "restored", result.version, result.seconds
        return result


def show(path: str, result: RestoreResult) -> None:
    facts = [f"restored to version {result.restored}", f"{render.rows(result.total)} in all"]
    if result.watermark:
        facts.append(f"watermark {result.watermark}")
    facts.append(f"now version {result.version}")
    render.done(path.rstrip("/").rpartition("/")[2], facts, result.seconds)
