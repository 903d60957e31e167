"""What the ledger remembers of runs: how they ended, even where nobody was left to write it; and older ledgers."""

from __future__ import annotations

import os
import shlex
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tidemill.errors import ArgumentError, MergeError
from tidemill.ledger import Ledger, Step, ledger_file
from tidemill.ledger.past import last_step, past_run, past_runs
from tidemill.model.record import Counts

if TYPE_CHECKING:
    from pathlib import Path

AT_WORK = """
import pathlib, sys, time
from tidemill.ledger import Ledger, Step, ledger_file
with Ledger(ledger_file(pathlib.Path.cwd())).run("run") as run:
    run.add(Step("main.a", "/a", "append", "incremental", "changed", "2024-01-01T00:00:00.000Z"))
    run.add(Step("main.b", "/b", "append", "incremental", "running", "2024-01-01T00:00:00.000Z"))
    print("at work", flush=True)
    time.sleep(60)
"""
VERSION_1 = """
CREATE TABLE runs (run_id TEXT PRIMARY KEY, command TEXT NOT NULL, started TEXT NOT NULL, seconds REAL, ok INTEGER);
CREATE TABLE steps (
    step_id INTEGER PRIMARY KEY, run_id TEXT NOT NULL, commit_id TEXT UNIQUE, table_name TEXT NOT NULL,
    path TEXT NOT NULL, strategy TEXT NOT NULL, mode TEXT NOT NULL, status TEXT NOT NULL, at TEXT NOT NULL,
    "window" TEXT, watermark TEXT, rows_read INTEGER NOT NULL, inserted INTEGER NOT NULL, updated INTEGER NOT NULL,
    deleted INTEGER NOT NULL, unchanged INTEGER NOT NULL, ignored INTEGER NOT NULL, version INTEGER, seconds REAL,
    error_code TEXT
);
CREATE INDEX steps_by_table ON steps (path, at);
CREATE VIEW model_state AS SELECT table_name AS model_name FROM steps;
INSERT INTO runs VALUES
    ('r1', 'run', '2024-01-31T21:00:00.000Z', 1.5, 1), ('r2', 'run', '2024-02-01T21:00:00.000Z', 2, 1),
    ('r3', 'run', '2024-02-02T21:00:00.000Z', NULL, NULL);
INSERT INTO steps VALUES
    (1, 'r1', 'c1', 'main.a', '/a', 'append', 'incremental', 'changed', '2024-01-31T21:00:00.000Z',
     '{"column": "d", "reason": "backfill from 2024-01-01"}', '2024-01-31', 7, 7, 0, 0, 0, 0, 3, 1.2, NULL),
    (2, 'r2', NULL, 'main.a', '/a', 'append', 'incremental', 'failed', '2024-02-01T21:00:00.000Z',
     NULL, NULL, 0, 0, 0, 0, 0, 0, NULL, NULL, 'source.missing');
PRAGMA user_version = 1;
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tidemill.toml").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_run_whose_process_is_gone_was_interrupted_and_its_ended_steps_are_kept(project: Path, end: int):
    process = subprocess.Popen(
        [sys.executable, "-c", AT_WORK], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "at work\n"
    ledger, (run,) = Ledger(ledger_file(project)), past_runs(project)
    assert (run.status, run.ended, [step.status for step in run.steps]) == ("running", None, ["changed", "running"])
    os.kill(process.pid, end)
    process.communicate(timeout=30)
    (run,) = past_runs(project)
    assert (run.status, [step.status for step in run.steps]) == ("interrupted", ["changed", "interrupted"])
    found = last_step(ledger, "/b")
    assert found is not None
    assert found.status == "interrupted"


def test_a_failed_step_or_one_that_was_not_run_makes_the_run_failed(project: Path):
    step = Step(
        "main.a", "/a", "append", "incremental", "failed", "2024-01-01T00:00:00.000Z", error_code="x", error="E"
    )
    with Ledger(ledger_file(project)).run("run") as run:
        run.add(step)
    with pytest.raises(MergeError), Ledger(ledger_file(project)).run("merge a b"):
        raise MergeError("merge.null_keys", "No.", "Do.")
    second, first = past_runs(project)
    assert (first.ok, first.status, first.steps[0].error, first.steps[0].rows_read) == (False, "failed", "E", None)
    assert (second.ok, second.error_code, second.error) == (False, "merge.null_keys", "No.")
    assert second.ended is not None
    assert first.started <= first.ended <= second.started <= second.ended  # type: ignore[operator]


def test_the_beginning_of_an_id_finds_a_run_and_so_does_the_id_of_a_commit(project: Path):
    step = Step("main.a", "/a", "append", "full", "changed", "2024-01-01T00:00:00.000Z", Counts(1), commit_id="f00-0")
    with Ledger(ledger_file(project)).run("run") as run:
        run.add(step)
    assert past_run(run.run_id[:6], project).steps[0].inserted == 1
    assert past_run("f00", project).run_id == run.run_id
    with pytest.raises(ArgumentError, match=r"The ledger has no run zz\..*tidemill runs lists"):
        past_run("zz", project)
    with Ledger(ledger_file(project)).run("run"):
        pass
    with pytest.raises(ArgumentError, match=r"2 runs begin with : .*Give more of the id"):
        past_run("", project)


def test_pipeline_files_outside_of_projects_have_runs_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        with Ledger(ledger_file(tmp_path / name)).run(f"run {name}.sql", tmp_path / name):
            pass
    assert [run.command for run in past_runs(tmp_path / "one")] == ["run one.sql"]
    assert [run.command for run in past_runs()] == ["run two.sql", "run one.sql"]
    assert [run.command for run in past_runs(limit=1, command="run")] == ["run two.sql"]


def test_the_ledger_of_an_older_version_is_taken_over_with_what_was_wrong_in_it(project: Path):
    file = ledger_file(project)
    file.parent.mkdir()
    with closing(sqlite3.connect(file)) as db:
        db.executescript(VERSION_1)
    killed, failed, backfill = past_runs(project)
    assert (killed.status, failed.status, failed.ok, backfill.status) == ("interrupted", "failed", False, "ok")
    assert backfill.ended == "2024-01-31T21:00:01.500Z"
    (step,) = backfill.steps
    assert (step.mode, step.reason, step.rows_read) == ("backfill", "backfill from 2024-01-01", 7)
    assert failed.steps[0].rows_read is None
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("SELECT model_name, last_processed_value FROM model_state").fetchall() == [
            ("main.a", "2024-01-31")
        ]


def test_a_ledger_of_which_a_full_disk_has_left_an_empty_file_has_no_runs(project: Path):
    (project / "disk").mkdir()
    full = " && ".join(
        [
            "mount -t tmpfs -o size=32k none disk",
            "mkdir -p disk/.tidemill",
            "touch disk/tidemill.toml disk/.tidemill/ledger.db",
            "(cat /dev/zero > disk/filler || true)",
            "cd disk",
            shlex.join([sys.executable, "-m", "tidemill.cli.main", "runs"]),
        ]
    )
    separate = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", full]
    done = subprocess.run(separate, capture_output=True, text=True, check=True)
    assert done.stdout == "  no runs yet: the ledger has none of this folder\n"
