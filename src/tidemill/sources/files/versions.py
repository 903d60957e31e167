"""A folder of Parquet files as a table with versions, for as long as files only come to it. No Spark before it is read.

Files stand in the order of their times, and the first n of them are version n. What it holds is a digest of their
names, sizes and times: where the first n have the digest of then, the others are those that came since. That is all
that has to be remembered of an older version.
"""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.formats.base import Reach
from tidemill.formats.port import WEIGHT, InputChanges, RowsBy
from tidemill.formats.row_changes import UnknownChanges, no_row_changes
from tidemill.formats.traits import Capability
from tidemill.model import quote
from tidemill.model.record import Snapshot, content_of
from tidemill.sources import Reading
from tidemill.sources.files import FEW_FOOTERS, each_once

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from pyarrow import fs
    from pyspark.sql import DataFrame, SparkSession

    from tidemill.formats.base import KeyRange
    from tidemill.sources.files import FileSource
    from tidemill.sources.files.listing import Root

_TYPES = {
    "bool": "boolean",
    "int8": "byte",
    "int16": "short",
    "int32": "integer",
    "int64": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "large_string": "string",
    "binary": "binary",
    "date32[day]": "date",
    "timestamp[us, tz=UTC]": "timestamp",
    "timestamp[us]": "timestamp_ntz",
}
_AT_ONCE = 16  # files that are looked into


class FilesLog:
    """The files of a source as they were when somebody looked, which is when this is made."""

    def __init__(self, source: FileSource) -> None:
        self.path = source.paths[0]
        self.source = source
        self._found = source.listed_now
        self.files = sorted(self._found.placed, key=_in_time)

    def snapshot(self) -> Snapshot | None:
        """None where there are no files, or more than can be looked at, or rows that depend on more than files."""
        if not 0 < len(self.files) <= FEW_FOOTERS or self._found.in_partitions or self._schemas is None:
            return None
        return Snapshot(
            version=self.version(),
            sequence=0,
            record=None,
            record_version=None,
            files=len(self.files),
            rows=sum(self._rows),
            table_id=self._id,
            content_id=self._digest(self.version()),
        )

    @property
    def content(self) -> str:
        """What the snapshot has, without a look into files."""
        return content_of(self._id, self.version(), self._digest(self.version()))

    def version(self) -> int:
        return len(self.files)

    def commit(self, version: int) -> None:
        """Nobody has written down when it came to be."""

    def history_end(self, version: int, now: datetime) -> None:
        """Nothing is removed by time."""

    def columns(self) -> list[str]:
        """Those of all files, each once."""
        return list(each_once(schema.names for schema in self._schemas or ()))

    def column_types(self) -> dict[str, str]:
        """Of columns that have the same plain type in all files."""
        found: dict[str, set[str]] = {}
        for schema in self._schemas or ():
            for column in schema:
                found.setdefault(column.name.lower(), set()).add(_type(column.type))
        return {name: kinds.pop() for name, kinds in found.items() if len(kinds) == 1 and "" not in kinds}

    def reach(self, ranges: Sequence[KeyRange]) -> Reach:
        """All of them."""
        del ranges
        return Reach(len(self.files), self._found.size)

    def changes_since(self, version: int, until: int | None = None, *, content: str | None = None) -> InputChanges:
        """By the files that came; that others went or were written again shows in what the first ones hold.

        A column whose type differs among files is an error for whoever reads them.
        """
        last = self.version() if until is None else until
        try:
            came = self.came(version, last, content)
        except UnknownChanges as reason:
            return InputChanges(version, last, refusal=str(reason))
        return InputChanges(
            version,
            last,
            how=RowsBy.FILES,
            added=sum(self._rows[version:last]),
            removed=0,
            size=sum(file.size or 0 for _, file in came),
            commits=tuple(range(version + 1, last + 1)),
        )

    def came(self, since: int, until: int, content: str | None = None) -> list[tuple[Root, fs.FileInfo]]:
        """The files that a version has and an older one had not; `UnknownChanges` where those are not as they were."""
        is_known = 0 <= since <= until <= self.version()
        if not is_known or content not in {None, content_of(self._id, since, self._digest(since))}:
            raise UnknownChanges(
                "files that were read were changed or removed, or older ones were added; LOAD it into a table to "
                "follow such changes"
            )
        return self.files[since:until]

    @cached_property
    def _footers(self) -> list[pq.FileMetaData] | None:
        with suppress(OSError, pa.ArrowException), ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(_footer, self.files))
        return None  # Spark says what is wrong with a file

    @cached_property
    def _schemas(self) -> list[pa.Schema] | None:
        return None if self._footers is None else [each.schema.to_arrow_schema() for each in self._footers]

    @property
    def _rows(self) -> list[int]:
        return [each.num_rows for each in self._footers or ()]

    @property
    def _id(self) -> str:
        """Another declaration reads other files, or reads them otherwise."""
        said = json.dumps([self.source.format, self.source.paths])
        return hashlib.sha256(said.encode()).hexdigest()[:16]

    def _digest(self, count: int) -> str:
        seen = hashlib.sha256()
        for _, file in self.files[:count]:
            seen.update(f"{file.path}\0{file.size}\0{file.mtime_ns}\n".encode())
        return seen.hexdigest()[:32]


def _in_time(placed: tuple[Root, fs.FileInfo]) -> tuple[int, str]:
    """The order in which files were written."""
    return placed[1].mtime_ns or 0, str(placed[1].path)


def _footer(placed: tuple[Root, fs.FileInfo]) -> pq.FileMetaData:
    root, file = placed
    with root.files.open_input_file(file.path) as opened:
        return pq.read_metadata(opened)


def _type(kind: pa.DataType) -> str:
    """A plain type as Spark's JSON calls it; "" for others."""
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return _TYPES.get(str(kind), "")


@dataclass(frozen=True, slots=True)
class FilesRows:
    """The rows of these files."""

    log: FilesLog

    def can(self, capability: Capability) -> bool:
        return capability in {Capability.TIME_TRAVEL, Capability.ROW_CHANGES}

    def close(self) -> None:
        """Nothing is held open."""

    def read(self, spark: SparkSession, version: int | None = None) -> DataFrame:
        """Those of the first so many files."""
        return self._rows_of(spark, 0, self.log.version() if version is None else version)

    def row_changes(self, spark: SparkSession, since: int, until: int, columns: Sequence[str]) -> DataFrame:
        """Those of the files that came."""
        return self._rows_of(spark, since, until).select(*map(quote, columns)).selectExpr("*", f"1 AS {WEIGHT}")

    def _rows_of(self, spark: SparkSession, since: int, until: int) -> DataFrame:
        """With the columns of all files, whichever are read."""
        try:
            came = self.log.came(since, until)
        except UnknownChanges as reason:
            raise no_row_changes(self.log.path, reason) from None
        whole = self.log.source.read(Reading(spark))
        paths = [root.for_spark(file) for root, file in came]
        return spark.read.schema(whole.schema).parquet(*paths) if paths else whole.where("false")


@dataclass(frozen=True, slots=True)
class FilesPlace:
    """Where these files are; others may come at any time."""

    source: FileSource

    @property
    def path(self) -> str:
        return self.source.paths[0]

    def look(self) -> tuple[FilesLog, Callable[[], FilesRows]]:
        log = FilesLog(self.source)
        return log, partial(FilesRows, log)

    def content(self) -> str:
        """What is there now, without a look into files."""
        return FilesLog(self.source).content

    def still_has(self, version: int, content: str) -> bool:
        """Whatever files have come since."""
        return FilesLog(self.source).changes_since(version, version, content=content).refusal is None
