"""Rows that are computed at once and kept: for sources that cannot be asked twice, or whose files go away."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def kept(rows: DataFrame) -> DataFrame:
    """The same rows, on disk beside the executors until nobody refers to the frame any more."""
    from pyspark import StorageLevel  # noqa: PLC0415  slow to import

    return rows.localCheckpoint(eager=True, storageLevel=StorageLevel.DISK_ONLY)
