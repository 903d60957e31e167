"""`tidemill history`: the commits of a table, read without a JVM."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from tidemill.cli import render
from tidemill.cli.naming import located
from tidemill.cli.options import output
from tidemill.errors import ArgumentError

if TYPE_CHECKING:
    from tidemill.contracts.records import Counts, Record
    from tidemill.contracts.snapshots import Commit
    from tidemill.declare.cursors import Cursor

HEADINGS = ("version", "when", "what", "rows", "window", "watermark")


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
    from tidemill.state.logs import log_at  # noqa: PLC0415
    from tidemill.state.parts import without_parts  # noqa: PLC0415

    path = located(table_path)
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
            render.table(HEADINGS, [_line(commit) for commit in commits], right=frozenset({"version"}))
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


def _line(commit: Commit) -> tuple[str, ...]:
    record = commit.record
    return (
        str(commit.version),
        render.moment(commit.at),
        _what(commit),
        _rows(_counts(commit)),
        _window(record) if record else "",
        str(_watermark(record) or "") if record else "",
    )


def _what(commit: Commit) -> str:
    record = commit.record
    if record is None:
        return "compact" if commit.prepares else f"not by Tidemill: {commit.operation}"
    match record.restored_from:
        case None:
            return record.strategy
        case int() as version:
            return f"restore to {version}"
        case backup:
            return f"restore from {backup.rstrip('/').rpartition('/')[2]}"


def _counts(commit: Commit) -> Counts:
    from tidemill.state.counting import counts_of  # noqa: PLC0415

    return counts_of(commit)


def _rows(counts: Counts) -> str:
    parts = (("+", counts.inserted), ("~", counts.updated), ("-", counts.deleted))
    return " ".join(f"{sign}{count:,}" for sign, count in parts if count)


def _window(record: Record) -> str:
    """From where the run read on; its end is open."""
    from tidemill.declare.cursors import cursor  # noqa: PLC0415

    if not record.window:
        return ""
    start, watermark = record.window.get("start"), _watermark(record)
    if start is None:
        return "all"
    if last := record.window.get("last"):  # the dates of a function
        return f"{start} … {last}"
    return f"{cursor(watermark.kind, start) if watermark else start} …"


def _watermark(record: Record) -> Cursor | None:
    return next(iter(record.progress.values()), None)


def _data(commit: Commit) -> dict[str, Any]:
    from dataclasses import asdict  # noqa: PLC0415

    record = commit.record
    watermark = _watermark(record) if record else None
    return {
        "version": commit.version,
        "at": commit.at,
        "by": "tidemill" if record or commit.prepares else "other",
        "operation": commit.operation,
        "strategy": record.strategy if record else None,
        "keys": list(record.keys) if record else [],
        "rows": record.rows if record else None,
        **asdict(_counts(commit)),
        "window": dict(record.window) if record else {},
        "watermark": watermark.text() if watermark else None,
        "restored_from": record.restored_from if record else None,
        "run_id": record.run_id if record else None,
    }
