"""How much work a merge of files will be, by the size of its source and the log of its table, before Spark starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.formats import Capability, can
from tidemill.formats.registry import log_of
from tidemill.sources.files.footers import key_ranges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidemill.formats.base import KeyRange
    from tidemill.model.table import Table
    from tidemill.sources.files import FileSource

# An engine for small work starts some five seconds sooner, and long work takes it 1.6 times as long. Reading this many
# bytes of a change takes less than ten seconds, and so does rewriting them; reading keys is ten times as quick.
SMALL_WORK = 32 * 1024 * 1024
_SMALL_READ = 1024 * 1024 * 1024


def is_small(source: FileSource, table: Table) -> bool:
    """Whether little is read of the source, and little read or rewritten of the table."""
    if source.size > SMALL_WORK:
        return False
    files = source.local_files if source.has_footers else ()
    return meets_little(table, key_ranges(files, table.strategy.keys))


def meets_little(table: Table, ranges: Sequence[KeyRange] = ()) -> bool:
    """Whether a change with keys in these ranges meets little of the table, by how it will be written."""
    if can(table.format, Capability.MATCHING):  # the store takes a small change to its files by itself
        return True
    log = log_of(table)
    snapshot = log.snapshot()
    if snapshot is None:
        return True
    whole = table.strategy.deletes_missing
    rewrites = whole or not snapshot.marks_rows or snapshot.updates_matter
    return log.reach(() if whole else ranges).size <= (SMALL_WORK if rewrites else _SMALL_READ)
