"""Runs of views that are killed, that meet another run, and whose inputs change while they last."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import together

if TYPE_CHECKING:
    from views.conftest import Lake

AMOUNTS = "id long, k long, v long"
GREAT = "SELECT id, k, v FROM amounts WHERE v > 1"
SUMS = "SELECT k, count(*) AS n, sum(v) AS v FROM great GROUP BY k"


@pytest.fixture
def chain(lake: Lake) -> Lake:
    """A view and a view of that, made once; then their input changes."""
    lake.table("amounts", AMOUNTS, *((n, n % 4, n) for n in range(12)), (12, None, 12))
    lake.view("great", GREAT)
    lake.view("sums", SUMS)
    lake.check_all(lake.run(), None)
    lake.delta("amounts").delete("id IN (3, 5)")
    lake.append("amounts", (20, 1, 20), (21, None, 21))
    return lake


def run_and_kill(folder: Path, view: str) -> None:
    """Starts a run and kills all of it when the rows of the view are there, and its commit is not."""
    worker = subprocess.Popen(
        [sys.executable, str(Path(__file__).parent / "worker.py"), str(folder), view],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        env={**os.environ, "TIDEMILL_DRIVER_MEMORY": "1g"},
    )
    assert worker.stdout is not None
    try:
        assert "staged\n" in iter(worker.stdout.readline, "")
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.stdout.close()
        worker.wait()


def test_a_run_killed_before_its_commit_is_made_good_by_the_next_one(chain: Lake) -> None:
    before, recorded = chain.held("sums"), chain.recorded("sums")
    run_and_kill(chain.folder, "sums")
    assert (chain.held("sums"), chain.recorded("sums")) == (before, recorded)
    assert chain.held("great") == chain.right("great")
    assert chain.recorded("great") == {"amounts": chain.version("amounts")}

    chain.append("amounts", (22, 2, 22))
    chain.check_all(chain.run())
    chain.check_again()


def test_two_runs_at_once_leave_right_tables(chain: Lake) -> None:
    project, ended = chain.project(), []
    assert together(*[lambda: ended.append(project.run(spark=chain.spark)) for _ in range(2)]) == []
    assert [step.error for run in ended for step in run.steps] == [None] * 4
    for view in ("great", "sums"):
        assert chain.held(view) == chain.right(view)
    assert chain.recorded("great") == {"amounts": chain.version("amounts")}
    assert chain.recorded("sums") == {"great": chain.version("great")}
    chain.check_again()


MEDDLER = """
import tidemill
from deltalake import DeltaTable

@tidemill.table(strategy="replace", reads=["great"], schema="done BOOLEAN")
def meddled(run):
    DeltaTable({path!r}).delete("k = 1")
    return [{{"done": True}}]
"""


def test_views_of_one_run_see_one_state_of_an_input_that_changes_meanwhile(lake: Lake) -> None:
    """`late` waits for a function, which changes what `great` has read."""
    lake.table("amounts", AMOUNTS, *((n, n % 4, n) for n in range(12)))
    functions = lake.folder / "models" / "main"
    functions.mkdir(parents=True)
    (functions / "meddled.py").write_text(MEDDLER.format(path=lake.path("amounts")))
    lake.view("great", GREAT)
    lake.view("late", "SELECT k, count(*) AS n FROM amounts WHERE EXISTS (SELECT 1 FROM meddled) GROUP BY k", "")
    for _ in range(2):
        steps = lake.run()
        assert all(step.ok for step in steps.values()), steps
        seen = lake.recorded("great")["amounts"]
        assert lake.recorded("late")["amounts"] == seen < lake.version("amounts")
        assert lake.held("great") == lake.right("great")
        assert lake.held("late") == lake.right("late")
        lake.append("amounts", (30, 1, 30))
