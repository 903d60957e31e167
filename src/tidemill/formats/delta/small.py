"""Small Delta tables, and small parts of tables, read and written by delta-rs, without a Spark job.

A commit of Spark's costs the same for a thousand rows as for a million: it reads the log, plans and starts several
jobs. A table of a few thousand rows is written sooner than that is done.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import CommitFailedError
from pyspark.sql.types import StructType

from tidemill.formats import base
from tidemill.formats.base import Conflict
from tidemill.formats.delta.log import APP_ID
from tidemill.formats.delta.opened import opened_at, writing_to
from tidemill.model.cursor import CursorKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidemill.formats.base import KeyRange
    from tidemill.model.record import Record, Snapshot

MOST_BYTES = 1024 * 1024
PART_BYTES = 8 * MOST_BYTES  # of files that are rewritten sooner by delta-rs than by a job of Spark's
_FLAT = {"boolean", "byte", "short", "integer", "long", "float", "double", "string", "binary", "date", "timestamp"}
# What delta-rs does as Spark does it. A table with another feature or property is left to Spark.
_FEATURES = {"deletionVectors", "appendOnly", "invariants"}
_PROPERTIES = {"delta.isolationLevel", "delta.enableDeletionVectors", "delta.checkpointInterval"}
_LEGACY_WRITER, _WRITER_WITH_FEATURES = 2, 7
_FIRST_YEAR, _LAST_YEAR = 1900, 2261
_CHECKPOINTS = 10  # commits from one checkpoint to the next, by Delta's default


@dataclass(frozen=True)
class SmallTable:
    """One version of a small table, or of what a table holds within ranges of its keys.

    The table is the one that is open, and others may have taken it to a later version: that is a `Conflict`. It `holds`
    nothing where no file can have a row within the ranges.
    """

    path: str
    table: deltalake.DeltaTable
    version: int
    ranges: tuple[KeyRange, ...] = ()
    holds: bool = True

    @property
    def schema(self) -> StructType:
        return StructType.fromJson(_schema(self.table))

    def rows(self, most: int) -> pa.Table:
        """Its rows, without those that are marked as deleted, and no more than so many of them."""
        self._check_unmoved()
        if not self.holds:
            return pa.schema(self.table.schema().to_arrow()).empty_table()
        query = f"SELECT * FROM held WHERE {self._predicate or 'true'} LIMIT {most}"
        found = deltalake.QueryBuilder().register("held", self.table).execute(query)
        return pa.table(found.read_all())

    def write(self, rows: pa.Table, record: Record) -> None:
        """The table, or what it holds within the ranges, becomes these rows.

        That is the commit that follows this version; `Conflict` if another one does.
        """
        self._check_unmoved()
        numbered = deltalake.CommitProperties(
            custom_metadata={"userMetadata": record.to_json()},
            max_commit_retries=0,
            app_transactions=[deltalake.Transaction(APP_ID, record.sequence)],
        )
        alone = deltalake.PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
        write = partial(deltalake.write_deltalake, commit_properties=numbered, post_commithook_properties=alone)
        try:
            with writing_to(self.path, self.table):
                if self.holds:
                    write(self.table, rows, mode="overwrite", predicate=self._predicate)
                else:
                    write(self.table, rows, mode="append")
        except CommitFailedError as failure:
            raise self._moved() from failure
        if self.table.version() % self._interval == 0:
            self.table.create_checkpoint()

    def _check_unmoved(self) -> None:
        if self.table.version() != self.version:
            raise self._moved()

    def _moved(self) -> Conflict:
        return Conflict(f"{self.path} was changed since it was looked at")

    @property
    def _predicate(self) -> str | None:
        spans = [f'"{span.column}" BETWEEN {span.low.value} AND {span.high.value}' for span in self.ranges]
        return " AND ".join(spans) or None

    @property
    def _interval(self) -> int:
        return int(self.table.metadata().configuration.get("delta.checkpointInterval", _CHECKPOINTS))


def small_table(path: str, snapshot: Snapshot, ranges: Sequence[KeyRange] = ()) -> SmallTable | None:
    """The table as it was looked at, or what it holds within ranges, where that is little and delta-rs can write it.

    Of tables with deletion vectors only the whole, or nothing: Spark marks rows sooner than their files are rewritten
    here.
    """
    numbers = tuple(span for span in ranges if span.low.kind is CursorKind.INTEGER)
    if (ranges and not numbers) or "://" in path or snapshot.partition_columns or snapshot.fills:
        return None
    if not _is_plain(snapshot):
        return None
    table = opened_at(path, snapshot.version)
    if not _has_known_features(table) or not _is_flat(table):
        return None
    files = _within(pa.table(table.get_add_actions(flatten=True)), numbers)
    if files is None or not (_is_small_part(files, table) if numbers else _is_small(files)):
        return None
    if not _has_certain_times(files, table):
        return None
    return SmallTable(path, table, snapshot.version, numbers, holds=files.num_rows > 0 or not numbers)


def plain_schema(path: str, version: int) -> StructType | None:
    """The columns of a version of a local table, by its log; None where Spark may see them in another way."""
    table = opened_at(path, version)
    return StructType.fromJson(_schema(table)) if _is_flat(table) else None


def _within(files: pa.Table, ranges: Sequence[KeyRange]) -> pa.Table | None:
    """The files that may hold a row within the ranges; None where statistics do not say."""
    for span in ranges:
        ends = [f"{end}.{span.column}" for end in ("min", "max")]
        if not set(ends) <= set(files.column_names) or any(files.column(end).null_count for end in ends):
            return None
        low, high = map(files.column, ends)
        files = files.filter(pc.and_(pc.less_equal(low, span.high.value), pc.greater_equal(high, span.low.value)))
    return files


def _is_plain(snapshot: Snapshot) -> bool:
    return all(name in _PROPERTIES for name in snapshot.properties if name.startswith("delta."))


def _is_small(files: pa.Table) -> bool:
    rows = files.column("num_records")
    return _size(files) <= MOST_BYTES and not rows.null_count and (pc.sum(rows).as_py() or 0) <= base.MOST_ROWS


def _is_small_part(files: pa.Table, table: deltalake.DeltaTable) -> bool:
    return _size(files) <= PART_BYTES and not (files.num_rows and "deletionVectors" in _features(table))


def _size(files: pa.Table) -> int:
    return int(pc.sum(files.column("size_bytes")).as_py() or 0)


def _has_certain_times(files: pa.Table, table: deltalake.DeltaTable) -> bool:
    """Whether delta-rs reads all moments as they are, by statistics: it takes those of Spark's files for nanoseconds.

    Beyond the year 2262 these turn into other moments. Before 1900 they may be by another calendar.
    """
    names = [field["name"] for field in _fields(table) if field["type"] == "timestamp"]
    return all(_is_certain(file, name) for file in files.to_pylist() for name in names)


def _is_certain(file: dict[str, Any], name: str) -> bool:
    low, high = file.get(f"min.{name}"), file.get(f"max.{name}")
    if low is None or high is None:
        return bool(file.get(f"null_count.{name}") == file["num_records"])
    return bool(low.year >= _FIRST_YEAR and high.year <= _LAST_YEAR)


def _has_known_features(table: deltalake.DeltaTable) -> bool:
    protocol = table.protocol()
    if protocol.min_writer_version <= _LEGACY_WRITER:
        return True
    return protocol.min_writer_version == _WRITER_WITH_FEATURES and _features(table) <= _FEATURES


def _features(table: deltalake.DeltaTable) -> set[str]:
    protocol = table.protocol()
    return {*(protocol.reader_features or ()), *(protocol.writer_features or ())}


def _is_flat(table: deltalake.DeltaTable) -> bool:
    """Whether any row may enter as it is, and its values are the same where Arrow says so."""
    return all(
        field["nullable"] and field["metadata"].keys() <= {"comment"} and _is_one(field) for field in _fields(table)
    )


def _fields(table: deltalake.DeltaTable) -> list[dict[str, Any]]:
    fields: list[dict[str, Any]] = _schema(table)["fields"]
    return fields


def _schema(table: deltalake.DeltaTable) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(table.schema().to_json())
    return schema


def _is_one(field: dict[str, Any]) -> bool:
    kind = field["type"]
    return isinstance(kind, str) and (kind in _FLAT or kind.startswith("decimal("))
