"""Datasets by name in a session's catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.formats.parquet.log import DatasetLog
from tidemill.model.names import quote, quoted_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register_dataset(spark: SparkSession, name: str, path: str) -> None:
    """Gives a name, quoted already, to the dataset at a path, unless it has it."""
    from tidemill.formats.parquet.reading import watch  # noqa: PLC0415  imports PySpark
    from tidemill.formats.parquet.store import ParquetStore  # noqa: PLC0415

    watch(path)
    store = ParquetStore(path)
    snapshot = store.snapshot()
    assert snapshot is not None  # noqa: S101  only what is there is registered
    columns = ", ".join(f"{quote(item.name)} {item.dataType.simpleString()}" for item in store.schema(spark).fields)
    by = ", ".join(map(quote, snapshot.partition_columns))
    parts = f" PARTITIONED BY ({by})" if by else ""
    spark.sql(f"CREATE TABLE IF NOT EXISTS {name} ({columns}) USING parquet{parts} LOCATION {quoted_text(path)}")
    refresh_dataset(spark, name, path)


def refresh_dataset(spark: SparkSession, name: str, path: str) -> None:
    """The name stands for the files that are there now; an interrupted commit is finished first."""
    state = DatasetLog(path).state()
    if state.entry is not None and state.entry.partition_by:
        spark.sql(f"ALTER TABLE {name} RECOVER PARTITIONS")
    spark.catalog.refreshTable(name)
