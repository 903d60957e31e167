"""Spark settings: those of the embedded engine, and those that go from a caller's session to a step's own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}

_MOST_SHUFFLE_PARTITIONS = 8

# What decides which rows a query gives and how they are stored. Not carried: Delta's commit settings.
_CARRIED = (
    "spark.sql.adaptive.",
    "spark.sql.ansi.",
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.broadcastTimeout",
    "spark.sql.caseSensitive",
    "spark.sql.decimalOperations.",
    "spark.sql.execution.arrow.",
    "spark.sql.files.",
    "spark.sql.legacy.",
    "spark.sql.mapKeyDedupPolicy",
    "spark.sql.orc.",
    "spark.sql.parquet.",
    "spark.sql.avro.",
    "spark.sql.session.",
    "spark.sql.shuffle.",
    "spark.sql.sources.",
    "spark.sql.storeAssignmentPolicy",
    "spark.sql.timestampType",
    "spark.sql.variable.",
    "spark.databricks.delta.",
    "spark.databricks.io.",
    "spark.hadoop.",
    "fs.",
)
_NOT_CARRIED = (
    "spark.databricks.delta.commitInfo.",
    "spark.databricks.delta.write.txn",
)


def embedded_settings(folder: Path) -> dict[str, str]:
    """Settings for one machine and small work; `folder` takes what Spark would put into the current one."""
    partitions = min(_MOST_SHUFFLE_PARTITIONS, 2 * (os.cpu_count() or 1))
    return {
        **DELTA,
        "spark.app.name": "tidemill",
        "spark.master": "local[*]",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.catalogImplementation": "in-memory",
        # A step's small queries are some hundred generated classes; with the default of 100 each step compiled them anew.
        "spark.sql.codegen.cache.maxEntries": "2000",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Opening a local file costs little: by the default of 4 MiB a few small files outweigh a big one, and one of
        # two cores gets more of the big ones than the other.
        "spark.sql.files.openCostInBytes": "1048576",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(partitions),
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
        "spark.databricks.delta.snapshotPartitions": "1",  # the default of 50 makes a small read take seconds
        # Guards a commit as the default does on local disks, and starts no `readlink` process for every file.
        "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
    }


def carried_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Those of a session's settings that a step's own session needs to give the same rows."""
    return {
        name: value
        for name, value in settings.items()
        if name.startswith(_CARRIED) and not name.startswith(_NOT_CARRIED)
    }
