"""The rows that came to a dataset are known as long as none went, also after its files were joined."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidemill
from tidemill.formats.parquet.compaction import compact
from tidemill.formats.parquet.store import ParquetStore

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture
def store(tmp_path: Path, spark: SparkSession) -> ParquetStore:
    tidemill.merge(some(1, 2), tmp_path / "t", on="k", format="parquet", spark=spark)
    return ParquetStore(str(tmp_path / "t"))


def some(*keys: int) -> pa.Table:
    return pa.table({"k": keys, "v": [f"v{key}" for key in keys]})


def came(store: ParquetStore, spark: SparkSession, since: int) -> list[int]:
    store.snapshot()
    return sorted(row["k"] for row in store.row_changes(spark, since, store.log.version(), ["k"]).collect())


def test_rows_that_were_appended_came(store: ParquetStore, spark: SparkSession) -> None:
    first = store.log.version()
    for key in (3, 4):
        tidemill.merge(some(key), store.path, on="k", strategy="insert", spark=spark)
    told = store.log.changes_since(first, content=content(store, first))
    assert (told.added, told.removed, len(told.commits)) == (2, 0, 2)
    assert came(store, spark, first) == [3, 4]
    assert came(store, spark, told.commits[0]) == [4]


def test_files_that_were_joined_change_no_rows(store: ParquetStore, spark: SparkSession) -> None:
    first = store.log.version()
    tidemill.merge(some(3), store.path, on="k", strategy="insert", spark=spark)
    second = store.log.version()
    compact(store.log.folder, 10**9)
    tidemill.merge(some(4), store.path, on="k", strategy="insert", spark=spark)
    assert came(store, spark, second) == [4]
    told = store.log.changes_since(first)
    assert told.refusal is not None
    assert "rows have changed or left since version" in told.refusal


def test_a_file_that_others_put_there_came(store: ParquetStore, spark: SparkSession, tmp_path: Path) -> None:
    first = store.log.version()
    pq.write_table(some(9), tmp_path / "t" / "theirs.parquet")
    assert came(store, spark, first) == [9]


def test_another_dataset_at_the_same_path_is_a_reason_why_not(store: ParquetStore) -> None:
    told = store.log.changes_since(store.log.version(), content="other@1.abc")
    assert told.refusal is not None
    assert "another dataset is at its path" in told.refusal


def content(store: ParquetStore, version: int) -> str:
    snapshot = store.snapshot()
    commit = store.log.commit(version)
    assert snapshot is not None
    assert commit is not None
    return f"{snapshot.table_id}@{version}.{commit.id}"
