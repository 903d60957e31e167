"""What the kernel refuses, a merge tells in one error, and the dataset is as it was: permissions, and room on the disk.

In a process of its own, for whom both count; nothing is patched.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from parquet.powerless import LARGEST_FILE

TESTS = Path(__file__).parent.parent


def told(*cases: tuple[Path, str, int, str]) -> list[tuple[str, bool]]:
    """What merges say, one after the other: a dataset, a place in it, the permissions of that place, a strategy."""
    done = subprocess.run(
        [sys.executable, TESTS / "parquet" / "powerless.py", json.dumps([(str(path), *case) for path, *case in cases])],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]), "TIDEMILL_DRIVER_MEMORY": "600m"},
        check=True,
    )
    return [(said, same) for said, same in json.loads(done.stdout.splitlines()[-1])]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    for day in (1, 2):
        (tmp_path / f"data/day={day}").mkdir(parents=True)
        pq.write_table(pa.table({"id": [day], "v": ["old"]}), tmp_path / f"data/day={day}/theirs.parquet")
    return tmp_path / "data"


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A dataset of one file that is larger than what may be written."""
    (tmp_path / "large/day=1").mkdir(parents=True)
    noise = np.random.default_rng(1).integers(0, 2**62, LARGEST_FILE // 8)
    pq.write_table(pa.table({"id": range(len(noise)), "v": noise.astype(str)}), tmp_path / "large/day=1/theirs.parquet")
    return tmp_path / "large"


def test_what_may_not_be_read_or_written_is_reported_and_the_dataset_stays_as_it_was(path: Path, large: Path) -> None:
    as_it_was = "The dataset is as it was."
    again = f"Fix that and run again. {as_it_was}"
    denied = "[Errno 13] Permission denied: "
    file = f"{path}/day=1/theirs.parquet"
    expected = {
        (
            path,
            "",
            0o000,
            "upsert",
        ): f"[dataset.not_readable] {path} cannot be read: {denied}'{path}/_delta_log'. {again}",
        (path, "", 0o555, "upsert"): (
            f"[dataset.not_written] {path} could not be written to: {denied}'{path}/_tidemill' {again}"
        ),
        (path, "day=2", 0o000, "upsert"): (
            f"[dataset.not_readable] {path} cannot be read: {denied}'{path}/day=2'. {again}"
        ),
        (path, "day=1", 0o555, "upsert"): (
            f"[dataset.not_writable] {path}/day=1 may not be written to, and this commit changes files in it. "
            f"Let the user who runs this write there. {path} is as it was."
        ),
        (path, "day=1/theirs.parquet", 0o000, "upsert"): (
            f"[dataset.not_readable] {file} may not be read: [Errno 13] Failed to open local file '{file}'. "
            f"Detail: [errno 13] Permission denied. Let the user who runs this read it. {as_it_was}"
        ),
        (path, "day=1/theirs.parquet", 0o000, "full_merge"): (
            f"[dataset.not_readable] {file} may not be read: {file} (Permission denied). "
            f"Let the user who runs this read it. {as_it_was}"
        ),
        (path, "_tidemill", 0o555, "upsert"): (
            f"[dataset.not_written] {path} could not be written to: {denied}'{path}/_tidemill/log' {again}"
        ),
        (large, "", 0o755, "upsert"): (
            f"[dataset.not_written] {large} could not be written to: OSError: [Errno 27] Error writing bytes to file. "
            f"Detail: [errno 27] File too large {again}"
        ),
    }
    *said, last = told(*expected, (path, "", 0o755, "upsert"))
    assert said == [(text, True) for text in expected.values()]
    assert last == ("1 updated", False)
    assert list((path / "_tidemill" / "staging").iterdir()) == []
