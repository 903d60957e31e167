"""Naive datetimes of pandas: the same type in memory and through Parquet, in sessions of any zone."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import pandas as pd
import pytest

import tidemill
from tidemill.errors import ArgumentError, SchemaError
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


# pandas before 3 has no others, and writes them to Parquet as they are, which Spark does not read.
FINE = FRAME[["id", "at"]].assign(at=FRAME["at"].astype("datetime64[ns]"))
FINE["seen"] = FINE["at"].dt.tz_localize("UTC")


@pytest.mark.parametrize("first", ["memory", "parquet"])
def test_nanoseconds_of_pandas_are_read_from_parquet_as_from_memory(
    spark: SparkSession, eastern: SparkSession, tmp_path: Path, first: str
) -> None:
    file, target = tmp_path / "rows.parquet", tmp_path / "lake"
    FINE.to_parquet(file)
    one, other = (FINE, file) if first == "memory" else (file, FINE)
    assert tidemill.merge(one, target, on="id", spark=eastern).inserted == 2
    again = tidemill.merge(other, target, on="id", spark=spark)
    assert (again.status, again.unchanged) == ("unchanged", 2)
    rows = tidemill.read(target, spark=spark)
    assert dict(rows.dtypes) == {"id": "bigint", "at": "timestamp_ntz", "seen": "timestamp"}
    assert [row.at for row in rows.orderBy("id").collect()] == list(FRAME["at"])


def test_files_with_nanoseconds_lie_beside_others_and_are_outside_data_of_queries(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    FINE.iloc[:1].to_parquet(tmp_path / "data" / "1.parquet")
    coarse = FINE.iloc[1:].assign(at=FRAME["at"].iloc[1:], seen=FINE["seen"].astype("datetime64[us, UTC]"), more=1)
    coarse.to_parquet(tmp_path / "data" / "2.parquet")
    (tmp_path / "tidemill.toml").write_text('[sources."raw.seen"]\ntype = "parquet"\npath = "data"\n')
    (tmp_path / "models" / "m").mkdir(parents=True)
    (tmp_path / "models" / "m" / "last.sql").write_text("SELECT id, at, seen, more FROM raw.seen")
    (step,) = tidemill.Project.load(tmp_path).run(spark=spark).steps
    assert (step.error, step.inserted) == (None, 2)
    rows = tidemill.read(tmp_path / "warehouse" / "m" / "last", spark=spark).orderBy("id").collect()
    assert [(row.at, row.more) for row in rows] == [(FRAME["at"][0], None), (FRAME["at"][1], 1)]


@pytest.mark.parametrize(
    ("place", "frame", "problem"),
    [
        ("rows.parquet", FINE.assign(at=FINE["at"] + pd.Timedelta(1, "ns")), r"Casting from .* would lose data"),
        ("day=1/rows.parquet", FINE, r"holds at, seen in nanoseconds, .* and folders of partitions"),
    ],
)
def test_nanoseconds_that_cannot_be_read_as_they_are_are_an_error_with_the_remedy(
    spark: SparkSession, tmp_path: Path, place: str, frame: pd.DataFrame, problem: str
) -> None:
    (tmp_path / "data" / place).parent.mkdir(parents=True)
    frame.to_parquet(tmp_path / "data" / place)
    with pytest.raises(ArgumentError, match=rf"source\.nanoseconds.*{problem}.*coerce_timestamps='us'"):
        tidemill.merge(tmp_path / "data", tmp_path / "lake", on="id", spark=spark)
