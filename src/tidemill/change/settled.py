"""Rows that are computed once: all later reads see the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark import StorageLevel

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def settle(rows: DataFrame) -> DataFrame:
    """Computes the rows and keeps them on disk beside the executors, so that memory does not grow with them."""
    return rows.localCheckpoint(eager=True, storageLevel=StorageLevel.DISK_ONLY)
