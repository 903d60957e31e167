"""Arrow and pandas frames come in with the types that Spark would read from a Parquet file of them."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from tidemill.errors import ArgumentError
from tidemill.sources import Reading
from tidemill.sources.frames import FrameSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALIKE = {
    "uint8": "smallint",
    "uint16": "int",
    "uint32": "bigint",
    "uint64": "decimal(20,0)",
    "halffloat": "float",
    "date64": "date",
    "string_view": "string",
    "binary_view": "binary",
}


def test_types_that_spark_lacks_are_those_that_parquet_has_for_them(spark: SparkSession) -> None:
    frame = pa.table({name: pa.nulls(1, pa.type_for_alias(name)) for name in ALIKE} | {"json": pa.nulls(1, pa.json_())})
    assert dict(FrameSource(frame).read(Reading(spark, None)).dtypes) == ALIKE | {"json": "string"}


def test_numbers_of_pandas_keep_their_values(spark: SparkSession) -> None:
    frame = pd.DataFrame({"a": np.array([0, 255], "uint8"), "b": np.array([1, 2**64 - 1], "uint64")})
    assert FrameSource(frame).read(Reading(spark, None)).orderBy("a").collect() == [(0, 1), (255, 2**64 - 1)]


class Streamed:
    """What Polars, DuckDB and others have in common."""

    def __init__(self, table: pa.Table) -> None:
        self.reader = table.to_reader()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.reader.__arrow_c_stream__(requested_schema)


def test_whatever_gives_a_stream_of_arrows_is_read_once(spark: SparkSession) -> None:
    source = FrameSource(Streamed(pa.table({"id": [1, 2], "v": pa.array(["a", None], pa.string_view())})))
    like = StructType.fromDDL("id BIGINT, v STRING")
    for reading in (Reading(spark, None), Reading(spark.newSession(), like)):
        assert source.read(reading).orderBy("id").collect() == [(1, "a"), (2, None)]


def test_texts_of_polars_are_read_inside_of_columns_too(spark: SparkSession) -> None:
    view = pa.string_view()
    table = pa.table(
        {
            "s": pa.array([{"x": "a"}], pa.struct([("x", view)])),
            "l": pa.array([["b"]], pa.large_list(view)),
        }
    )
    found = FrameSource(Streamed(table)).read(Reading(spark, None))
    assert dict(found.dtypes) == {"s": "struct<x:string>", "l": "array<string>"}
    assert found.collect() == [(("a",), ["b"])]


def test_a_list_of_dicts_takes_the_types_of_the_table_where_its_values_fit(spark: SparkSession) -> None:
    records = FrameSource([{"id": 1, "at": datetime(2024, 1, 2)}, {"id": 2, "v": 3}])  # noqa: DTZ001
    assert dict(records.read(Reading(spark, None)).dtypes) == {"id": "bigint", "at": "timestamp_ntz", "v": "bigint"}
    like = StructType.fromDDL("id INT, at TIMESTAMP, v DOUBLE")
    assert dict(records.read(Reading(spark, like)).dtypes) == {"id": "int", "at": "timestamp", "v": "double"}
    assert FrameSource([]).read(Reading(spark, like)).schema == like


WRONG: dict[str, tuple[Any, str]] = {
    "values of several types": (
        pd.DataFrame({"v": [1, "a"]}),
        (
            "[source.bad_frame] The DataFrame cannot be read: Could not convert 'a' with type str: tried to convert to "
            "int64; Conversion failed for column v with type object. "
            "Give every column a name of its own, and values of one type; .dt.floor('us') takes nanoseconds off."
        ),
    ),
    "columns of one name": (
        pd.DataFrame([[1, 2]], columns=["v", "v"]),
        (
            "[source.bad_frame] The DataFrame cannot be read: Duplicate column names found: ['v', 'v']. "
            "Give every column a name of its own, and values of one type; .dt.floor('us') takes nanoseconds off."
        ),
    ),
    "dates and moments": (
        pd.DataFrame({"v": pd.Series([date(2024, 1, 1), datetime(2024, 1, 1, 5)], dtype=object)}),  # noqa: DTZ001
        (
            "[source.bad_frame] The DataFrame cannot be read: v has dates and moments. "
            "Give every column a name of its own, and values of one type; .dt.floor('us') takes nanoseconds off."
        ),
    ),
    "nanoseconds": (
        pd.DataFrame({"v": pd.to_datetime(["2024-01-01T10:00:00.123456789"])}),
        (
            "[source.bad_frame] The DataFrame cannot be read: Casting from timestamp[ns] to timestamp[us] would lose "
            "data: 1704103200123456789. Give every column a name of its own, and values of one type; "
            ".dt.floor('us') takes nanoseconds off."
        ),
    ),
    "a number that is too long": (
        pd.DataFrame({"v": pd.Series([2**70, 1], dtype=object)}),
        (
            "[source.bad_frame] The DataFrame cannot be read: Python int too large to convert to C long. "
            "Give every column a name of its own, and values of one type; .dt.floor('us') takes nanoseconds off."
        ),
    ),
    "types that Spark lacks": (
        pa.table({"v": pa.nulls(1, pa.decimal256(50, 2)), "w": pa.nulls(1, pa.month_day_nano_interval())}),
        (
            "[source.unknown_type] Spark has no type for v (decimal256(50, 2)), w (month_day_nano_interval) of the "
            "given frame. Cast it, or leave it out."
        ),
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_frame_that_cannot_be_taken_over_is_refused_with_its_columns(spark: SparkSession, case: str) -> None:
    frame, told = WRONG[case]
    with pytest.raises(ArgumentError) as caught:
        FrameSource(frame).read(Reading(spark, None))
    assert str(caught.value) == told
