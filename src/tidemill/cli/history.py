"""`tidemill history`: the commits of a table, read without a JVM."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from tidemill.cli import render
from tidemill.cli.naming import located, refuse_unknown
from tidemill.cli.options import output
from tidemill.cli.tables import Looks
from tidemill.errors import ArgumentError

if TYPE_CHECKING:
    from tidemill.contracts.snapshots import Commit

_LOOKS = Looks(gives=dict.fromkeys(("window", "watermark", "what", "rows", "when"), ("wrap", 12)))


@click.command(
    short_help="Show the commits of a table, with counts and watermarks.",
    epilog="\b\nExamples:\n  tidemill history lake/orders\n  tidemill history lake/orders --limit 5 --format json",
)
@click.argument("table_path", metavar="TABLE")
@click.option("-n", "--limit", type=click.IntRange(min=1), metavar="N", help="Only the newest N commits.")
@output
def history(
    table_path: str,
    limit: int | None,
    form: str,
    quiet: bool,
) -> None:
    """Show the commits of a table, newest first; starts no Spark.

    TABLE is the path of a table, or the name of one of the project's.

    "+200 ~14 -3" are rows inserted, updated and deleted. Commits that are not Tidemill's are shown with what their
    writer called them. Times are by your clock; windows and watermarks as the table has them, in UTC.
    """
    from tidemill import api  # noqa: PLC0415
    from tidemill.state.history import HEADINGS, line_of  # noqa: PLC0415
    from tidemill.state.logs import log_at  # noqa: PLC0415
    from tidemill.state.parts import without_parts  # noqa: PLC0415

    path = located(table_path)
    refuse_unknown(table_path, path)
    viewed = _is_view(table_path, path)
    if path != table_path and not log_at(path).exists():
        problem = f"{table_path} is not made yet: there is nothing at {path}."
        raise ArgumentError("table.not_made", problem, "Make it: tidemill run. tidemill list shows what is declared.")
    commits = list(islice(without_parts(api.commits_of(path)), limit))
    if form == "json":
        render.document({"table": table_path, "commits": [_data(commit) for commit in commits]})
    elif not quiet:
        if not commits:
            render.notice(f"{table_path} has no commits yet: its files were made elsewhere")
        else:
            lines = [line_of(commit, render.moment(commit.at)) for commit in commits]
            render.table(HEADINGS, lines, right=frozenset({"version"}), looks=_LOOKS)
        if viewed:
            render.notice(f"{table_path} is a view now; these commits are of the table that stays on disk")


def _is_view(table: str, path: str) -> bool:
    """Whether it was a view at its last run; one that never was a table has no history, and that is an error."""
    from tidemill.state.logs import log_at  # noqa: PLC0415
    from tidemill.state.views import view_record  # noqa: PLC0415

    viewed = view_record(path) is not None
    if viewed and not log_at(path).exists():
        raise ArgumentError(
            "table.is_view", f"{table} is a view: it has no commits.", f"See its record: tidemill state {table}"
        )
    return viewed


def _data(commit: Commit) -> dict[str, Any]:
    from dataclasses import asdict  # noqa: PLC0415

    from tidemill.state.counting import counts_of  # noqa: PLC0415
    from tidemill.state.history import watermark_of  # noqa: PLC0415

    record = commit.record
    watermark = watermark_of(record) if record else None
    return {
        "version": commit.version,
        "at": commit.at,
        "by": "tidemill" if record or commit.prepares else "other",
        "operation": commit.operation,
        "strategy": record.strategy if record else None,
        "keys": list(record.keys) if record else [],
        "rows": record.rows if record else None,
        **asdict(counts_of(commit)),
        "window": dict(record.window) if record else {},
        "watermark": watermark.text() if watermark else None,
        "restored_from": record.restored_from if record else None,
        "run_id": record.run_id if record else None,
    }
