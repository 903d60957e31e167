"""How much work a merge of files will be, by the size of its source and the log of its table, before Spark starts; and
the ranges of its keys, and whether they are in order, by what the files say.

Keys that stand in order in their files need no grouping: Arrow sees that in the key column alone, a row group at a
time, and stops where it is not so.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
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

KeySpan = tuple[int, int, int]  # rows, the first key, the last
_FOOTERS = 20  # files whose footers are read for the range of their keys


def key_ranges(files: Sequence[str], keys: Sequence[str]) -> list[KeyRange]:
    """The lowest and highest of the keys that are whole numbers, where the footers of these files tell them."""
    if len(files) > _FOOTERS:
        return []
    try:
        footers = [pq.read_metadata(path) for path in files]
    except (OSError, pa.ArrowException):  # Spark will tell what is wrong with it
        return []
    found = (_range(footers, key) for key in keys)
    return [each for each in found if each is not None]


def spans_in_order(files: Sequence[str], key: str) -> list[KeySpan] | None:
    """What each file with rows holds, from the lowest keys on; None where only Spark can tell, or there are no rows.

    The files are addresses; no key is in two of them.
    """
    try:
        spans = _spans(files, key)
    except (OSError, pa.ArrowException):  # Spark will tell what is wrong with the file
        return None
    if not spans or any(last >= first for (_, _, last), (_, first, _) in pairwise(spans)):
        return None
    return spans


def _range(footers: Sequence[pq.FileMetaData], key: str) -> KeyRange | None:
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


def _spans(files: Sequence[str], key: str) -> list[KeySpan] | None:
    """The same in the order of the keys; None where a file is not in order, or not on this disk."""
    places = [urlsplit(file) for file in files]
    if any(place.scheme != "file" for place in places):
        return None
    found = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for span in pool.map(lambda place: _span(unquote(place.path), key), places):
            if span is None:
                pool.shutdown(cancel_futures=True)
                return None
            found.append(span)
    return sorted((span for span in found if span[0]), key=lambda span: span[1])


def _span(path: str, key: str) -> KeySpan | None:
    rows, first, last = 0, 0, 0
    with pq.ParquetFile(path) as file:
        column = spelled(key, file.schema_arrow.names)
        if column is None or not pa.types.is_signed_integer(file.schema_arrow.field(column).type):
            return None
        for number in range(file.num_row_groups):
            keys = file.read_row_group(number, [column], use_threads=False).column(0).combine_chunks()
            if not len(keys):
                continue
            if not _is_in_order(keys) or (rows and keys[0].as_py() <= last):
                return None
            first, last = (first if rows else keys[0].as_py()), keys[-1].as_py()
            rows += len(keys)
    return rows, first, last


def _is_in_order(keys: pa.Array) -> bool:
    return not keys.null_count and bool(pc.all(pc.greater(keys[1:], keys[:-1]), min_count=0).as_py())


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
