"""A run that is killed leaves whole commits, and the next run needs no help."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from crash.worker import BATCH, source_up_to
from support import events, events_table, feed, held

import tidemill
from tidemill.declarations import Append, Merge
from tidemill.errors import TableError
from tidemill.formats.delta.store import DeltaStore
from tidemill.formats.filesystem import only_writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TESTS = Path(__file__).parent.parent


def run_and_kill(path: Path, strategy: str, after: str, delay: float, kept_as: str = "delta") -> None:
    """Starts the worker in a process group of its own and kills all of it, `delay` seconds after a line of its."""
    worker = subprocess.Popen(
        [sys.executable, str(TESTS / "crash" / "worker.py"), str(path), strategy, kept_as],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(TESTS), "TIDEMILL_DRIVER_MEMORY": "1g"},
    )
    assert worker.stdout is not None
    try:
        for line in worker.stdout:
            if line.strip() == after:
                time.sleep(delay)
                break
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.stdout.close()
        worker.wait()


@pytest.mark.parametrize(("strategy", "after"), [("append", "started"), ("merge", "committed 1")])
def test_a_killed_run_leaves_whole_batches_and_their_watermark(
    spark: SparkSession, tmp_path: Path, strategy: str, after: str
) -> None:
    delay = random.uniform(0.2, 2.5)
    path = tmp_path / "events"
    run_and_kill(path, strategy, after, delay)
    snapshot = DeltaStore(str(path)).snapshot()
    done = -1
    if snapshot is not None:
        rows = held(path)
        done = len(rows) // BATCH - 1
        assert rows == sorted(source_up_to(done)), f"killed {delay:.2f} s after {after!r}"
        assert snapshot.record is not None
        assert str(snapshot.record.progress["source"]) == f"2024-01-01 {done:02d}:00:00 UTC"
    table = events_table(path, {"append": Append(), "merge": Merge(("id",))}[strategy], back="1 hour")
    feed(spark, table, events(*source_up_to(done + 1)))
    assert held(path) == sorted(source_up_to(done + 1))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_a_killed_run_leaves_a_dataset_whole(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """tests/parquet/test_kills.py kills by the hundred, without Spark."""
    delay, path = random.Random(seed).uniform(0, 1.5), tmp_path / "events"
    run_and_kill(path, "merge", "committed 1", delay, "parquet")
    done = tidemill.read(path, spark=spark).count() // BATCH - 1
    assert held(path) == sorted(source_up_to(done)), f"killed after {delay:.2f} s"
    table = events_table(path, Merge(("id",)), back="1 hour", format="parquet")
    assert feed(spark, table, events(*source_up_to(done + 1))).counts.inserted == BATCH
    assert held(path) == sorted(source_up_to(done + 1))
    assert list((path / "_tidemill" / "staging").iterdir()) == []


def test_a_first_load_killed_before_its_commit_can_be_run_again(spark: SparkSession, tmp_path: Path) -> None:
    """Files without a log are what such a kill leaves; they are no table, and no obstacle."""
    path = tmp_path / "events"
    (path / "_delta_log").mkdir(parents=True)
    (path / "part-00000-left-behind.snappy.parquet").write_bytes(b"PAR1 cut short")
    result = feed(spark, events_table(path), events(*source_up_to(0)))
    assert result.first_run
    assert held(path) == sorted(source_up_to(0))


def test_a_first_load_that_failed_before_it_wrote_anything_can_be_run_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The lock of its writer is then all that is there."""
    path = tmp_path / "events"
    with only_writer(str(path)):
        assert DeltaStore(str(path)).snapshot() is None
    assert feed(spark, events_table(path), events(*source_up_to(0))).first_run


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "orders.csv").touch()
    path = tmp_path / "orders.csv" / "events"
    with pytest.raises(TableError) as caught, only_writer(str(path)):
        pass
    assert str(caught.value) == (
        f"[table.not_writable] {path} cannot be written: Not a directory. "
        "Make its folder writable, or give another path. Nothing was written."
    )
