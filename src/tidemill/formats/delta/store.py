"""Delta tables: a step's rows, its record and its sequence number in one commit of the table's own log."""

from __future__ import annotations

import tempfile
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import singledispatchmethod
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from tidemill.formats.attempts import with_retries
from tidemill.formats.base import (
    COMING,
    HELD,
    AppendRows,
    CommitResult,
    Conflict,
    OverwriteRows,
    ReplaceByKey,
    ReplaceRows,
    RewriteRows,
    UpsertRows,
)
from tidemill.formats.delta import guards
from tidemill.formats.delta.changes import CommitRange
from tidemill.formats.delta.format import interval
from tidemill.formats.delta.log import ANCHOR, ANCHOR_VERSION, APP_ID, DeltaLog
from tidemill.formats.delta.metrics import files_removed
from tidemill.formats.delta.pointing import tables_of
from tidemill.formats.delta.small import plain_schema, small_table
from tidemill.formats.filesystem import FOLDER, file_system, is_folder, only_writer
from tidemill.formats.port import Store
from tidemill.formats.row_changes import WEIGHT, CannotTell, RowsBy, net_rows, not_told
from tidemill.model.format import COLUMN_MAPPING, DELTA, needs_mapping
from tidemill.model.names import field_names, local_path, of, quote, quoted_text
from tidemill.model.record import PREPARES, counts_of
from tidemill.spark.session import shared_view, statements, version_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
    from pyspark.sql.types import StructType

    from tidemill.formats.base import KeyRange, Operation, Requirements
    from tidemill.formats.delta.small import SmallTable
    from tidemill.model.record import Commit, Record, Snapshot

_OURS = {"delta.isolationLevel": "Serializable", "delta.enableDeletionVectors": "true"}
# Readers that know no deletion vectors are why somebody would want new tables without: in all ways in, by a session.
_MARKS_BY_DEFAULT = "spark.databricks.delta.properties.defaults.enableDeletionVectors"
# Delta can replace rows by their keys in one commit from here on. An older one does not know the option and would
# overwrite the whole table.
_REPLACES_ON = (4, 4)
_STATISTICS = "spark.databricks.delta.stats.collect"
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
# A vacuum removes what the caller has asked for: Delta refuses short times, and takes the table's own for any other but
# zero. It writes no commit, which a full disk has no room for.
_VACUUM = {
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.databricks.delta.vacuum.retentionWindowIgnore.enabled": "false",
    "spark.databricks.delta.vacuum.logging.enabled": "false",
}
_NUMBERED_COLUMNS = COLUMN_MAPPING.removesuffix("mode")
_GOES = "__tidemill_goes"
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
        self._properties = dict(properties or {})
        self._partition_by = tuple(partition_by)
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
        try:
            found = CommitRange.of(self.log, since, until)
            found.told(columns, None)
        except CannotTell as reason:
            raise not_told(self.path, reason) from None
        rows = self._fed_rows(spark, found) if found.how is RowsBy.FEED else self._rows_of_files(spark, found)
        if rows is None:
            rows = self.read(spark, until).where("false").withColumn(WEIGHT, F.lit(1))
        return rows.select(*map(quote, columns), WEIGHT)

    def _fed_rows(self, spark: SparkSession, changes: CommitRange) -> DataFrame | None:
        if not changes.commits:
            return None
        feed = spark.read.format("delta").option("readChangeFeed", "true")
        rows = feed.option("startingVersion", changes.since + 1).option("endingVersion", changes.until).load(self.path)
        came = F.col("_change_type").isin("insert", "update_postimage")
        return rows.withColumn(WEIGHT, F.when(came, 1).otherwise(-1))

    def _rows_of_files(self, spark: SparkSession, changes: CommitRange) -> DataFrame | None:
        if not changes.net:
            return None
        came, went = tables_of(changes.net, self._new_scratch(), self.path, changes.layout)
        read = spark.read.format("delta").load
        return net_rows(map(read, came), map(read, went))

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
            guards.check_metrics(operation.rows.sparkSession)
            self._admit_naive_times(spark, operation.rows.schema, snapshot)
        with self._writing(spark):
            self._check_unmoved(required)
            if snapshot is None:
                self._create(operation.rows, record)
            else:
                self._write(operation, spark, record, snapshot)
        before, files = (-1, 0) if snapshot is None else (snapshot.version, snapshot.files)
        return _result(self._own_commit(record, before), before, files)

    def _admit_naive_times(self, spark: SparkSession, schema: StructType, snapshot: Snapshot | None) -> None:
        """The feature that Delta wants before a table that is there gets its first times without a zone."""
        if snapshot is None or "timestamp_ntz" not in schema.simpleString() or self.log.has_feature(guards.NAIVE_TIMES):
            return
        if snapshot.record is None:
            raise guards.keeps_its_features(self.path)
        self.set_properties(spark, {f"delta.feature.{guards.NAIVE_TIMES}": "supported"})

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
        self._prepare(spark, f"ALTER TABLE {self._name} SET TBLPROPERTIES ({pairs})")

    def cluster(self, spark: SparkSession, columns: Sequence[str]) -> None:
        layout = f"({', '.join(map(quote, columns))})" if columns else "NONE"
        self._prepare(spark, f"ALTER TABLE {self._name} CLUSTER BY {layout}")

    def compact(self, spark: SparkSession, target_size: int) -> tuple[int, int]:
        """Joins small files to such of about this many bytes; gives how many were joined, and to how many."""
        sizes = {f"spark.databricks.delta.optimize.{name}": str(target_size) for name in ("minFileSize", "maxFileSize")}
        done = with_retries(self.path, lambda _: self._prepare(spark, f"OPTIMIZE {self._name}", sizes))
        return int(done["metrics"]["numFilesRemoved"]), int(done["metrics"]["numFilesAdded"])

    def removable(self, spark: SparkSession, hours: float) -> list[str]:
        """The files that no version needs which was the last one within so many hours."""
        with statements(spark, _VACUUM) as session:
            return [str(row["path"]) for row in session.sql(f"{self._vacuum(hours)} DRY RUN").collect()]

    def vacuum(self, spark: SparkSession, hours: float) -> None:
        """Removes them. Whether the time is long enough, the caller has asked."""
        self._prepare(spark, self._vacuum(hours), _VACUUM)

    def _vacuum(self, hours: float) -> str:
        return f"VACUUM {self._name} RETAIN {hours:.6f} HOURS"

    def _prepare(self, spark: SparkSession, statement: str, settings: Mapping[str, str] | None = None) -> Any:
        """A commit of ours that changes no rows: the first row of what the statement reports."""
        with self._writing(spark), statements(spark, {_USER_METADATA: PREPARES, **(settings or {})}) as session:
            return session.sql(statement).first()

    def drop_columns(self, spark: SparkSession, columns: Sequence[str], snapshot: Snapshot) -> None:
        """The files stay as they are; that needs Delta's column mapping."""
        if not snapshot.maps_columns:
            self.set_properties(spark, {COLUMN_MAPPING: "name"})
        names = ", ".join(map(quote, columns))
        self._prepare(spark, f"ALTER TABLE {self._name} DROP COLUMNS ({names})")

    def commit_record(self, spark: SparkSession, record: Record, after: int) -> None:
        """An empty append that takes the record's sequence number."""
        nothing = self.read(spark).where("false").drop(*self.log.numbering())
        with self._writing(spark):
            _numbered(nothing.write, record).mode("append").save(self.path)
        self._own_commit(record, after)

    def check_files(self, spark: SparkSession, version: int) -> None:
        """An error where local files of an older version have gone; of others, `restore` finds it."""
        old = set(self.read(spark, version).inputFiles()) - set(self.read(spark).inputFiles())
        places = [local_path(file, escaped=True) for file in old]
        if any(place and not place.exists() for place in places):
            raise guards.files_gone(self.path, version)

    def restore(self, spark: SparkSession, version: int, record: Record) -> None:
        """It takes no sequence number."""
        settings = {_USER_METADATA: record.to_json()}
        with self._writing(spark), guards.lost_files(self.path, version), statements(spark, settings) as session:
            session.sql(f"RESTORE TABLE {self._name} TO VERSION AS OF {version}")

    def check_writer(self, spark: SparkSession) -> None:
        """An error where another writer could overwrite our commits, unless the user promises that there is none."""
        if not self.single_writer:
            guards.refuse_unguarded(spark, self.path)

    @contextmanager
    def _writing(self, spark: SparkSession) -> Iterator[None]:
        """The one way to a commit: one writer at a time, and who comes second has a `Conflict`."""
        self.check_writer(spark)
        with only_writer(self.path), guards.conflicts(), guards.room_for(self.log):
            yield

    @property
    def _name(self) -> str:
        return f"delta.{quote(self.path)}"

    def _create(self, rows: DataFrame, record: Record) -> None:
        writer = _numbered(rows.write, record).mode("errorifexists")
        for name, value in {**_ours(rows.sparkSession), **_mapping(rows.schema), **self._properties}.items():
            writer = writer.option(name, value)
        if self._partition_by:
            writer = writer.partitionBy(*self._partition_by)
        writer.save(self.path)

    @singledispatchmethod
    def _write(self, operation: Operation, spark: SparkSession, record: Record, snapshot: Snapshot) -> None:
        raise NotImplementedError(operation)

    @_write.register(AppendRows)
    def _(self, operation: AppendRows, spark: SparkSession, record: Record, snapshot: Snapshot) -> None:  # noqa: ARG002
        _numbered(operation.rows.write, record).mode("append").option("mergeSchema", "true").save(self.path)

    @_write.register(ReplaceRows)
    def _(self, operation: ReplaceRows, spark: SparkSession, record: Record, snapshot: Snapshot) -> None:  # noqa: ARG002
        writer = _overwriting(operation.rows, record).option("mergeSchema", "true")
        writer.option("replaceWhere", operation.predicate).save(self.path)

    @_write.register(OverwriteRows)
    def _(self, operation: OverwriteRows, spark: SparkSession, record: Record, snapshot: Snapshot) -> None:
        writer = _overwriting(operation.rows, record)
        partitions = snapshot.partition_columns if operation.partition_by is None else operation.partition_by
        is_as_held = _columns(operation.rows.schema) == _columns(self.schema(spark))
        if not is_as_held or partitions != snapshot.partition_columns:
            writer = writer.option("overwriteSchema", "true")
            writer = writer.partitionBy(*partitions) if partitions else writer  # by none would end a clustering too
        writer.save(self.path)

    @_write.register(RewriteRows)
    def _(self, operation: RewriteRows, spark: SparkSession, record: Record, snapshot: Snapshot) -> None:  # noqa: ARG002
        table = small_table(self.path, snapshot, operation.ranges)
        if table is None:
            raise NotImplementedError(operation)
        table.write(operation.rows, record)

    @_write.register(UpsertRows)
    def _(self, operation: UpsertRows, spark: SparkSession, record: Record, snapshot: Snapshot) -> None:
        counts = guards.is_on(operation.rows.sparkSession, _STATISTICS)  # by these Delta counts replaced rows
        # A MERGE keeps what a replacement loses: an update as one, and a row's identity.
        replaces = operation.picked and not snapshot.updates_matter
        if replaces and operation.spreads and not snapshot.marks_rows and not snapshot.fills:
            self._rewrite(operation, record)
        elif replaces and counts and version_of(spark, DELTA.spark) >= _REPLACES_ON:
            self._replace(operation, record)
        else:
            self._merge(operation.rows, record, lambda coming: merge_statement(self._name, coming, operation))

    def _replace(self, operation: UpsertRows, record: Record) -> None:
        """The rows of the same keys leave their files, and the new ones are written beside them, in one commit.

        A MERGE would read the keys of the target three times, and shuffle what it rewrites where rows are new.
        """
        settled = {"spark.databricks.delta.insertReplaceOnOrUsing.materializeSource": "none"}  # the change is
        with statements(operation.rows.sparkSession, settled) as session, shared_view(operation.rows) as coming:
            writer = _numbered(session.table(coming).alias(COMING).write, record).mode("overwrite")
            writer.option("mergeSchema", "true").option("targetAlias", HELD)
            writer.option("replaceOn", operation.match).save(self.path)

    def _rewrite(self, operation: UpsertRows, record: Record) -> None:
        """All rows that stay are written beside the new ones: every file holds one that goes, so none could be kept.

        That spares the look for the files which hold such rows.
        """
        held = self.read(operation.rows.sparkSession).alias(HELD)
        stays = held.join(operation.rows, F.expr(operation.match), "left_anti")
        rows = stays.unionByName(operation.rows, allowMissingColumns=True)
        _overwriting(rows, record).option("mergeSchema", "true").save(self.path)

    @_write.register(ReplaceByKey)
    def _(self, operation: ReplaceByKey, spark: SparkSession, record: Record, snapshot: Snapshot) -> None:
        if operation.gone is None:
            self._write(AppendRows(operation.rows), spark, record, snapshot)
            return
        gone = operation.gone.withColumn(_GOES, F.lit(True))  # noqa: FBT003
        here = operation.rows.withColumn(_GOES, F.lit(False))  # noqa: FBT003
        both = gone.unionByName(here, allowMissingColumns=True)
        self._merge(both, record, lambda coming: replacing_statement(self._name, coming, operation))

    def _merge(self, rows: DataFrame, record: Record, statement: Callable[[str], str]) -> None:
        """A MERGE as SQL, in a session of our own: its settings, which make the commit ours, touch nobody else's."""
        numbered = {
            "spark.databricks.delta.write.txnAppId": APP_ID,
            "spark.databricks.delta.write.txnVersion": str(record.sequence),
            _USER_METADATA: record.to_json(),
            "spark.databricks.delta.merge.materializeSource": "none",  # the change is settled already
            "spark.sql.readSideCharPadding": "false",  # Delta cannot resolve what that puts between; we pad ourselves
        }
        with statements(rows.sparkSession, numbered) as session, shared_view(rows) as coming:
            session.sql(statement(coming))

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


def _numbered(writer: DataFrameWriter, record: Record) -> DataFrameWriter:
    return (
        writer.format("delta")
        .option("txnAppId", APP_ID)
        .option("txnVersion", str(record.sequence))
        .option("userMetadata", record.to_json())
    )


def _overwriting(rows: DataFrame, record: Record) -> DataFrameWriter:
    """Replaces what the write says, also where the session would replace only partitions that have new rows."""
    return _numbered(rows.write, record).mode("overwrite").option("partitionOverwriteMode", "static")


def merge_statement(table: str, coming: str, operation: UpsertRows) -> str:
    """The MERGE of an upsert into a table, of rows that have a name."""
    names, values = [quote(name) for name in operation.columns], [of(COMING, name) for name in operation.columns]
    pairs = ", ".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))
    lines = [
        f"MERGE WITH SCHEMA EVOLUTION INTO {table} AS {HELD} USING {coming} AS {COMING} ON {operation.match}",
        f"WHEN MATCHED AND ({operation.changed}) THEN UPDATE SET {pairs}",
    ]
    if operation.inserts:
        lines.append(f"WHEN NOT MATCHED THEN INSERT ({', '.join(names)}) VALUES ({', '.join(values)})")
    if operation.delete_missing:
        lines.append("WHEN NOT MATCHED BY SOURCE THEN DELETE")
    return "\n".join(lines)


def replacing_statement(table: str, coming: str, operation: ReplaceByKey) -> str:
    """The MERGE of rows that replace others by key: what goes meets the table's rows, and what comes meets none."""
    names = [quote(name) for name in operation.rows.columns]
    values = ", ".join(f"{COMING}.{name}" for name in names)
    goes = of(COMING, _GOES)
    lines = [
        f"MERGE WITH SCHEMA EVOLUTION INTO {table} AS {HELD} USING {coming} AS {COMING}",
        f"ON {goes} AND {operation.match}",
        "WHEN MATCHED THEN DELETE",
        f"WHEN NOT MATCHED AND NOT {goes} THEN INSERT ({', '.join(names)}) VALUES ({values})",
    ]
    return "\n".join(lines)


def _result(commit: Commit, before: int, files_before: int) -> CommitResult:
    removed = files_removed(commit.metrics)
    return CommitResult(
        version=commit.version,
        alone=commit.version == before + 1,
        counts=counts_of(commit),
        files_rewritten=removed,
        files_kept=max(files_before - removed, 0),
    )


def _ours(spark: SparkSession) -> dict[str, str]:
    """What a new table has, but for what the session says that new tables have."""
    wanted = spark.conf.get(_MARKS_BY_DEFAULT, None)
    return _OURS if wanted is None else {**_OURS, "delta.enableDeletionVectors": wanted}


def _mapping(schema: StructType) -> dict[str, str]:
    """Delta's column mapping, where a name holds what Parquet cannot."""
    return {COLUMN_MAPPING: "name"} if any(map(needs_mapping, field_names(schema.jsonValue()))) else {}


def _columns(schema: StructType) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]
