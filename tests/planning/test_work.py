"""Flags of the JVM follow what a log says of the work: how much a change can meet, and how it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidemill import MergeStrategy, Table
from tidemill.api import merge_step as work
from tidemill.declarations import Merge
from tidemill.sources.files import FileSource

if TYPE_CHECKING:
    from pathlib import Path

FILE = 100_000  # rows; random numbers of eight bytes each, which no codec makes smaller


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of 50 MB in files of 1 MB, in the order of its keys."""
    path, draw = tmp_path_factory.mktemp("work") / "t", np.random.default_rng(1)
    for n in range(5):
        keys = np.arange(n * 10 * FILE, (n + 1) * 10 * FILE)
        deltalake.write_deltalake(path, pa.table({"k": keys, "v": draw.random(10 * FILE)}), mode="append")
    return path


def _is_small(made: Path, tmp_path: Path, keys: list[int], form: MergeStrategy = MergeStrategy.UPSERT) -> bool:
    pq.write_table(pa.table({"k": keys, "v": [0.0] * len(keys)}), tmp_path / "change.parquet")
    source = FileSource(str(tmp_path / "change.parquet"))
    return work.is_small(source, Table(name="t", path=str(made), strategy=Merge(("k",), form)))


def test_a_change_whose_keys_are_in_few_files_is_small_work(made: Path, tmp_path: Path) -> None:
    assert _is_small(made, tmp_path, [50 * FILE - 1, 50 * FILE])


def test_a_change_that_may_rewrite_a_large_table_is_not(made: Path, tmp_path: Path) -> None:
    assert not _is_small(made, tmp_path, [0, 50 * FILE])
    assert not _is_small(made, tmp_path, [50 * FILE], MergeStrategy.FULL_MERGE)


def test_a_table_with_deletion_vectors_is_only_read(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marked = tmp_path / "marked"
    deltalake.DeltaTable.create(
        marked, deltalake.DeltaTable(made).schema(), configuration={"delta.enableDeletionVectors": "true"}
    )
    deltalake.write_deltalake(
        marked, pa.table({"k": range(1000), "v": np.random.default_rng(1).random(1000)}), mode="append"
    )
    assert _is_small(marked, tmp_path, [0, 999])
    monkeypatch.setattr(work, "SMALL_WORK", 5_000)  # what is rewritten may be no more, what is read may
    assert _is_small(marked, tmp_path, [0, 999])
    assert not _is_small(marked, tmp_path, [0, 999], MergeStrategy.FULL_MERGE)


def test_a_table_that_is_not_there_yet_is_small_work(tmp_path: Path) -> None:
    assert _is_small(tmp_path / "none", tmp_path, [1])
