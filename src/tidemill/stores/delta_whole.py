"""Small Delta tables, read and written whole by delta-rs: no Spark job, and no more than one file afterwards.

A commit of Spark's costs the same for a thousand rows as for a million: it reads the log, plans and starts several
jobs. A table of a few thousand rows is written sooner than that is done.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
from deltalake.exceptions import CommitFailedError
from pyspark.sql.types import StructType

from tidemill.contracts.store import Conflict
from tidemill.state.delta_log import APP_ID

if TYPE_CHECKING:
    from tidemill.contracts.records import Record
    from tidemill.contracts.snapshots import Snapshot

MOST_ROWS = 10_000
MOST_BYTES = 1024 * 1024
_FLAT = {"boolean", "byte", "short", "integer", "long", "float", "double", "string", "binary", "date", "timestamp"}
# What delta-rs does as Spark does it. A table with another feature or property is left to Spark.
_FEATURES = {"deletionVectors", "appendOnly", "invariants"}
_PROPERTIES = {"delta.isolationLevel", "delta.enableDeletionVectors", "delta.checkpointInterval"}
_LEGACY_WRITER, _WRITER_WITH_FEATURES = 2, 7
_FIRST_YEAR, _LAST_YEAR = 1900, 2261
_CHECKPOINTS = 10  # commits from one checkpoint to the next, by Delta's default


@dataclass(frozen=True)
class WholeTable:
    """One version of a small table."""

    table: deltalake.DeltaTable

    @property
    def schema(self) -> StructType:
        return StructType.fromJson(json.loads(self.table.schema().to_json()))

    def rows(self) -> pa.Table:
        """All its rows, without those that are marked as deleted."""
        found = deltalake.QueryBuilder().register("held", self.table).execute("SELECT * FROM held")
        return pa.table(found.read_all())

    def write(self, rows: pa.Table, record: Record) -> None:
        """The table becomes these rows, in the commit that follows this version; `Conflict` if another one does."""
        numbered = deltalake.CommitProperties(
            custom_metadata={"userMetadata": record.to_json()},
            max_commit_retries=0,
            app_transactions=[deltalake.Transaction(APP_ID, record.sequence)],
        )
        alone = deltalake.PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
        try:
            deltalake.write_deltalake(
                self.table, rows, mode="overwrite", commit_properties=numbered, post_commithook_properties=alone
            )
        except CommitFailedError as failure:
            raise Conflict(f"{self.table.table_uri} was changed since it was looked at") from failure
        if self.table.version() % self._interval == 0:
            self.table.create_checkpoint()

    @property
    def _interval(self) -> int:
        return int(self.table.metadata().configuration.get("delta.checkpointInterval", _CHECKPOINTS))


def whole_table(path: str, snapshot: Snapshot) -> WholeTable | None:
    """The table as it was looked at, where it is small and has nothing that only Spark's Delta keeps."""
    if "://" in path or snapshot.partition_columns or snapshot.fills or not _is_plain(snapshot):
        return None
    table = deltalake.DeltaTable(path, version=snapshot.version)
    if not _has_known_features(table) or not _is_flat(table):
        return None
    files = pa.table(table.get_add_actions(flatten=True))
    return WholeTable(table) if _is_small(files) and _has_certain_times(files, table) else None


def _is_plain(snapshot: Snapshot) -> bool:
    return all(name in _PROPERTIES for name in snapshot.properties if name.startswith("delta."))


def _is_small(files: pa.Table) -> bool:
    sizes, rows = files.column("size_bytes").to_pylist(), files.column("num_records").to_pylist()
    return sum(sizes) <= MOST_BYTES and None not in rows and sum(rows) <= MOST_ROWS


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
    features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    return protocol.min_writer_version == _WRITER_WITH_FEATURES and features <= _FEATURES


def _is_flat(table: deltalake.DeltaTable) -> bool:
    """Whether any row may enter as it is, and its values are the same where Arrow says so."""
    return all(
        field["nullable"] and field["metadata"].keys() <= {"comment"} and _is_one(field) for field in _fields(table)
    )


def _fields(table: deltalake.DeltaTable) -> list[dict[str, Any]]:
    fields: list[dict[str, Any]] = json.loads(table.schema().to_json())["fields"]
    return fields


def _is_one(field: dict[str, Any]) -> bool:
    kind = field["type"]
    return isinstance(kind, str) and (kind in _FLAT or kind.startswith("decimal("))
