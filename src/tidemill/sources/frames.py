"""Frames that a caller holds as a source: Spark, Arrow or pandas."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, TypeGuard

import pyarrow as pa

from tidemill.errors import ArgumentError
from tidemill.sources.narrow import picked

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidemill.declare.cursors import Cursor
    from tidemill.sources.protocol import Reading


_MOST_DIGITS = 38  # of a decimal
_ALIKE = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
    pa.json_(): pa.string(),
    pa.json_(pa.large_string()): pa.large_string(),
}


@dataclass(frozen=True)
class FrameSource:
    """A frame, or something that is not one, which is an error.

    Times without a zone in Arrow and pandas frames are as the table has them. Where that does not tell, they are
    moments in the session's zone, as Spark takes them, unless `keeps_naive`.
    """

    frame: DataFrame | pa.Table | pd.DataFrame
    settled: bool = False
    keeps_naive: bool = False
    _made: list[DataFrame] = field(default_factory=list, repr=False, compare=False)

    def __str__(self) -> str:
        return "the given frame"

    def schema(self, reading: Reading) -> StructType:
        return self.read(reading).schema

    def read(self, reading: Reading, columns: Sequence[str] = ()) -> DataFrame:
        return picked(self._frame(reading), columns, self)

    def read_since(self, reading: Reading, column: str, value: Cursor, columns: Sequence[str] = ()) -> DataFrame:
        del column, value  # the caller's own filter does as well
        return self.read(reading, columns)

    def version(self) -> str | None:
        """A frame does not tell whether what it reads has changed."""
        return None

    def _frame(self, reading: Reading) -> DataFrame:
        if is_spark_frame(self.frame):
            return self.frame
        arrow = self._arrow()
        types, made = _types(arrow.schema, reading.like, keeps_naive=self.keeps_naive), self._made
        if not made or made[0].sparkSession is not reading.spark or made[0].schema != types:
            made[:] = [reading.spark.createDataFrame(arrow, types)]
        return made[0]

    def _arrow(self) -> pa.Table:
        try:
            table = as_arrow(self.frame)
            held = _as_parquet_holds(table) if table is not None else None
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as failure:
            raise ArgumentError(
                "source.bad_frame",
                f"The {type(self.frame).__name__} cannot be read: {'; '.join(map(str, failure.args))}.",
                "Give every column a name of its own, and values of one type; .dt.floor('us') takes nanoseconds off.",
            ) from failure
        if held is None:
            raise ArgumentError(
                "source.unknown_kind",
                f"A value of the type {type(self.frame).__name__} cannot be merged.",
                "Give a Spark DataFrame, a pyarrow Table, a pandas DataFrame, or a path.",
            )
        return held


def _as_parquet_holds(table: pa.Table) -> pa.Table:
    """Types that Spark lacks as those that it reads from a Parquet file of the same table.

    What these do not hold, such as nanoseconds, is an error.
    """
    fields = [field.with_type(_held(field.type)) for field in table.schema]
    return table.cast(pa.schema(fields)) if fields != list(table.schema) else table


def _held(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_duration(kind):
        return pa.duration("us")
    return pa.time64("us") if pa.types.is_time64(kind) else _ALIKE.get(kind, kind)


def _types(schema: pa.Schema, like: StructType | None, *, keeps_naive: bool) -> StructType:
    """Spark's types for Arrow's."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415  slow to import
    from pyspark.sql.types import StructType, TimestampNTZType  # noqa: PLC0415

    held = {item.name.lower(): item.dataType for item in like.fields} if like else {}
    unknown = [f"{item.name} ({item.type})" for item in schema if not _has_type(item)]
    if unknown:
        raise ArgumentError(
            "source.unknown_type",
            f"Spark has no type for {', '.join(unknown)} of the given frame.",
            "Cast it, or leave it out.",
        )
    usual, naive = from_arrow_schema(schema), from_arrow_schema(schema, prefer_timestamp_ntz=True)

    def is_naive(name: str) -> bool:
        known = held.get(name.lower())
        return keeps_naive if known is None else isinstance(known, TimestampNTZType)

    pairs = zip(usual.fields, naive.fields, strict=True)
    return StructType([other if is_naive(item.name) else item for item, other in pairs])


def _has_type(item: pa.Field) -> bool:
    from pyspark.errors import PySparkTypeError  # noqa: PLC0415  slow to import
    from pyspark.sql.pandas.types import from_arrow_type  # noqa: PLC0415

    try:
        from_arrow_type(item.type)
    except PySparkTypeError:
        return False
    return not pa.types.is_decimal(item.type) or item.type.precision <= _MOST_DIGITS


def _check_dates(frame: pd.DataFrame, table: pa.Table) -> None:
    """Arrow takes moments that come after a date for dates, and drops their times."""
    for column, kind in zip(range(frame.shape[1]), table.schema.types, strict=True):
        values = frame.iloc[:, column] if pa.types.is_date(kind) else ()
        if any(isinstance(value, datetime) for value in values):
            raise ValueError(f"{frame.columns[column]} has dates and moments")


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
            table = pa.Table.from_pandas(frame, preserve_index=False)
            _check_dates(frame, table)
            return table
        case _:
            return None
