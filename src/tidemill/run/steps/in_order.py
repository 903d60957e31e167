"""A first load whose keys stand in order in its files: each is above the one before it, so none comes twice.

Arrow sees that in the key column alone, a row group at a time, and stops where it is not so. Spark would have to group
all keys.
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

from tidemill.change.cursors import kind_of
from tidemill.contracts.changes import KeyRange, Profile
from tidemill.declare.cursors import Cursor, CursorKind
from tidemill.declare.names import spelled
from tidemill.sources.protocol import OfFiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from tidemill.sources.protocol import Connector

Span = tuple[int, int, int]  # rows, the first key, the last


def profile_in_order(source: Connector, rows: DataFrame, keys: Sequence[str]) -> Profile | None:
    """The profile of all rows of the source, by one whole number as their key; None where only Spark can tell."""
    if not isinstance(source, OfFiles) or not source.is_plain or not source.settled or len(keys) != 1:
        return None
    key = spelled(keys[0], rows.columns)
    if key is None or kind_of(rows.schema[key].dataType) is not CursorKind.INTEGER:
        return None
    try:
        spans = _spans(rows.inputFiles(), key)
    except (OSError, pa.ArrowException):  # Spark will tell what is wrong with the file
        return None
    if spans is None or any(last >= first for (_, _, last), (_, first, _) in pairwise(spans)):
        return None
    count = sum(rows for rows, _, _ in spans)
    low, high = (Cursor(CursorKind.INTEGER, value) for value in (spans[0][1], spans[-1][2]))
    return Profile(rows=count, keys=count, ranges=(KeyRange(key, low, high),))


def _spans(files: Sequence[str], key: str) -> list[Span] | None:
    """What each file with rows holds, from the lowest keys on; None where one is not in order, or not on this disk."""
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
    return sorted((span for span in found if span[0]), key=lambda span: span[1]) or None


def _span(path: str, key: str) -> Span | None:
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
