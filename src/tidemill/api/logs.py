"""Tables as their logs know them, without Spark: whether they may be dropped; and their commits, as lines that say what
each did, to how many rows exactly, in which window, and up to which watermark.
"""

from __future__ import annotations

import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.api import not_made, path_of
from tidemill.display import html_table, text_table
from tidemill.errors import ArgumentError, TableError, did_you_mean
from tidemill.execution.journal import log_step
from tidemill.formats.filesystem import file_system, only_writer
from tidemill.formats.registry import format_at, log_at, no_table_at
from tidemill.model import local_path
from tidemill.model.cursor import cursor
from tidemill.model.record import Commit, Counts, counts_of
from tidemill.planning.refusals import protection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tidemill.api import Place
    from tidemill.model.cursor import Cursor
    from tidemill.model.record import Record, Snapshot
    from tidemill.model.table import Table

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
        case None if record.refresh:
            return f"{record.refresh.get('mode')} refresh"
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


def history(target: str | Path, limit: int | None = None) -> History:
    """The commits of the table at a path, newest first, with their records; a list that prints as a table. No JVM.

    >>> [commit.version for commit in tidemill.history("lake/orders", limit=2)]
    [1, 0]
    """
    return History(commits_of(target, limit))


def commits_of(target: str | Path, limit: int | None = None) -> Iterator[Commit]:
    """The same, each read when it is asked for."""
    if limit is not None and (not isinstance(limit, int) or limit < 0):
        raise ArgumentError("history.bad_limit", f"{limit!r} is no number of commits.", "Give one, or leave it out.")
    log = log_at(path_of(target))
    if log.snapshot() is None:
        raise no_table_at(target)
    return log.commits(limit)


def refuse_reset(name: str, snapshot: Snapshot, declared: Table | None) -> None:
    """Raises where the declaration, the table, or a declaration that is gone says that its history is to be kept."""
    kept = protection(snapshot, declared)
    if kept is None:
        return
    said, lifted = kept
    rows = "its" if snapshot.rows is None else f"{snapshot.rows:,}"
    raise TableError(
        "table.reset_refused",
        f"{name} {said}: {rows} rows of history would be dropped.",
        f"Take a backup (tidemill backup {name}), then {lifted}.",
        origin=declared.origin if declared else None,
    )


def drop_table(path: str) -> None:
    """Removes the table at a path; on a local disk at once, so that a kill leaves no half of it."""
    folder = local_path(path)
    if folder is None:
        files, root = file_system(path)
        files.delete_dir(root)
        return
    going = folder.with_name(f".{folder.name}.tidemill-dropped-{uuid.uuid4().hex}")
    with only_writer(path):
        folder.rename(going)
    shutil.rmtree(going)


@dataclass(frozen=True, slots=True)
class DropResult:
    """The table that is gone, and how many rows it had, where its log says.

    >>> tidemill.Project.load("shop").drop("old_orders").table
    'old_orders'
    """

    table: str
    path: str
    rows: int | None


def drop(
    table: Place, declared: Callable[[], Table | None], agree: Callable[[Snapshot], None] = lambda _: None
) -> DropResult:
    """Removes a table for good, unless its history is to be kept. `agree` raises where somebody says no."""
    with log_step("drop", f"drop {table.name}", table.name, table.path, table.folder) as kept:
        snapshot = found(table)
        refuse_reset(table.name, snapshot, declared())
        agree(snapshot)
        drop_table(table.path)
        kept.status = "dropped"
    return DropResult(table.name, table.path, snapshot.rows)


def found(table: Place) -> Snapshot:
    """The table as it is; where there is none, the error names the one that may be meant, beside it or declared."""
    snapshot = log_at(table.path).snapshot()
    if snapshot is None:
        raise missing(table)
    return snapshot


def missing(table: Place) -> ArgumentError:
    """The error for a table that is not there: not made yet, or misspelled."""
    name = Path(table.path).name
    start = table.name.rstrip("/").removesuffix(name)  # a schema, or a folder
    declared = [each.removeprefix(start) for each in table.declared() if each.startswith(start)]
    if name.lower() in map(str.lower, declared):
        return not_made(table.name)
    here = Path(table.path)
    inside = [each.name for each in sorted(here.glob("[!._]*/")) if format_at(str(each))]
    beside = [each.name for each in here.parent.glob("[!._]*") if each != here]
    close = did_you_mean(name, [*declared, *beside])
    is_path = table.name == table.path or "/" in table.name
    otherwise = "Give the path of a table." if is_path else f"Nothing is at {table.path}."
    otherwise = f"It is a folder of tables: {', '.join(inside)}." if inside else otherwise
    remedy = f"Did you mean {start}{close}?" if close else otherwise
    return ArgumentError("table.missing", f"There is no table {'at ' if is_path else ''}{table.name}.", remedy)
