"""Processes that are killed while they merge into a dataset leave whole commits, and the next one needs no help."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from parquet.merging import after, batch, rows_of, upsert

if TYPE_CHECKING:
    import pytest

TESTS = Path(__file__).parent.parent
STEPS = 25  # more than one merge has


def start(path: Path, first: int, last: int, kill_at: int = 0) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(TESTS / "parquet" / "merging.py"), str(path), str(first), str(last), str(kill_at)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
    )


def said_by(worker: subprocess.Popen[str], delay: float) -> list[int]:
    """The batches that it said were in, until it ended by itself or `delay` seconds after its start."""
    assert worker.stdout is not None
    assert worker.stdout.readline() == "started\n"
    if delay:
        time.sleep(delay)
        worker.kill()
    said = [int(line) for line in worker.stdout.read().split()]
    worker.stdout.close()
    assert worker.wait() == -signal.SIGKILL
    return said


def test_every_batch_that_was_said_to_be_in_is_and_none_is_torn(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """Kills at every step of the protocol, and at random moments of what lies between them."""
    path = tmp_path / "data"
    upsert(path, batch(0))
    done = 0
    for kill in range(pytestconfig.getoption("kills")):
        seed = random.Random(kill)
        step = 1 + kill // 2 % STEPS if kill % 2 else 0
        delay = 0 if step else seed.uniform(0.001, 0.15)
        said = said_by(start(path, done + 1, done + 1000, step), delay)
        told = said[-1] if said else done
        rows = rows_of(path)
        assert rows in (after(told), after(told + 1)), f"killed at step {step}, after {delay:.3f} s"
        done = told if rows == after(told) else told + 1
        upsert(path, batch(done + 1))
        done += 1
        assert rows_of(path) == after(done)
        assert list((path / "_tidemill" / "staging").iterdir()) == []


def test_processes_that_merge_at_once_lose_nothing(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """Two with keys of their own and two with the same ones: every merge that said ok is in the data."""
    for round_ in range(pytestconfig.getoption("rounds")):
        path = tmp_path / str(round_)
        upsert(path, {0: "start"})
        spans = [(1, 9), (1, 9), (101, 109), (201, 209)][: 2 if round_ % 2 else 4]
        workers = [start(path, first, last) for first, last in spans]
        said = [worker.communicate()[0].split()[1:] for worker in workers]
        assert said == [[str(n) for n in range(first, last)] for first, last in spans]
        expected: dict[int, str] = {}
        for first, last in spans:
            for number in range(first, last):
                expected |= batch(number)
        found = rows_of(path)
        assert [key for key, _ in found] == sorted({0, *expected})
        assert {key: value for key, value in found if key > 1000} == {k: v for k, v in expected.items() if k > 1000}
