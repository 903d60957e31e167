"""Commits as lines: what each did, to how many rows exactly, and which of them belong together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.display import html_table, text_table
from tidemill.formats.parquet.folder import COMPACTS
from tidemill.model.cursor import cursor
from tidemill.model.record import Commit, Counts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tidemill.model.cursor import Cursor
    from tidemill.model.record import Record


def counts_of(commit: Commit) -> Counts:
    """The counts of a commit of ours; of somebody else's, what its log tells."""
    return completed(commit.record, commit.seen) if commit.record else Counts(**commit.seen)


def completed(record: Record, seen: Mapping[str, int]) -> Counts:
    """`seen`, with what the record knew before its commit, and the remainder where the record says."""
    counts = {**seen, **record.counts}
    counted = sum(counts.get(name, 0) for name in ("inserted", "updated", "unchanged", "ignored"))
    rest = max(record.rows - counted, 0)
    counts[record.remainder] = counts.get(record.remainder, 0) + rest
    return Counts(**counts)


RESTORE_BEGINS = "restore begins"


def without_parts(commits: Iterable[Commit]) -> Iterator[Commit]:
    """The commits, newest first, without those that only prepare or carry a later one of the same run."""
    seen: set[str] = set()
    for commit in commits:
        record = commit.record
        if commit.prepares and commit.operation != COMPACTS:
            continue
        if record is not None:
            if record.strategy == RESTORE_BEGINS or record.run_id in seen:
                continue
            seen.add(record.run_id)
        yield commit


HEADINGS = ("version", "when", "what", "rows", "window", "watermark")


class History(list[Commit]):
    """The commits of a table, newest first, which print as a table; times are in UTC.

    >>> print(tidemill.history("lake/orders"))
    version  when                 what          rows   window  watermark
    1        ...                  merge upsert  +1 ~1
    0        ...                  merge upsert  +3
    """

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
    """From where the run read on, and up to where; the end is open but for dates of a function and backfills."""
    if not record.window:
        return ""
    start, end = record.window.get("start"), record.window.get("end")
    if start is None and end is None:
        return "all"
    if last := record.window.get("last"):  # the dates of a function
        return f"{start} … {last}"
    watermark = watermark_of(record)
    return " ".join(_bound(text, watermark) for text in (start, "…", end) if text)


def _bound(text: str, watermark: Cursor | None) -> str:
    """A bound as a watermark is shown."""
    return text if text == "…" or watermark is None else str(cursor(watermark.kind, text))
