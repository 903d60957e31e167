"""A file of a dataset that cannot be read: one error that names it, in all that is done to the dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidemill
from tidemill.api import merge_table
from tidemill.api.merging import run_merge
from tidemill.errors import DatasetFileError
from tidemill.formats.parquet.compaction import compact
from tidemill.formats.parquet.folder import Folder
from tidemill.formats.registry import some_rows
from tidemill.maintenance.repair import check_keys, dedup

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "destroyed pages": lambda whole: whole[:4] + b"\xff" * 100 + whole[104:],
    "cut short": lambda whole: whole[: len(whole) // 2],
    "empty": lambda _: b"",
}
CHANGE = pa.table({"id": [1, 5, 9], "v": ["A", "E", "I"]})


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_named_and_everything_stays_as_it_was(
    spark: SparkSession, tmp_path: Path, damage: str
) -> None:
    path, bad = tmp_path / "data", tmp_path / "data" / "bad one.parquet"
    path.mkdir()
    pq.write_table(pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"]}), path / "good.parquet")
    pq.write_table(pa.table({"id": [4, 5, 6], "v": ["d", "e", "f"]}), bad)
    bad.write_bytes(DAMAGE[damage](bad.read_bytes()))
    before = {file: file.read_bytes() for file in path.iterdir()}
    full = merge_table(path, "id", "full_merge")
    jobs: dict[str, Callable[[], object]] = {
        "upsert": lambda: tidemill.merge(CHANGE, path, on="id", spark=spark),
        "full_merge": lambda: run_merge(CHANGE, full, spark),
        "full_merge --dry-run": lambda: run_merge(CHANGE, full, spark, dry_run=True),
        "check": lambda: check_keys(spark, str(path), ["id"]),
        "dedup": lambda: dedup(spark, str(path), ["id"], []),
        "compact": lambda: compact(Folder(str(path)), 2**20),
        "show": lambda: some_rows(str(path), 10),
        "read": lambda: tidemill.read(path, spark=spark).collect(),
    }
    for name, job in jobs.items():
        with pytest.raises(DatasetFileError) as caught:
            job()
        assert caught.value.code == "dataset.corrupt_file", name
        assert caught.value.problem.startswith(f"{bad} cannot be read as a Parquet file: "), name
        assert "\n" not in str(caught.value), name
        assert caught.value.remedy == (
            "Put it back from a backup, or remove it and merge its rows again. The dataset is as it was."
        )
    assert {file: file.read_bytes() for file in path.iterdir() if file.is_file()} == before
    assert list((path / "_tidemill").rglob("*.parquet")) == []
