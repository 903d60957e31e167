"""What the footers of Parquet files say, and the keys in them, without Spark: columns, schemas, ranges of keys, and
whether keys are in order.

Keys that stand in order in their files need no grouping: Arrow sees that in the key column alone, a row group at a
time, and stops where it is not so.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.formats.base import KeyRange
from tidemill.model import spelled
from tidemill.model.cursor import Cursor, CursorKind
from tidemill.sources.files import each_once

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyarrow import fs

    from tidemill.sources.files.listing import Listing

KeySpan = tuple[int, int, int]  # rows, the first key, the last
_FOOTERS = 20  # files whose footers are read for the range of their keys
_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
_FEW_SCHEMAS = 32  # footers that are read here sooner than by a job


@dataclass(frozen=True)
class Footers:
    """What the footers of these files say."""

    found: Listing

    def columns(self) -> tuple[str, ...] | None:
        """The columns of all files."""
        try:
            return each_once(_columns(root.files, file.path) for root, file in self.found.placed)
        except (OSError, pa.ArrowException):  # Spark says what is wrong with a file that cannot be read
            return None

    @cached_property
    def first(self) -> list[pq.FileMetaData]:
        """Those of the first files; Spark will tell what is wrong with one that cannot be read."""
        footers = []
        for root, file in self.found.placed[:_FEW_SCHEMAS]:
            with suppress(OSError, pa.ArrowException), root.files.open_input_file(file.path) as opened:
                footers.append(pq.read_metadata(opened))
        return footers

    def written_schema(self) -> str | None:
        """The schema in Spark's JSON, if Spark wrote the same into all of these files."""
        if self.found.in_partitions or len(self.found.files) != len(self.first):
            return None
        texts = {(footer.metadata or {}).get(_SCHEMA) for footer in self.first}
        text = texts.pop() if len(texts) == 1 else None
        return text.decode() if text else None

    def fine_columns(self) -> list[str]:
        """The columns that hold moments in nanoseconds; Spark reads those of its own INT96."""
        return list(
            dict.fromkeys(
                column.path.partition(".")[0]
                for footer in self.first
                for column in map(footer.schema.column, range(footer.num_columns))
                if column.physical_type == "INT64" and "timeUnit=nanoseconds" in str(column.logical_type)
            )
        )

    @staticmethod
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

    @staticmethod
    def spans_in_order(files: Sequence[str], key: str) -> list[KeySpan] | None:
        """What each file with rows holds, from the lowest keys on; None where only Spark can tell, or there are none.

        The files are addresses; no key is in two of them.
        """
        try:
            spans = _spans(files, key)
        except (OSError, pa.ArrowException):  # Spark will tell what is wrong with the file
            return None
        if not spans or any(last >= first for (_, _, last), (_, first, _) in pairwise(spans)):
            return None
        return spans


def _columns(files: fs.FileSystem, path: str) -> Sequence[str]:
    with files.open_input_file(path) as file:
        names: list[str] = pq.read_schema(file).names
        return names


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
    if keys.null_count:
        return False
    values = keys.to_numpy()
    return bool((values[1:] > values[:-1]).all())
