"""A run of a function that is killed leaves whole batches, and the next run skips no date."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidemill.api.workspace import Workspace
from tidemill.formats.delta.log import DeltaLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 50
FUNCTION = """
import tidemill

@tidemill.table(keys=["day", "n"], time_column="day", start="{start}", batch="1 day")
def games(run):
    for day in run.dates:
        print(day, flush=True)
        yield [{{"day": day, "n": n}} for n in range({rows})]
"""


@pytest.mark.parametrize(
    ("after", "before"),
    [(2, 3), pytest.param(1, 30, marks=pytest.mark.slow), pytest.param(6, 30, marks=pytest.mark.slow)],
)
def test_a_killed_run_leaves_whole_batches_and_skips_no_date(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int, before: int
) -> None:
    monkeypatch.chdir(tmp_path)
    today = datetime.now(UTC).date()
    start = today - timedelta(days=before)
    Path("games.py").write_text(FUNCTION.format(start=start, rows=ROWS), encoding="utf-8")
    delay = random.uniform(0.0, 1.5)
    _run_and_kill(after, delay)
    path = str(tmp_path / "warehouse" / "main" / "games")
    snapshot = DeltaLog(path).snapshot()
    if snapshot is not None:
        days = _days(spark, path)
        assert set(days.values()) == {ROWS}, f"killed {delay:.2f} s after batch {after}"
        assert sorted(days) == [start + timedelta(days=n) for n in range(len(days))]
        assert snapshot.record is not None
        assert snapshot.record.progress["function"].value == max(days)
    done = Workspace.load("games.py").run(spark)
    assert done.ok
    assert _days(spark, path) == {start + timedelta(days=n): ROWS for n in range((today - start).days + 1)}


def _run_and_kill(after: int, delay: float) -> None:
    """Kills the command and all its children, some time after its function was asked for so many dates."""
    command = subprocess.Popen(
        [sys.executable, "-m", "tidemill.cli.main", "run", "games.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        env={**os.environ, "TIDEMILL_DRIVER_MEMORY": "1g"},
    )
    assert command.stdout is not None
    try:
        asked = (line for line in command.stdout if line.startswith("20"))
        for _ in range(after):
            next(asked)
        time.sleep(delay)
    finally:
        os.killpg(command.pid, signal.SIGKILL)
        command.stdout.close()
        command.wait()


def _days(spark: SparkSession, path: str) -> dict[date, int]:
    found = spark.read.format("delta").load(path).groupBy("day").count().collect()
    return {row["day"]: row["count"] for row in found}
