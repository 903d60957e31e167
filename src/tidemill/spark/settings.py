"""Spark settings: those of the embedded engine, those that a step's session takes over, and its time zone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tidemill.formats import spark_support
from tidemill.formats.traits import LISTS
from tidemill.model.cursor import SESSION_ZONE, zone_named
from tidemill.model.project import LOCAL, is_local

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from pyspark.sql import SparkSession

_EVERYWHERE = {
    "spark.app.name": "tidemill",
    # With it every column that Python makes asks Java several times, to know in which line that was.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Groups that a task counts before it takes a slower way: twice the default hold the keys of a first load.
    "spark.sql.codegen.aggregate.fastHashMap.capacityBit": "17",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
# For small work: code that Spark generates costs a fifth of it and runs too briefly to be worth that, and what is
# planned again after every stage is planned for as few rows as before. For a step on its own, or for a whole engine.
SMALL = {"spark.sql.codegen.factoryMode": "NO_CODEGEN", "spark.sql.adaptive.enabled": "false"}
LARGE = {"spark.sql.codegen.factoryMode": "FALLBACK", "spark.sql.adaptive.enabled": "true"}
# Spark keeps for its web interface what ran, with every plan as a text, whether the interface is there or not.
_UNSEEN = {
    "spark.ui.enabled": "false",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "50",
    "spark.sql.ui.retainedExecutions": "5",
    "spark.sql.ui.explainMode": "simple",
}
_MOST_SHUFFLE_PARTITIONS = 8

# What decides which rows a query gives and how they are stored; table formats have more.
_CARRIED = (
    "spark.sql.adaptive.",
    "spark.sql.ansi.",
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.broadcastTimeout",
    "spark.sql.caseSensitive",
    "spark.sql.codegen.factoryMode",
    "spark.sql.codegen.wholeStage",
    "spark.sql.csv.",
    "spark.sql.decimalOperations.",
    "spark.sql.execution.arrow.",
    "spark.sql.files.",
    "spark.sql.json.",
    "spark.sql.legacy.",
    "spark.sql.mapKeyDedupPolicy",
    "spark.sql.orc.",
    "spark.sql.avro.",
    "spark.sql.session.",
    "spark.sql.shuffle.",
    "spark.sql.sources.",
    "spark.sql.storeAssignmentPolicy",
    "spark.sql.timestampType",
    "spark.sql.variable.",
    "spark.tidemill.",
    "spark.hadoop.",
    "fs.",
)
CHECKPOINTS = "spark.tidemill.checkpoint.storageLevel"  # where settled rows are kept; DISK_ONLY_2 survives an executor
_STATEMENTS = {
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
}


def statement_settings() -> dict[str, str]:
    """The settings under which our own statements run, whatever the session has that they are sent from.

    Texts are quoted in one way, no file that is missing or damaged is left out, and commits count their rows.
    """
    return {**_STATEMENTS, **spark_support().statement_settings}


def engine_settings(
    given: Mapping[str, str], folder: Path, jars: Sequence[Path], master: str = LOCAL, *, small: bool = False
) -> dict[str, str]:
    """All settings of an engine of ours: what the user gives wins, but lists have both, the user's and ours.

    `folder` takes what Spark would put into the current one. The driver of a cluster leaves to the cluster what is
    good for one machine only, and hands on the jars. `small` is for work on few rows.
    """
    master = given.get("spark.master", master)
    ours = {**_EVERYWHERE, **spark_support().settings, "spark.master": master}
    ours |= _one_machine(folder) if is_local(master) else {"spark.jars": ",".join(map(str, jars))}
    ours |= SMALL if small else {}
    ours |= _UNSEEN if is_local(master) and given.get("spark.ui.enabled") != "true" else {}
    return ours | dict(given) | {name: _joined(given[name], ours[name]) for name in LISTS & given.keys() & ours.keys()}


def _joined(theirs: str, ours: str) -> str:
    return ",".join(dict.fromkeys([*filter(None, map(str.strip, theirs.split(","))), *ours.split(",")]))


def _one_machine(folder: Path) -> dict[str, str]:
    partitions = min(_MOST_SHUFFLE_PARTITIONS, 2 * (os.cpu_count() or 1))
    return {
        **spark_support().local,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        # A step's small queries are hundreds of generated classes; by the default of 100 each step compiled them again.
        "spark.sql.codegen.cache.maxEntries": "2000",
        # Opening a local file costs little: by the default of 4 MiB a few small files outweigh a big one, and one of
        # two cores gets more of the big ones than the other.
        "spark.sql.files.openCostInBytes": "1048576",
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(partitions),
        # A local disk is listed sooner than a job for it is started.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
    }


def carried_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Those of a session's settings that a step's own session needs to give the same rows."""
    formats = spark_support()
    carried, left = (*_CARRIED, *formats.carried), formats.not_carried
    return {name: value for name, value in settings.items() if name.startswith(carried) and not name.startswith(left)}


def in_zone_of(spark: SparkSession, moment: datetime) -> datetime:
    """The same moment by the session's clock."""
    return moment.astimezone(zone_named(spark.conf.get(SESSION_ZONE) or "UTC"))
