"""Files as versions: what is there is known by the first n of them, and what came since by the rest."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidemill.formats.port import RowsBy
from tidemill.sources.files import FileSource
from tidemill.sources.files.text import Types
from tidemill.sources.files.versions import FilesLog

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

MOMENT = datetime(2024, 1, 1, tzinfo=UTC)
VALUES = {
    "yes": pa.array([True]),
    **{f"i{bits}": pa.array([1], f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"u{bits}": pa.array([1], f"uint{bits}") for bits in (8, 16, 32, 64)},
    "f": pa.array([1.0], pa.float32()),
    "d": pa.array([1.0]),
    "text": pa.array(["a"]),
    "large": pa.array(["a"], pa.large_string()),
    "raw": pa.array([b"a"]),
    "day": pa.array([date(2024, 1, 1)]),
    "amount": pa.array([Decimal("1.20")], pa.decimal128(12, 2)),
    "at": pa.array([MOMENT], pa.timestamp("us", "UTC")),
    "milli": pa.array([MOMENT], pa.timestamp("ms", "UTC")),
    "naive": pa.array([MOMENT.replace(tzinfo=None)], pa.timestamp("us")),
    "list": pa.array([[1]]),
}


def log(folder: Path) -> FilesLog:
    return FilesLog(FileSource(str(folder), "parquet"))


def write(file: Path, time: int, *ids: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), file)
    os.utime(file, (time, time))


def test_types_are_those_that_spark_reads(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table(VALUES), tmp_path / "a.parquet")
    found = log(tmp_path).column_types()
    read = {field.name: field.dataType.jsonValue() for field in spark.read.parquet(str(tmp_path)).schema.fields}
    assert found == {name: read[name] for name in found}
    assert set(VALUES) - set(found) == {"u8", "u16", "u32", "u64", "milli", "list"}


@pytest.mark.parametrize("name", ["day=1/a.parquet", "broken.parquet"])
def test_files_whose_rows_depend_on_more_than_themselves_have_no_versions(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, 10, 1)
    if name == "broken.parquet":
        (tmp_path / name).write_bytes(b"PAR1")
    assert log(tmp_path).snapshot() is None


def test_what_came_is_known_as_long_as_the_others_are_as_they_were(tmp_path: Path) -> None:
    write(tmp_path / "b.parquet", 10, 1, 2)
    before = log(tmp_path)
    snapshot = before.snapshot()
    assert snapshot is not None
    assert (snapshot.version, snapshot.rows, snapshot.content) == (1, 2, before.content)
    write(tmp_path / "deep" / "a.parquet", 20, 3)
    write(tmp_path / "c.parquet", 30, 4, 5)
    told = log(tmp_path).changes_since(1, content=before.content)
    assert (told.how, told.added, told.removed, told.commits) == (RowsBy.FILES, 3, 0, (2, 3))
    assert [file.base_name for _, file in log(tmp_path).came(1, 3)] == ["a.parquet", "c.parquet"]
    assert log(tmp_path).changes_since(1, 2).added == 1
    for spoil in (
        lambda: write(tmp_path / "older.parquet", 5, 9),
        lambda: write(tmp_path / "b.parquet", 11, 7, 8),
        (tmp_path / "b.parquet").unlink,
    ):
        known = log(tmp_path)
        spoil()
        refusal = log(tmp_path).changes_since(known.version(), content=known.content).refusal
        assert (refusal or "").startswith("files that were read were changed or removed, or older ones were added")


@pytest.mark.parametrize(
    ("source", "columns", "types", "is_followed"),
    [
        ({"types": Types("id BIGINT, Amount DECIMAL(9, 2)")}, ["id", "Amount"], ["bigint", "decimal(9,2)"], True),
        ({"types": Types(some={"id": "INT"})}, ["id", "Amount"], ["int"], False),
        ({}, ["id", "Amount"], [], False),
        ({"options": {"pathGlobFilter": "*.csv"}}, [], [], False),
    ],
)
def test_text_has_the_types_that_are_declared_and_files_of_it_are_read_alone_where_these_are_all(
    tmp_path: Path, source: dict[str, Any], columns: list[str], types: list[str], is_followed: bool
) -> None:
    (tmp_path / "a.csv").write_text("id,Amount\n1,2.50\n")
    found = FilesLog(FileSource(str(tmp_path), "csv", **source))
    assert (found.columns(), list(found.column_types().values())) == (columns, types)
    assert (found.snapshot() is not None) == bool(columns)
    assert (found.changes_since(1, 1).how is RowsBy.FILES) == is_followed
