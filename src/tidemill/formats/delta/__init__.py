"""Delta tables: what they can do, what Spark needs for them, and what the metrics of their commits say of rows, by
Spark's names and by those of delta-rs. `format.py` is the way in to how.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tidemill.formats.traits import Capability, FormatTraits, Jar, SparkSupport

if TYPE_CHECKING:
    from collections.abc import Mapping

_ON_SPARK = SparkSupport(
    title="Delta",
    package="delta-spark",
    jars=(
        Jar(
            "io.delta",
            "delta-spark_4.1_2.13",
            "4.4.0",
            "75a9400986853c061f5109f012547de2545a5759e5e752e5ef633dabe16a4f10",
        ),
        Jar(
            "io.delta",
            "delta-storage",
            "4.4.0",
            "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
        ),
    ),
    settings={
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    local={
        "spark.databricks.delta.snapshotPartitions": "1",  # the default of 50 makes a small read take seconds
        # Delta keeps what it knows of 10,000 tables, some 3 MB each: in a process that lives long, memory fills up.
        "spark.databricks.delta.delta.log.cacheSize": "30",
        # Guards a commit as the default does on local disks, and starts no `readlink` process for every file.
        "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
    },
    statement_settings={"spark.databricks.delta.history.metricsEnabled": "true"},  # commits count their rows
    carried=("spark.databricks.delta.", "spark.databricks.io."),
    not_carried=("spark.databricks.delta.commitInfo.", "spark.databricks.delta.write.txn"),  # those of one commit
    version_query="SELECT try_reflect('io.delta.package', 'VERSION')",
    training="tidemill.formats.delta.training",
    conflicts=frozenset(
        {
            "ConcurrentAppendException",
            "ConcurrentDeleteDeleteException",
            "ConcurrentDeleteReadException",
            "ConcurrentTransactionException",
            "ConcurrentWriteException",
            "DeltaConcurrentModificationException",
            "MetadataChangedException",
            "ProtocolChangedException",
        }
    ),
    conflict_conditions=("DELTA_CONCURRENT_", "DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED"),
    refusals=(
        "DELTA_VIOLATE_CONSTRAINT",
        "DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
        "DELTA_EXCEED_CHAR_VARCHAR_LIMIT",
        "DELTA_CANNOT_MODIFY_APPEND_ONLY",
        "DELTA_UNSUPPORTED_DATA_TYPES",
    ),
    lost_files=("Not all files from version",),  # Delta has no condition for it
    reader_options=(
        *("versionAsOf", "timestampAsOf", "readChangeFeed"),
        *("startingVersion", "startingTimestamp", "endingVersion", "endingTimestamp"),
    ),
)

DELTA = FormatTraits(
    "delta",
    "Delta table",
    frozenset(
        {
            Capability.TIME_TRAVEL,
            Capability.ROW_CHANGES,
            Capability.CLUSTERING,
            Capability.ANCHORS,
            Capability.SMALL_TABLES,
            Capability.READ_BY_PATH,
        }
    ),
    spark=_ON_SPARK,
    protocol=("delta.feature.", "delta.minreaderversion", "delta.minwriterversion"),
    for_others=(("delta.enableDeletionVectors", "false"),),  # which some readers do not know
)

COLUMN_MAPPING = "delta.columnMapping.mode"  # the table property under which `needs_mapping` names may be used
_NOT_IN_FILES = frozenset(" ,;{}()\n\t=")


def needs_mapping(name: str) -> bool:
    """Whether Parquet cannot hold a column of this name, so that Delta must call it by another."""
    return bool(_NOT_IN_FILES & set(name))


_METRICS = {
    "MERGE": {
        "inserted": "numTargetRowsInserted",
        "updated": "numTargetRowsUpdated",
        "deleted": "numTargetRowsDeleted",
    },
    "DELETE": {"deleted": "numDeletedRows"},
    "UPDATE": {"updated": "numUpdatedRows"},
}
_WRITES = {
    "WRITE",
    "CREATE TABLE AS SELECT",
    "REPLACE TABLE AS SELECT",
    "CREATE OR REPLACE TABLE AS SELECT",
    "STREAMING UPDATE",
}
_CAPITAL = re.compile("([A-Z])")


def rows_seen(operation: str, metrics: Mapping[str, str], *, keyed: bool) -> dict[str, int]:
    """What a commit did to rows; of a write by keys, a row that came for one that left has changed."""
    if operation not in _WRITES:
        return {count: _metric(metrics, metric) for count, metric in _METRICS.get(operation, {}).items()}
    came, gone = _written(metrics)
    return {"inserted": came - gone, "updated": gone} if keyed else {"inserted": came, "deleted": gone}


def rows_counted(operation: str, metrics: Mapping[str, str]) -> tuple[int, int] | None:
    """How many rows came and went, an updated one as both; None where the metrics do not count them all."""
    names = _METRICS.get(operation)
    if names is None or any(_found(metrics, name) is None for name in names.values()):
        return None
    seen = rows_seen(operation, metrics, keyed=False)
    updated = seen.get("updated", 0)
    return seen.get("inserted", 0) + updated, seen.get("deleted", 0) + updated


def files_removed(metrics: Mapping[str, str]) -> int:
    names = ("numTargetFilesRemoved", "numRemovedFiles", "num_removed_files")  # the last is delta-rs's
    return next((int(metrics[name]) for name in names if name in metrics), 0)


def _written(metrics: Mapping[str, str]) -> tuple[int, int]:
    """Rows that came and rows that left. Delta counts those that stay, in a file with marked ones, as copies."""
    came = _metric(metrics, "numOutputRows") - _metric(metrics, "numCopiedRows")
    return came or _metric(metrics, "numAddedRows"), _metric(metrics, "numDeletedRows")


def _metric(metrics: Mapping[str, str], name: str) -> int:
    return int(_found(metrics, name) or 0)


def _found(metrics: Mapping[str, str], name: str) -> str | None:
    """A metric by Spark's name for it, or by that of delta-rs, which writes num_deleted_rows."""
    return metrics.get(name) or metrics.get(_CAPITAL.sub(r"_\1", name).lower())
