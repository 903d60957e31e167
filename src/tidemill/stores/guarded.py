"""Whether Delta's log is safe from two writers at once, which is up to the store that holds it.

On S3 Delta's default LogStore looks whether a log entry is there and then writes it, in one process only: of two
drivers that commit at once the second overwrites the entry of the first, and both report success.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.engine.session import started_with
from tidemill.errors import TableError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_S3 = ("s3", "s3a", "s3n")
_DELTAS_OWN = ("io.delta.storage.", "org.apache.spark.sql.delta.storage.")
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
