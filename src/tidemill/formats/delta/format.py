"""Delta tables as a table format. Nothing here imports Spark before a store is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.formats.port import TableFormat
from tidemill.model.format import DELTA
from tidemill.model.names import quoted_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from tidemill.formats.base import Compacted, OnSpark, Vacuumed, VacuumRequest
    from tidemill.formats.delta.log import DeltaLog
    from tidemill.formats.delta.store import DeltaStore


class DeltaFormat(TableFormat):
    """Tables with Delta's log beside their files."""

    traits = DELTA

    def is_at(self, path: str) -> bool:
        return "://" in path or (Path(path) / "_delta_log").is_dir()

    def log(self, path: str) -> DeltaLog:
        from tidemill.formats.delta.log import DeltaLog  # noqa: PLC0415  slow to import

        return DeltaLog(path)

    def store(
        self,
        path: str,
        *,
        properties: Mapping[str, str] | None = None,
        partition_by: Sequence[str] = (),
        single_writer: bool = False,
    ) -> DeltaStore:
        from tidemill.formats.delta.store import DeltaStore  # noqa: PLC0415  it imports PySpark

        return DeltaStore(path, properties=properties, partition_by=partition_by, single_writer=single_writer)

    def some_rows(self, path: str, limit: int) -> pa.Table | None:
        from tidemill.formats.delta.log import some_rows  # noqa: PLC0415  slow to import

        return some_rows(path, limit)

    def register(self, spark: SparkSession, name: str, path: str) -> None:
        spark.sql(f"CREATE TABLE {name} USING delta LOCATION {quoted_text(path)}")

    def compact(self, path: str, target_size: int, on_spark: OnSpark, *, single_writer: bool = False) -> Compacted:
        from tidemill.formats.delta import upkeep  # noqa: PLC0415

        return upkeep.compact(path, target_size, on_spark, single_writer=single_writer)

    def vacuum(self, path: str, asked: VacuumRequest, on_spark: OnSpark, *, single_writer: bool = False) -> Vacuumed:
        from tidemill.formats.delta import upkeep  # noqa: PLC0415

        return upkeep.vacuum(path, asked, on_spark, single_writer=single_writer)
