"""`merge` takes the frames of Polars and the relations of DuckDB, into Delta tables and into datasets."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pytest

import tidemill

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

DAY = date(2024, 1, 31)
FIRST = [(1, "a", DAY), (2, None, None)]
SECOND = [(2, "b", DAY), (3, "ü", None)]


def of_polars(rows: list[tuple[Any, ...]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"id": pl.Int64, "name": pl.String, "day": pl.Date}, orient="row")


def of_duckdb(rows: list[tuple[Any, ...]]) -> duckdb.DuckDBPyRelation:
    values = ", ".join(["(?::bigint, ?::varchar, ?::date)"] * len(rows))
    return duckdb.connect().sql(f"SELECT * FROM (VALUES {values}) AS t(id, name, day)", params=sum(rows, ()))


@pytest.mark.parametrize("form", ["delta", "parquet"])
@pytest.mark.parametrize("frame", [of_polars, of_duckdb])
def test_frames_of_other_libraries_are_merged(
    tmp_path: Path, spark: SparkSession, frame: Callable[..., Any], form: str
) -> None:
    target = tmp_path / "orders"
    first = tidemill.merge(frame(FIRST), target, on="id", format=form, spark=spark)
    assert (first.inserted, first.total) == (2, 2)
    again = tidemill.merge(frame(SECOND), target, on="id", spark=spark)
    assert (again.inserted, again.updated, again.total) == (1, 1, 3)
    held = sorted(map(tuple, tidemill.read(target, spark=spark).select("id", "name", "day").collect()))
    assert held == [(1, "a", DAY), (2, "b", DAY), (3, "ü", None)]
    assert tidemill.merge(frame(SECOND), target, on="id", spark=spark).unchanged == 2
