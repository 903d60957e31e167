"""The zone of a session: where Spark lets a day begin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.declare.zones import SESSION_ZONE, zone_named

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import SparkSession


def in_zone_of(spark: SparkSession, moment: datetime) -> datetime:
    """The same moment by the session's clock."""
    return moment.astimezone(zone_named(spark.conf.get(SESSION_ZONE) or "UTC"))
