"""Frames that are computed once, and the classes of Spark's errors. Importing this imports PySpark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.errors import PySparkException

from tidemill.errors import EngineError
from tidemill.spark.settings import CHECKPOINTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

try:
    from py4j.protocol import Py4JError
except ImportError:  # a client of Spark Connect alone has no JVM to talk to
    SPARK_FAILURES: tuple[type[Exception], ...] = (PySparkException,)
else:
    SPARK_FAILURES = (PySparkException, Py4JError)


def settle(rows: DataFrame) -> DataFrame:
    """Computes the rows and keeps them on disk beside the executors, so that memory does not grow with them.

    A cluster that loses executors keeps each twice, where its setting says so.
    """
    return rows.localCheckpoint(eager=True, storageLevel=_level(rows.sparkSession.conf.get(CHECKPOINTS, None)))


def _level(name: str | None) -> StorageLevel:
    found = getattr(StorageLevel, (name or "DISK_ONLY").upper(), None)
    if not isinstance(found, StorageLevel):
        raise EngineError(
            "engine.storage_level",
            f"{CHECKPOINTS} is {name}, which is no storage level of Spark's.",
            "Leave it out, or use DISK_ONLY, DISK_ONLY_2 or DISK_ONLY_3.",
        )
    return found
