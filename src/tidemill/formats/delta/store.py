"""Delta tables: a step's rows, its record and its sequence number in one commit of the table's own log."""

from __future__ import annotations

import tempfile
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from tidemill.formats.base import (
    CommitResult,
    Conflict,
    RewriteRows,
)
from tidemill.formats.delta import COLUMN_MAPPING, DELTA, files_removed, writing
from tidemill.formats.delta.format import interval
from tidemill.formats.delta.log import ANCHOR, ANCHOR_VERSION, DeltaLog
from tidemill.formats.delta.small import plain_schema, small_table
from tidemill.formats.filesystem import FOLDER, file_system, is_folder, only_writer, with_retries
from tidemill.formats.port import WEIGHT, Store
from tidemill.model import local_path, quote, quoted_text
from tidemill.model.record import PREPARES, counts_of
from tidemill.spark.session import statements

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from tidemill.formats.base import KeyRange, Operation, Requirements
    from tidemill.formats.delta.small import SmallTable
    from tidemill.model.record import Commit, Record, Snapshot

# A vacuum removes what the caller has asked for: Delta refuses short times, and takes the table's own for any other but
# zero. It writes no commit, which a full disk has no room for.
_VACUUM = {
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.databricks.delta.vacuum.retentionWindowIgnore.enabled": "false",
    "spark.databricks.delta.vacuum.logging.enabled": "false",
}
_NUMBERED_COLUMNS = COLUMN_MAPPING.removesuffix("mode")
_DEFAULT_RETENTION = timedelta(days=30)


class DeltaStore(Store):
    """The Delta table at one path."""

    traits = DELTA

    def __init__(
        self,
        path: str,
        *,
        properties: Mapping[str, str] | None = None,
        partition_by: Sequence[str] = (),
        single_writer: bool = False,
    ) -> None:
        self.path = path
        self.single_writer = single_writer
        self._log = DeltaLog(path)
        self.properties = dict(properties or {})
        self.partition_by = tuple(partition_by)
        self._scratch: list[str] = []

    @property
    def log(self) -> DeltaLog:
        return self._log

    def like(self, path: str, snapshot: Snapshot) -> DeltaStore:
        """With Delta's own properties: a copy is not kept from being dropped, and Delta numbers its columns itself."""
        own = {name: value for name, value in snapshot.properties.items() if name.startswith("delta.")}
        kept = {name: own[name] for name in own if name == COLUMN_MAPPING or not name.startswith(_NUMBERED_COLUMNS)}
        return DeltaStore(
            path, properties=kept, partition_by=snapshot.partition_columns, single_writer=self.single_writer
        )

    def read(self, spark: SparkSession, version: int | None = None) -> DataFrame:
        """The rows as they are, never those that somebody has cached of the table: Spark keeps them as they were."""
        if version is not None:
            return spark.read.format("delta").option("versionAsOf", version).load(self.path)
        rows, look = spark.read.format("delta").load(self.path), 0
        while _is_cached(rows):
            look += 1  # no cache knows a frame with this option; Delta treats it as one of the file system
            rows = spark.read.format("delta").option("fs.tidemill.look", look).load(self.path)
        return rows

    def row_changes(self, spark: SparkSession, since: int, until: int, columns: Sequence[str]) -> DataFrame:
        """By the change data feed, or by tables of our own that point at the files which came and went."""
        from tidemill.formats.delta.pointing import changed_rows  # noqa: PLC0415  few ask

        rows = changed_rows(spark, self.log, since, until, columns, self._new_scratch)
        if rows is None:
            rows = self.read(spark, until).where("false").withColumn(WEIGHT, F.lit(1))
        return rows.select(*map(quote, columns), WEIGHT)

    def _new_scratch(self) -> str:
        """A folder for tables of our own, until the store is closed: beside a table that workers elsewhere read."""
        if local_path(self.path) is None:
            folder = f"{self.path}/{FOLDER}/changes/{uuid.uuid4().hex}"
        else:
            folder = tempfile.mkdtemp(prefix="tidemill-changes-")
        self._scratch.append(folder)
        return folder

    def close(self) -> None:
        """Row changes that were read as files cannot be read any more."""
        while self._scratch:
            files, folder = file_system(self._scratch.pop())
            if is_folder(files, folder):
                files.delete_dir(folder)

    def register(self, spark: SparkSession, name: str) -> None:
        spark.sql(f"CREATE TABLE {name} USING delta LOCATION {quoted_text(self.path)}")

    def is_named(self, spark: SparkSession, name: str) -> bool:
        if spark.catalog.getTable(name).tableType != "EXTERNAL":
            return False
        try:
            found = spark.sql(f"DESCRIBE DETAIL {name}").first()
        except AnalysisException:  # not a table of Delta's
            return False
        return found is not None and str(local_path(found["location"]) or found["location"]) == self.path

    def schema(self, spark: SparkSession) -> StructType:
        """By the log, where its columns are plain: Spark would make a snapshot of all files for them."""
        known = None if "://" in self.path else plain_schema(self.path, self.log.version())
        return self.read(spark).schema if known is None else known

    def in_memory(self, snapshot: Snapshot, ranges: Sequence[KeyRange] = ()) -> SmallTable | None:
        return small_table(self.path, snapshot, ranges)

    def stage(
        self, spark: SparkSession, operation: Operation, snapshot: Snapshot | None, *, rows: int = 0
    ) -> StagedWrite:
        """Delta writes the files of an operation while it commits it, so nothing is written yet."""
        del rows
        return StagedWrite(self, spark, operation, snapshot)

    def commit_operation(
        self,
        spark: SparkSession,
        operation: Operation,
        record: Record,
        snapshot: Snapshot | None,
        required: Requirements,
    ) -> CommitResult:
        """One commit, or `Conflict`.

        Delta silently skips a commit whose sequence number is taken, so only a version that
        holds our run id counts.
        """
        if not isinstance(operation, RewriteRows):
            writing.check_metrics(operation.rows.sparkSession)
            self._admit_naive_times(spark, operation.rows.schema, snapshot)
        with self._writing(spark):
            self._check_unmoved(required)
            if snapshot is None:
                writing.create(self, operation.rows, record)
            else:
                writing.write(operation, self, spark, record, snapshot)
        before, files = (-1, 0) if snapshot is None else (snapshot.version, snapshot.files)
        return _result(self._own_commit(record, before), before, files)

    def _admit_naive_times(self, spark: SparkSession, schema: StructType, snapshot: Snapshot | None) -> None:
        """The feature that Delta wants before a table that is there gets its first times without a zone."""
        if (
            snapshot is None
            or "timestamp_ntz" not in schema.simpleString()
            or self.log.has_feature(writing.NAIVE_TIMES)
        ):
            return
        if snapshot.record is None:
            raise writing.keeps_its_features(self.path)
        self.set_properties(spark, {f"delta.feature.{writing.NAIVE_TIMES}": "supported"})

    def _check_unmoved(self, required: Requirements) -> None:
        moved = self.log.exists() if required.version is None else self.log.moved_since(required.version)
        if moved:
            raise Conflict(f"{self.path} was changed since it was looked at")

    def retention(self, snapshot: Snapshot) -> timedelta:
        said = interval(snapshot.properties.get("delta.logRetentionDuration", ""))
        return _DEFAULT_RETENTION if said is None else said

    def anchor(self, spark: SparkSession, record: Record, version: int) -> None:
        """Copies the record into a table property, which Delta's log clean-up keeps."""
        properties = {ANCHOR: record.to_json(), ANCHOR_VERSION: str(version)}
        self.set_properties(spark, properties)

    def set_properties(self, spark: SparkSession, properties: Mapping[str, str]) -> None:
        pairs = ", ".join(f"{quoted_text(name)} = {quoted_text(value)}" for name, value in properties.items())
        self._prepare(spark, f"ALTER TABLE {self.name} SET TBLPROPERTIES ({pairs})")

    def cluster(self, spark: SparkSession, columns: Sequence[str]) -> None:
        layout = f"({', '.join(map(quote, columns))})" if columns else "NONE"
        self._prepare(spark, f"ALTER TABLE {self.name} CLUSTER BY {layout}")

    def compact(self, spark: SparkSession, target_size: int) -> tuple[int, int]:
        """Joins small files to such of about this many bytes; gives how many were joined, and to how many."""
        sizes = {f"spark.databricks.delta.optimize.{name}": str(target_size) for name in ("minFileSize", "maxFileSize")}
        done = with_retries(self.path, lambda _: self._prepare(spark, f"OPTIMIZE {self.name}", sizes))
        return int(done["metrics"]["numFilesRemoved"]), int(done["metrics"]["numFilesAdded"])

    def removable(self, spark: SparkSession, hours: float) -> list[str]:
        """The files that no version needs which was the last one within so many hours."""
        with statements(spark, _VACUUM) as session:
            return [str(row["path"]) for row in session.sql(f"{self._vacuum(hours)} DRY RUN").collect()]

    def vacuum(self, spark: SparkSession, hours: float) -> None:
        """Removes them. Whether the time is long enough, the caller has asked."""
        self._prepare(spark, self._vacuum(hours), _VACUUM)

    def _vacuum(self, hours: float) -> str:
        return f"VACUUM {self.name} RETAIN {hours:.6f} HOURS"

    def _prepare(self, spark: SparkSession, statement: str, settings: Mapping[str, str] | None = None) -> Any:
        """A commit of ours that changes no rows: the first row of what the statement reports."""
        with self._writing(spark), statements(spark, {writing.USER_METADATA: PREPARES, **(settings or {})}) as session:
            return session.sql(statement).first()

    def drop_columns(self, spark: SparkSession, columns: Sequence[str], snapshot: Snapshot) -> None:
        """The files stay as they are; that needs Delta's column mapping."""
        if not snapshot.maps_columns:
            self.set_properties(spark, {COLUMN_MAPPING: "name"})
        names = ", ".join(map(quote, columns))
        self._prepare(spark, f"ALTER TABLE {self.name} DROP COLUMNS ({names})")

    def commit_record(self, spark: SparkSession, record: Record, after: int) -> None:
        """An empty append that takes the record's sequence number."""
        nothing = self.read(spark).where("false").drop(*self.log.numbering())
        with self._writing(spark):
            writing.numbered(nothing.write, record).mode("append").save(self.path)
        self._own_commit(record, after)

    def check_files(self, spark: SparkSession, version: int) -> None:
        """An error where local files of an older version have gone; of others, `restore` finds it."""
        old = set(self.read(spark, version).inputFiles()) - set(self.read(spark).inputFiles())
        places = [local_path(file, escaped=True) for file in old]
        if any(place and not place.exists() for place in places):
            raise writing.files_gone(self.path, version)

    def restore(self, spark: SparkSession, version: int, record: Record) -> None:
        """It takes no sequence number."""
        settings = {writing.USER_METADATA: record.to_json()}
        with self._writing(spark), writing.lost_files(self.path, version), statements(spark, settings) as session:
            session.sql(f"RESTORE TABLE {self.name} TO VERSION AS OF {version}")

    def check_writer(self, spark: SparkSession) -> None:
        """An error where another writer could overwrite our commits, unless the user promises that there is none."""
        if not self.single_writer:
            writing.refuse_unguarded(spark, self.path)

    @contextmanager
    def _writing(self, spark: SparkSession) -> Iterator[None]:
        """The one way to a commit: one writer at a time, and who comes second has a `Conflict`."""
        self.check_writer(spark)
        with only_writer(self.path), writing.conflicts(), writing.room_for(self.log):
            yield

    @property
    def name(self) -> str:
        return f"delta.{quote(self.path)}"

    def _own_commit(self, record: Record, after: int) -> Commit:
        """The commit above version `after` that holds this record and its sequence number."""
        for commit in self.log.commits():
            if commit.version <= after:
                break
            if commit.record is not None and commit.record.run_id == record.run_id and commit.numbered:
                return commit
        raise Conflict(f"sequence number {record.sequence} of {self.path} was taken by another run")


@dataclass(frozen=True, slots=True)
class StagedWrite:
    """An operation that Delta writes and commits at once."""

    store: DeltaStore
    spark: SparkSession
    operation: Operation
    snapshot: Snapshot | None

    def commit(self, record: Record, required: Requirements) -> CommitResult:
        return self.store.commit_operation(self.spark, self.operation, record, self.snapshot, required)


def _is_cached(rows: DataFrame) -> bool:
    level = rows.storageLevel
    return level.useMemory or level.useDisk


def _result(commit: Commit, before: int, files_before: int) -> CommitResult:
    removed = files_removed(commit.metrics)
    return CommitResult(
        version=commit.version,
        alone=commit.version == before + 1,
        counts=counts_of(commit),
        files_rewritten=removed,
        files_kept=max(files_before - removed, 0),
    )
