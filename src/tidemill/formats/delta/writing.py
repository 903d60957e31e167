"""How Delta writes an operation in one commit of ours, and what that needs: a log safe from two writers, metrics, no
files left by failures.

On S3 Delta's default LogStore looks whether a log entry is there and then writes it, in one process only: of two
drivers that commit at once the second overwrites the entry of the first, and both report success.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager, suppress
from functools import singledispatch
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pyspark.sql import functions as F

from tidemill.display import size_text
from tidemill.errors import ArgumentError, EngineError, SchemaError, TableError
from tidemill.formats.base import (
    COMING,
    HELD,
    AppendRows,
    Conflict,
    OverwriteRows,
    ReplaceByKey,
    ReplaceRows,
    RewriteRows,
    UpsertRows,
)
from tidemill.formats.delta import COLUMN_MAPPING, DELTA, needs_mapping
from tidemill.formats.delta.log import APP_ID
from tidemill.formats.delta.small import small_table
from tidemill.formats.filesystem import is_hidden
from tidemill.model import field_names, local_path, of, quote
from tidemill.spark import disk_full
from tidemill.spark.errors import has_lost_files, is_conflict, no_room, one_line
from tidemill.spark.session import shared_view, started_with, statements, version_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
    from pyspark.sql.types import StructType

    from tidemill.formats.base import Operation
    from tidemill.formats.delta.log import DeltaLog
    from tidemill.formats.delta.store import DeltaStore
    from tidemill.model.record import Record, Snapshot

_OURS = {"delta.isolationLevel": "Serializable", "delta.enableDeletionVectors": "true"}
# Readers that know no deletion vectors are why somebody would want new tables without: in all ways in, by a session.
_MARKS_BY_DEFAULT = "spark.databricks.delta.properties.defaults.enableDeletionVectors"
# Delta can replace rows by their keys in one commit from here on. An older one does not know the option and would
# overwrite the whole table.
_REPLACES_ON = (4, 4)
_STATISTICS = "spark.databricks.delta.stats.collect"
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_GOES = "__tidemill_goes"


def create(store: DeltaStore, rows: DataFrame, record: Record) -> None:
    """The table with these rows."""
    writer = numbered(rows.write, record).mode("errorifexists")
    for name, value in {**_ours(rows.sparkSession), **_mapping(rows.schema), **store.properties}.items():
        writer = writer.option(name, value)
    if store.partition_by:
        writer = writer.partitionBy(*store.partition_by)
    writer.save(store.path)


@singledispatch
def write(operation: Operation, store: DeltaStore, spark: SparkSession, record: Record, snapshot: Snapshot) -> None:
    """The operation with its record, in one commit of a table that is there."""
    raise NotImplementedError(operation)


@write.register(AppendRows)
def _(operation: AppendRows, store: DeltaStore, spark: SparkSession, record: Record, snapshot: Snapshot) -> None:
    del spark, snapshot
    numbered(operation.rows.write, record).mode("append").option("mergeSchema", "true").save(store.path)


@write.register(ReplaceRows)
def _(operation: ReplaceRows, store: DeltaStore, spark: SparkSession, record: Record, snapshot: Snapshot) -> None:
    del spark, snapshot
    writer = _overwriting(operation.rows, record).option("mergeSchema", "true")
    writer.option("replaceWhere", operation.predicate).save(store.path)


@write.register(OverwriteRows)
def _(operation: OverwriteRows, store: DeltaStore, spark: SparkSession, record: Record, snapshot: Snapshot) -> None:
    writer = _overwriting(operation.rows, record)
    partitions = snapshot.partition_columns if operation.partition_by is None else operation.partition_by
    is_as_held = _columns(operation.rows.schema) == _columns(store.schema(spark))
    if not is_as_held or partitions != snapshot.partition_columns:
        writer = writer.option("overwriteSchema", "true")
        writer = writer.partitionBy(*partitions) if partitions else writer  # by none would end a clustering too
    writer.save(store.path)


@write.register(RewriteRows)
def _(operation: RewriteRows, store: DeltaStore, spark: SparkSession, record: Record, snapshot: Snapshot) -> None:
    del spark
    table = small_table(store.path, snapshot, operation.ranges)
    if table is None:
        raise NotImplementedError(operation)
    table.write(operation.rows, record)


@write.register(UpsertRows)
def _(operation: UpsertRows, store: DeltaStore, spark: SparkSession, record: Record, snapshot: Snapshot) -> None:
    # A MERGE keeps what a replacement loses: an update as one, and a row's identity.
    replaces = operation.picked and not snapshot.updates_matter
    if replaces and operation.spreads and not snapshot.marks_rows and not snapshot.fills:
        _rewrite(store, operation, record)
    elif replaces and _can_replace(operation.rows, spark):
        _replace(store, operation, record)
    else:
        _merge(operation.rows, record, lambda coming: merge_statement(store.name, coming, operation))


def _can_replace(rows: DataFrame, spark: SparkSession) -> bool:
    counts = is_on(rows.sparkSession, _STATISTICS)  # by these Delta counts replaced rows
    return counts and version_of(spark, DELTA.spark) >= _REPLACES_ON


def _replace(store: DeltaStore, operation: UpsertRows | ReplaceByKey, record: Record) -> None:
    """The rows of the same keys leave their files, and the new ones are written beside them, in one commit.

    A MERGE would read the keys of the target three times, and shuffle what it rewrites where rows are new.
    """
    settled = {"spark.databricks.delta.insertReplaceOnOrUsing.materializeSource": "none"}  # the change is
    with statements(operation.rows.sparkSession, settled) as session, shared_view(operation.rows) as coming:
        writer = numbered(session.table(coming).alias(COMING).write, record).mode("overwrite")
        writer.option("mergeSchema", "true").option("targetAlias", HELD)
        writer.option("replaceOn", operation.match).save(store.path)


def _rewrite(store: DeltaStore, operation: UpsertRows, record: Record) -> None:
    """All rows that stay are written beside the new ones: every file holds one that goes, so none could be kept.

    That spares the look for the files which hold such rows.
    """
    held = store.read(operation.rows.sparkSession).alias(HELD)
    stays = held.join(operation.rows, F.expr(operation.match), "left_anti")
    rows = stays.unionByName(operation.rows, allowMissingColumns=True)
    _overwriting(rows, record).option("mergeSchema", "true").save(store.path)


@write.register(ReplaceByKey)
def _(operation: ReplaceByKey, store: DeltaStore, spark: SparkSession, record: Record, snapshot: Snapshot) -> None:
    if operation.gone is None:
        write(AppendRows(operation.rows), store, spark, record, snapshot)
        return
    if operation.covered and _can_replace(operation.rows, spark):
        _replace(store, operation, record)
        return
    gone = operation.gone.withColumn(_GOES, F.lit(True))  # noqa: FBT003
    here = operation.rows.withColumn(_GOES, F.lit(False))  # noqa: FBT003
    both = gone.unionByName(here, allowMissingColumns=True)
    _merge(both, record, lambda coming: replacing_statement(store.name, coming, operation))


def _merge(rows: DataFrame, record: Record, statement: Callable[[str], str]) -> None:
    """A MERGE as SQL, in a session of our own: its settings, which make the commit ours, touch nobody else's."""
    settings = {
        "spark.databricks.delta.write.txnAppId": APP_ID,
        "spark.databricks.delta.write.txnVersion": str(record.sequence),
        USER_METADATA: record.to_json(),
        "spark.databricks.delta.merge.materializeSource": "none",  # the change is settled already
        "spark.sql.readSideCharPadding": "false",  # Delta cannot resolve what that puts between; we pad ourselves
    }
    with statements(rows.sparkSession, settings) as session, shared_view(rows) as coming:
        session.sql(statement(coming))


def numbered(writer: DataFrameWriter, record: Record) -> DataFrameWriter:
    return (
        writer.format("delta")
        .option("txnAppId", APP_ID)
        .option("txnVersion", str(record.sequence))
        .option("userMetadata", record.to_json())
    )


def _overwriting(rows: DataFrame, record: Record) -> DataFrameWriter:
    """Replaces what the write says, also where the session would replace only partitions that have new rows."""
    return numbered(rows.write, record).mode("overwrite").option("partitionOverwriteMode", "static")


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


def _ours(spark: SparkSession) -> dict[str, str]:
    """What a new table has, but for what the session says that new tables have."""
    wanted = spark.conf.get(_MARKS_BY_DEFAULT, None)
    return _OURS if wanted is None else {**_OURS, "delta.enableDeletionVectors": wanted}


def _mapping(schema: StructType) -> dict[str, str]:
    """Delta's column mapping, where a name holds what Parquet cannot."""
    return {COLUMN_MAPPING: "name"} if any(map(needs_mapping, field_names(schema.jsonValue()))) else {}


def _columns(schema: StructType) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]


_S3 = ("s3", "s3a", "s3n")
_DELTAS_OWN = ("io.delta.storage.", "org.apache.spark.sql.delta.storage.")
NAIVE_TIMES = "timestampNtz"
_METRICS = "spark.databricks.delta.history.metricsEnabled"
_SAFE = "io.delta.storage.S3DynamoDBLogStore"


def refuse_unguarded(spark: SparkSession, path: str) -> None:
    """An error where commits of two writers could overwrite each other; nothing is read or written for it."""
    scheme, separator, _ = path.partition("://")
    if not separator or scheme.lower() not in _S3 or _is_safe(_log_store(spark, scheme.lower())):
        return
    raise TableError(
        "table.unguarded",
        f"{path} may not be written to: on S3, Delta's default LogStore lets two writers overwrite each other's "
        "commits, and both report success.",
        f"Start Spark with a LogStore that prevents it (spark.delta.logStore.{scheme}.impl = {_SAFE} in [spark.conf]). "
        "Where no other process ever writes to the table, say so: single_writer = true under [warehouse], "
        "--single-writer, or single_writer=True in Python. Nothing was written.",
    )


def _log_store(spark: SparkSession, scheme: str) -> str | None:
    return started_with(spark, f"spark.delta.logStore.{scheme}.impl") or started_with(
        spark, "spark.delta.logStore.class"
    )


def _is_safe(log_store: str | None) -> bool:
    """Of Delta's own classes one is; what another class does, its owner knows."""
    return log_store is not None and (log_store == _SAFE or not log_store.startswith(_DELTAS_OWN))


_TICK = 1.0  # seconds by which the clock of a file system may lag


@contextmanager
def room_for(log: DeltaLog) -> Iterator[None]:
    """A full disk is reported as one, with what the write in the block has left."""
    began = time.time()
    try:
        yield
    except Exception as failure:
        if full := no_room(failure):
            after = f"The table is as it was. {_cleared(log, began)}".rstrip()
            raise disk_full(f"Writing to {log.path}", full, log.path, after) from failure
        raise


def _cleared(log: DeltaLog, since: float) -> str:
    """What there is to say of the files that a write which began at `since` has left.

    Where there is no table yet, nobody else can have written them, and they are removed. In a table they may be those
    of another program that is still at work, so they are named, and `tidemill vacuum` removes them later.
    """
    folder = local_path(log.path)
    vacuum = f"tidemill vacuum {log.path} removes such files once they are old enough"
    if folder is None:
        return f"The write may have left files that no commit refers to: {vacuum}."
    if not any((folder / "_delta_log").glob("*.json")):
        for file in list(_written(folder, since)):
            file.unlink(missing_ok=True)
        return ""
    held = {unquote(file) for file in log.files()}
    lost = {file: size for file, size in _written(folder, since).items() if str(file.relative_to(folder)) not in held}
    count = sum(not is_hidden(file.name) for file in lost)
    if not count:
        return ""
    files = "1 file" if count == 1 else f"{count:,} files"
    return f"The write left {files} ({size_text(sum(lost.values()))}) that no commit refers to: {vacuum}."


def _written(folder: Path, since: float) -> dict[Path, int]:
    """Data files, and their checksums, that came after a moment, with their sizes; tasks that end may remove some."""
    found: dict[Path, int] = {}
    for inside, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not is_hidden(name)]
        for file in (Path(inside, name) for name in names if ".parquet" in name):
            with suppress(FileNotFoundError):
                seen = file.stat()
                found |= {file: seen.st_size} if seen.st_ctime >= since - _TICK else {}
    return found


@contextmanager
def conflicts() -> Iterator[None]:
    try:
        yield
    except Exception as failure:
        if is_conflict(failure):
            raise Conflict(one_line(failure)) from failure
        raise


@contextmanager
def lost_files(path: str, version: int) -> Iterator[None]:
    try:
        yield
    except Exception as failure:
        if has_lost_files(failure):
            raise files_gone(path, version) from failure
        raise


def files_gone(path: str, version: int) -> ArgumentError:
    return ArgumentError(
        "restore.files_gone",
        f"{path} cannot go back to version {version}: a vacuum has removed files of it.",
        "Choose a later version, or a backup. Its rows are as they were.",
    )


def keeps_its_features(path: str) -> SchemaError:
    return SchemaError(
        "schema.cannot_add",
        f"{path} was made elsewhere, and a column of times without a zone (TIMESTAMP_NTZ) would change its protocol.",
        f"Run ALTER TABLE … SET TBLPROPERTIES ('delta.feature.{NAIVE_TIMES}' = 'supported') if all its readers know "
        "that type, or give the times a zone. The table is unchanged.",
    )


def check_metrics(spark: SparkSession) -> None:
    if not is_on(spark, _METRICS):
        raise EngineError(
            "engine.no_metrics",
            f"The Spark session has {_METRICS} = false, and rows are counted by Delta's metrics of its commits.",
            "Leave the setting out, or set it to true. Nothing was written.",
        )


def is_on(spark: SparkSession, name: str) -> bool:
    return str(spark.conf.get(name, "true")).lower() == "true"
