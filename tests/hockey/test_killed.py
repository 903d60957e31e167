"""A run that is killed in the middle of a batch leaves whole batches, and the next one skips no date."""

from __future__ import annotations

import os
import random
import signal
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hockey.api import DAY, days

if TYPE_CHECKING:
    from hockey.api import Project
    from pyspark.sql import SparkSession

BATCH = 3  # days


@pytest.mark.slow  # tests/crash/test_kill_function.py is the small one
def test_a_run_killed_in_the_middle_of_a_batch_leaves_no_part_of_it_and_skips_no_date(
    nhl: Project, spark: SparkSession
):
    nhl.hockey.today = today = datetime.now(UTC).date()
    first = today - 8 * DAY
    nhl.write(f'start="{first}", batch="{BATCH} days"')
    delay = random.uniform(0, 2)
    _run_and_kill(nhl, f"/v1/stats/{first + 4 * DAY}", delay)
    reached = nhl.watermark()
    assert reached in {first + (number * BATCH - 1) * DAY for number in (1, 2, 3)}, f"killed after {delay:.2f} s"
    assert nhl.held() == nhl.hockey.truth(first, reached), f"killed after {delay:.2f} s"
    nhl.hockey.fetched()
    nhl.run(spark)
    assert nhl.hockey.fetched() == days(reached, today)
    assert nhl.held() == nhl.hockey.truth(first, today)


def _run_and_kill(nhl: Project, path: str, delay: float) -> None:
    """Kills a run of the command line, `delay` seconds after it asked for this address."""
    run = nhl.begin("run")
    try:
        ends = time.monotonic() + 100
        while path not in nhl.hockey.asked:
            assert run.poll() is None, "the run ended by itself"
            assert time.monotonic() < ends
            time.sleep(0.02)
        time.sleep(delay)
    finally:
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
