"""Frames that a caller holds as a source: Spark, Arrow or pandas."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeGuard

import pyarrow as pa

from tidemill.errors import ArgumentError
from tidemill.sources.narrow import picked

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from tidemill.declare.cursors import Cursor
    from tidemill.sources.protocol import Reading


@dataclass(frozen=True)
class FrameSource:
    """A frame, or something that is not one, which is an error."""

    frame: DataFrame | pa.Table | pd.DataFrame
    settled: bool = False
    _made: list[DataFrame] = field(default_factory=list, repr=False, compare=False)

    def __str__(self) -> str:
        return "the given frame"

    def schema(self, reading: Reading) -> StructType:
        return self.read(reading).schema

    def read(self, reading: Reading, columns: Sequence[str] = ()) -> DataFrame:
        return picked(self._frame(reading.spark), columns, self)

    def read_since(self, reading: Reading, column: str, value: Cursor, columns: Sequence[str] = ()) -> DataFrame:
        del column, value  # the caller's own filter does as well
        return self.read(reading, columns)

    def version(self) -> str | None:
        """A frame does not tell whether what it reads has changed."""
        return None

    def _frame(self, spark: SparkSession) -> DataFrame:
        if is_spark_frame(self.frame):
            return self.frame
        if not self._made or self._made[0].sparkSession is not spark:
            self._made[:] = [spark.createDataFrame(self._arrow())]
        return self._made[0]

    def _arrow(self) -> pa.Table:
        table = as_arrow(self.frame)
        if table is None:
            raise ArgumentError(
                "source.unknown_kind",
                f"A {type(self.frame).__name__} cannot be merged.",
                "Give a Spark DataFrame, a pyarrow Table, a pandas DataFrame, or a path.",
            )
        return table


def is_spark_frame(frame: object) -> TypeGuard[DataFrame]:
    from pyspark.sql import DataFrame  # noqa: PLC0415  slow to import

    return isinstance(frame, DataFrame)


def as_arrow(frame: object) -> pa.Table | None:
    """An Arrow or pandas frame as an Arrow table; None when it is neither."""
    import pandas as pd  # noqa: PLC0415  slow to import

    match frame:
        case pa.Table():
            return frame
        case pa.RecordBatch():
            return pa.Table.from_batches([frame])
        case pd.DataFrame():
            return pa.Table.from_pandas(frame, preserve_index=False)
        case _:
            return None
