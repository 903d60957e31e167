"""Drivers of databases for a Spark that runs already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.declare.names import quoted_text
from tidemill.engine.jars import ensure_jars, jar_paths
from tidemill.engine.session import is_embedded, was_started_with

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemill.engine.jars import Jar


def ensure_driver(spark: SparkSession, jar: Jar) -> None:
    """Fetches a driver at its first use, and adds it to the embedded engine if that was started without it.

    A session that is not ours is not changed: it has the driver, or its error says what is missing.
    """
    if not is_embedded():
        return
    path = jar_paths([jar])[0]
    if not was_started_with(path):
        ensure_jars([jar])
        spark.sql(f"ADD JAR {quoted_text(str(path))}")
