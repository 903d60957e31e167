"""Frames that a caller holds as a source: Spark, Arrow or pandas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from tidemill.errors import ArgumentError

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class FrameSource:
    """A frame, or something that is not one, which is an error."""

    frame: DataFrame | pa.Table | pd.DataFrame
    settled: bool = False

    def __str__(self) -> str:
        return "the given frame"

    def rows(self, spark: SparkSession, like: StructType | None = None) -> DataFrame:  # noqa: ARG002  it has its types
        from pyspark.sql import DataFrame  # noqa: PLC0415  slow to import

        if isinstance(self.frame, DataFrame):
            return self.frame
        return spark.createDataFrame(self._arrow())

    def _arrow(self) -> pa.Table:
        import pandas as pd  # noqa: PLC0415  slow to import

        if isinstance(self.frame, pa.Table):
            return self.frame
        if isinstance(self.frame, pd.DataFrame):
            return pa.Table.from_pandas(self.frame, preserve_index=False)
        raise ArgumentError(
            "source.unknown_kind",
            f"A {type(self.frame).__name__} cannot be merged.",
            "Give a Spark DataFrame, a pyarrow Table, a pandas DataFrame, or a path.",
        )
