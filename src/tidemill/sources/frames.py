"""Rows that a caller holds as a source: frames of Spark, Arrow, pandas, Polars and the like, or lists of dicts."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeGuard

import pyarrow as pa

from tidemill.errors import ArgumentError
from tidemill.sources.batches import arrow_types, records_as_arrow
from tidemill.sources.narrow import picked

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pandas as pd
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidemill.declare.cursors import Cursor
    from tidemill.sources.protocol import Reading

    class OfArrow(Protocol):
        """A frame of Polars, a relation of DuckDB, and whatever else gives its rows as a stream of Arrow's."""

        def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...

    Rows: TypeAlias = DataFrame | pa.Table | pd.DataFrame | OfArrow | list[Mapping[str, Any]]


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

    Times without a zone in Arrow and pandas frames are as the table has them, and stay without one where their column
    is new: the same as of a Parquet file of the frame.
    """

    frame: Rows
    settled: bool = False
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
        if not is_records(self.frame):
            arrow = self._arrow
        elif self.frame or reading.like is None:
            arrow = self._records(self.frame, reading)
        else:  # no rows, whose columns are the table's
            return reading.spark.createDataFrame([], reading.like)
        types, made = _types(arrow.schema, reading.like), self._made
        if not made or made[0].sparkSession is not reading.spark or made[0].schema != types:
            made[:] = [reading.spark.createDataFrame(arrow, types)]
        return made[0]

    def _records(self, records: list[Mapping[str, Any]], reading: Reading) -> pa.Table:
        """With the table's types but for times: those without a zone are none of UTC."""
        known = {name: kind for name, kind in arrow_types(reading.like).items() if not pa.types.is_timestamp(kind)}
        with self._readable():
            return _as_parquet_holds(records_as_arrow(records, known))

    @cached_property
    def _arrow(self) -> pa.Table:
        """Read once: a stream is gone afterwards."""
        with self._readable():
            table = as_arrow(self.frame)
            held = _as_parquet_holds(table) if table is not None else None
        if held is None:
            raise ArgumentError(
                "source.unknown_kind",
                f"A value of the type {type(self.frame).__name__} cannot be merged.",
                "Give a Spark, pandas or Polars DataFrame, a pyarrow Table, a list of dicts, or a path.",
            )
        return held

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as failure:
            raise ArgumentError(
                "source.bad_frame",
                f"The {type(self.frame).__name__} cannot be read: {'; '.join(map(str, failure.args))}.",
                "Give every column a name of its own, and values of one type; .dt.floor('us') takes nanoseconds off.",
            ) from failure


def _as_parquet_holds(table: pa.Table) -> pa.Table:
    """Types that Spark lacks as those that it reads from a Parquet file of the same table.

    What these do not hold, such as nanoseconds, is an error.
    """
    fields = [field.with_type(_held(field.type)) for field in table.schema]
    return table.cast(pa.schema(fields)) if fields != list(table.schema) else table


def _held(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_held(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_held(kind.value_type)))
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_held(kind.value_type)))
    return _plainly_held(kind)


def _plainly_held(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_duration(kind):
        return pa.duration("us")
    return pa.time64("us") if pa.types.is_time64(kind) else _ALIKE.get(kind, kind)


def _types(schema: pa.Schema, like: StructType | None) -> StructType:
    """Spark's types for Arrow's."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415  slow to import

    from tidemill.sources.naive import as_held  # noqa: PLC0415  it imports PySpark

    unknown = [f"{item.name} ({item.type})" for item in schema if not _has_type(item)]
    if unknown:
        raise ArgumentError(
            "source.unknown_type",
            f"Spark has no type for {', '.join(unknown)} of the given frame.",
            "Cast it, or leave it out.",
        )
    return as_held(from_arrow_schema(schema, prefer_timestamp_ntz=True), like)


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


def is_records(frame: object) -> TypeGuard[list[Mapping[str, Any]]]:
    return isinstance(frame, list) and all(isinstance(record, Mapping) for record in frame)


def as_arrow(frame: object) -> pa.Table | None:
    """A frame of Arrow or pandas, or what gives a stream of Arrow's, as an Arrow table; None when it is neither."""
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
        case _ if hasattr(frame, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(frame).read_all()
        case _:
            return None
