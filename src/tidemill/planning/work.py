"""How much work a merge of files will be, by the size of its source and the log of its table: before Spark starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.formats.base import KeyRange
from tidemill.formats.registry import log_of
from tidemill.model.cursor import Cursor, CursorKind
from tidemill.model.format import Capability, can
from tidemill.model.names import spelled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidemill.model.table import Table
    from tidemill.sources.files.source import FileSource

# An engine for small work starts some five seconds sooner, and long work takes it 1.6 times as long. Reading this many
# bytes of a change takes less than ten seconds, and so does rewriting them; reading keys is ten times as quick.
SMALL_WORK = 32 * 1024 * 1024
_SMALL_READ = 1024 * 1024 * 1024
_FOOTERS = 20  # files whose footers are read for the range of their keys


def is_small(source: FileSource, table: Table) -> bool:
    """Whether little is read of the source, and little read or rewritten of the table."""
    if source.size > SMALL_WORK:
        return False
    keys = table.strategy.keys
    return meets_little(table, key_ranges(source, keys))


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


def key_ranges(source: FileSource, keys: Sequence[str]) -> list[KeyRange]:
    """The lowest and highest of the keys that are whole numbers, as the footers of Parquet files tell them."""
    if source.format != "parquet" or len(source.local_files) > _FOOTERS:
        return []
    try:
        footers = [pq.read_metadata(path) for path in source.local_files]
    except (OSError, pa.ArrowException):  # Spark will tell what is wrong with it
        return []
    spans = (_span(footers, key) for key in keys)
    return [span for span in spans if span is not None]


def _span(footers: Sequence[pq.FileMetaData], key: str) -> KeyRange | None:
    ends: list[int] = []
    for footer in footers:
        name = spelled(key, footer.schema.names)
        for number in range(footer.num_row_groups if name else 0):
            statistics = footer.row_group(number).column(footer.schema.names.index(name)).statistics
            if statistics is None or not statistics.has_min_max or not isinstance(statistics.min, int):
                return None
            ends += [statistics.min, statistics.max]
    if not ends:
        return None
    low, high = (Cursor(CursorKind.INTEGER, end) for end in (min(ends), max(ends)))
    return KeyRange(key, low, high)
