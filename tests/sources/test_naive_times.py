"""Naive datetimes of pandas: the same type in memory and through Parquet, in sessions of any zone."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import pandas as pd
import pytest

import tidemill
from tidemill.errors import SchemaError
from tidemill.formats.delta.log import DeltaLog

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

# The first time is none of New York, where clocks skip it.
FRAME = pd.DataFrame(
    {
        "id": [1, 2],
        "at": [datetime.fromisoformat(text) for text in ("2024-03-10 02:30", "2024-07-01 12:00:00.000005")],
        "deep": [{"at": None}, {"at": datetime.fromisoformat("2024-07-01 12:00")}],
    }
)


@pytest.fixture
def eastern(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    return session


@pytest.mark.parametrize("first", ["memory", "parquet"])
def test_a_naive_frame_is_without_zone_in_memory_and_through_parquet_whichever_comes_first(
    spark: SparkSession, eastern: SparkSession, tmp_path: Path, first: str
) -> None:
    file, target = tmp_path / "rows.parquet", tmp_path / "lake"
    FRAME.to_parquet(file)
    one, other = (FRAME, file) if first == "memory" else (file, FRAME)
    assert tidemill.merge(one, target, on="id", spark=eastern).inserted == 2
    again = tidemill.merge(other, target, on="id", spark=spark)
    assert (again.status, again.unchanged) == ("unchanged", 2)
    rows = tidemill.read(target, spark=spark)
    assert dict(rows.dtypes) == {"id": "bigint", "at": "timestamp_ntz", "deep": "struct<at:timestamp_ntz>"}
    assert [row.at for row in rows.orderBy("id").collect()] == list(FRAME["at"])


def test_naive_times_are_moments_of_the_sessions_zone_where_the_table_holds_moments(
    eastern: SparkSession, tmp_path: Path
) -> None:
    """As in tables that earlier versions made of naive frames, or that Spark made."""
    file, target = tmp_path / "rows.parquet", str(tmp_path / "lake")
    FRAME.iloc[1:].to_parquet(file)
    held = "SELECT 1L AS id, TIMESTAMP'2024-01-01 00:00' AS at, named_struct('at', TIMESTAMP'2024-01-01 00:00') AS deep"
    eastern.sql(held).write.format("delta").save(target)
    assert tidemill.merge(FRAME.iloc[1:], target, on="id", spark=eastern).inserted == 1
    assert tidemill.merge(file, target, on="id", spark=eastern).unchanged == 1
    (moment,) = eastern.read.format("delta").load(target).where("id = 2").selectExpr("unix_micros(at)").first()
    assert moment == 1_719_849_600_000_005  # 12:00 in New York is 16:00 of UTC


@pytest.mark.parametrize("given", ["memory", "parquet"])
@pytest.mark.parametrize("rows", [FRAME, FRAME.assign(id=[2, 3])], ids=["updated", "and inserted"])
def test_a_naive_column_that_is_added_to_a_table_is_without_zone(
    spark: SparkSession, tmp_path: Path, given: str, rows: pd.DataFrame
) -> None:
    """Delta wants a feature for the first such column of a table."""
    target, wide = tmp_path / "lake", rows[["id", "at"]]
    wide.to_parquet(tmp_path / "rows.parquet")
    tidemill.merge(FRAME[["id"]], target, on="id", spark=spark)
    source = wide if given == "memory" else tmp_path / "rows.parquet"
    added = tidemill.merge(source, target, on="id", schema_policy="append_new_columns", spark=spark)
    assert (added.updated, added.inserted, added.total) == ((2, 0, 2) if rows is FRAME else (1, 1, 3))
    found = tidemill.read(target, spark=spark)
    assert dict(found.dtypes) == {"id": "bigint", "at": "timestamp_ntz"}
    assert [row.at for row in found.where("at IS NOT NULL").orderBy("id").collect()] == list(FRAME["at"])
    again = tidemill.merge(source, target, on="id", spark=spark)
    assert (again.status, again.unchanged) == ("unchanged", 2)


def test_a_replaced_table_may_get_a_naive_column(spark: SparkSession, tmp_path: Path) -> None:
    target = tmp_path / "lake"
    tidemill.merge(FRAME[["id"]], target, on="id", spark=spark)
    wide = {"strategy": "full_merge", "schema_policy": "append_new_columns"}
    assert tidemill.merge(FRAME[["id", "at"]].iloc[1:], target, on="id", spark=spark, **wide).deleted == 1
    assert dict(tidemill.read(target, spark=spark).dtypes) == {"id": "bigint", "at": "timestamp_ntz"}


@pytest.mark.parametrize("given", ["memory", "parquet"])
def test_a_table_made_elsewhere_keeps_its_features(spark: SparkSession, tmp_path: Path, given: str) -> None:
    target, wide = str(tmp_path / "lake"), FRAME[["id", "at"]]
    wide.to_parquet(tmp_path / "rows.parquet")
    spark.sql("SELECT 1L AS id").write.format("delta").save(target)
    source = wide if given == "memory" else tmp_path / "rows.parquet"
    with pytest.raises(SchemaError, match=r"made elsewhere.*TIMESTAMP_NTZ.*delta\.feature\.timestampNtz"):
        tidemill.merge(source, target, on="id", schema_policy="append_new_columns", spark=spark)
    assert [commit.operation for commit in DeltaLog(target).commits()] == ["WRITE"]
