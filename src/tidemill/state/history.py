"""Commits as lines: what each did, to how many rows, from where on it read, and how far."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.contracts.snapshots import Commit
from tidemill.declare.cursors import cursor
from tidemill.shown import html_table, text_table
from tidemill.state.counting import counts_of

if TYPE_CHECKING:
    from tidemill.contracts.records import Counts, Record
    from tidemill.declare.cursors import Cursor

HEADINGS = ("version", "when", "what", "rows", "window", "watermark")


class History(list[Commit]):
    """The commits of a table, newest first, which print as a table; times are in UTC."""

    def __repr__(self) -> str:
        return text_table(HEADINGS, self._lines()) if self else "no commits"

    def _repr_html_(self) -> str:
        return html_table(HEADINGS, self._lines())

    def _lines(self) -> list[tuple[str, ...]]:
        return [line_of(commit, commit.at[:19].replace("T", " ")) for commit in self]


def line_of(commit: Commit, when: str) -> tuple[str, ...]:
    """A commit as the cells of a line."""
    record = commit.record
    return (
        str(commit.version),
        when,
        what(commit),
        rows(counts_of(commit)),
        _window(record) if record else "",
        str(watermark_of(record) or "") if record else "",
    )


def what(commit: Commit) -> str:
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


def rows(counts: Counts) -> str:
    parts = (("+", counts.inserted), ("~", counts.updated), ("-", counts.deleted))
    return " ".join(f"{sign}{count:,}" for sign, count in parts if count)


def watermark_of(record: Record) -> Cursor | None:
    return record.reached(record.progress)


def _window(record: Record) -> str:
    """From where the run read on; its end is open."""
    if not record.window:
        return ""
    start, watermark = record.window.get("start"), watermark_of(record)
    if start is None:
        return "all"
    if last := record.window.get("last"):  # the dates of a function
        return f"{start} … {last}"
    return f"{cursor(watermark.kind, start) if watermark else start} …"
