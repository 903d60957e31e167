"""Drivers of databases for a Spark that runs already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.engine.jars import ensure_jars
from tidemill.engine.session import is_embedded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemill.engine.jars import Jar


def ensure_driver(spark: SparkSession, jar: Jar) -> None:
    """Fetches a driver at its first use, and adds it to the embedded engine if that was started without it.

    A session that is not ours is not changed: it has the driver, or its error says what is missing.
    """
    if not is_embedded():
        return
    path = ensure_jars([jar])[0]
    spark.sql(f"ADD JAR '{path}'")
