"""The ledger: history for people, which nothing depends on."""

from __future__ import annotations

import logging
import multiprocessing
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from tidemill import Record
from tidemill.errors import MergeError
from tidemill.execution.journal import rebuild
from tidemill.ledger import Ledger, Step, ledger_file
from tidemill.model.cursor import cursor
from tidemill.model.record import Counts

STEP = Step(
    table="shop.orders",
    path="/lake/orders",
    strategy="merge upsert",
    mode="incremental",
    status="changed",
    at="2024-01-31T21:00:00.000Z",
    counts=Counts(inserted=41, updated=9, unchanged=7),
    rows_read=57,
    version=12,
    window='{"column": "at"}',
    watermark="2024-01-31T21:00:00.000000Z",
    seconds=0.9,
    commit_id="abc-0",
)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / ".tidemill" / "ledger.db")


def keep(ledger: Ledger, *steps: Step) -> None:
    with ledger.run("run") as run:
        for step in steps:
            run.add(step)


def test_a_run_and_its_steps_are_kept(ledger: Ledger):
    keep(ledger, STEP)
    (run,) = ledger.query("SELECT * FROM runs")
    assert (run["command"], run["ok"]) == ("run", 1)
    assert run["seconds"] >= 0
    (step,) = ledger.query("SELECT * FROM steps")
    assert step["run_id"] == run["run_id"]
    assert {name: step[name] for name in ("table_name", "inserted", "updated", "unchanged", "version")} == {
        "table_name": "shop.orders",
        "inserted": 41,
        "updated": 9,
        "unchanged": 7,
        "version": 12,
    }


def test_anyone_can_ask_for_the_state_of_a_model(ledger: Ledger):
    later = replace(STEP, at="2024-02-01T21:00:00.000Z", commit_id=None, status="unchanged", counts=Counts())
    failed = replace(later, at="2024-02-02T21:00:00.000Z", status="failed", error_code="merge.null_keys")
    not_run = replace(later, at="2024-02-03T21:00:00.000Z", status="not run", mode="skipped")
    verified = replace(later, at="2024-02-04T21:00:00.000Z", status="unchanged", mode="verify")
    for step in (later, STEP, failed, not_run, verified):
        keep(ledger, step)
    with closing(sqlite3.connect(ledger.file)) as db:
        db.row_factory = sqlite3.Row
        (state,) = db.execute("SELECT * FROM model_state WHERE model_name = 'shop.orders'").fetchall()
    assert dict(state) == {
        "model_name": "shop.orders",
        "path": "/lake/orders",
        "strategy": "merge upsert",
        "mode": "incremental",
        "status": "unchanged",
        "last_execution_timestamp": "2024-02-01T21:00:00.000Z",
        "last_processed_value": "2024-01-31T21:00:00.000000Z",
        "rows_read": 57,
        "rows_written": 0,
        "inserted": 0,
        "updated": 0,
        "deleted": 0,
        "unchanged": 0,
        "ignored": 0,
        "version": 12,
        "seconds": 0.9,
    }


def test_a_failed_run_is_kept_as_one(ledger: Ledger):
    with pytest.raises(MergeError), ledger.run("merge a b"):
        raise MergeError("merge.null_keys", "No.", "Do.")
    assert [row["ok"] for row in ledger.query("SELECT ok FROM runs")] == [0]


def test_a_run_that_was_killed_has_begun_and_not_ended(ledger: Ledger):
    with ledger.run("merge a b"):
        (run,) = ledger.query("SELECT ok, seconds FROM runs")
    assert tuple(run) == (None, None)


def test_asking_before_anything_was_kept_gives_nothing(ledger: Ledger):
    assert ledger.query("SELECT * FROM runs") == []
    assert not ledger.file.exists()


def test_a_deleted_ledger_is_created_again(ledger: Ledger):
    keep(ledger, STEP)
    ledger.file.unlink()
    keep(ledger, STEP)
    assert len(ledger.query("SELECT * FROM steps")) == 1


def test_a_ledger_deleted_during_a_run_still_gets_the_whole_run(ledger: Ledger):
    with ledger.run("run") as run:
        ledger.file.unlink()
        run.add(STEP)
    assert len(ledger.query("SELECT * FROM runs")) == 1


@pytest.mark.parametrize("what", ["damaged", "a folder", "newer"])
def test_a_ledger_that_cannot_be_used_is_a_warning_and_the_run_goes_on(
    ledger: Ledger, caplog: pytest.LogCaptureFixture, what: str
):
    ledger.file.parent.mkdir()
    if what == "damaged":
        ledger.file.write_bytes(b"this is no database, and long enough to be seen as none" * 100)
    elif what == "a folder":
        ledger.file.mkdir()
    else:
        with closing(sqlite3.connect(ledger.file)) as db:
            db.execute("PRAGMA user_version = 99")
    with caplog.at_level(logging.WARNING, "tidemill"):
        keep(ledger, STEP)
    assert len(caplog.records) == 1
    expected = {
        "damaged": "file is not a database",
        "a folder": "unable to open database file",
        "newer": "was written by a later version of Tidemill",
    }
    assert expected[what] in caplog.text
    assert "Tables and their progress do not depend on it" in caplog.text


def _many_runs(file: str, name: str) -> None:
    for number in range(25):
        keep(Ledger(Path(file)), replace(STEP, table=name, commit_id=f"{name}-{number}-0"))


def test_two_processes_keep_all_their_runs(ledger: Ledger):
    context = multiprocessing.get_context("spawn")
    both = [context.Process(target=_many_runs, args=(str(ledger.file), name)) for name in ("one", "two")]
    for process in both:
        process.start()
    for process in both:
        process.join(60)
    assert [process.exitcode for process in both] == [0, 0]
    counted = ledger.query("SELECT table_name, count(*) FROM steps GROUP BY 1 ORDER BY 1")
    assert [tuple(row) for row in counted] == [("one", 25), ("two", 25)]
    assert ledger.query("SELECT count(*) FROM runs WHERE ok = 1")[0][0] == 50


def test_a_project_is_found_from_any_folder_in_it(tmp_path: Path):
    (tmp_path / "tidemill.toml").touch()
    (tmp_path / "models" / "shop").mkdir(parents=True)
    assert ledger_file(tmp_path / "models" / "shop") == tmp_path / ".tidemill" / "ledger.db"


def test_outside_of_projects_the_ledger_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert ledger_file(tmp_path) == tmp_path / "state" / "tidemill" / "ledger.db"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert ledger_file(tmp_path) == tmp_path / ".local" / "state" / "tidemill" / "ledger.db"


def commit(path: Path, number: int, record: Record | None) -> None:
    """An append by somebody, or, with a record, by us."""
    mark = deltalake.CommitProperties({"userMetadata": record.to_json()}) if record else None
    rows = pa.table({"id": [number, number + 100]})
    deltalake.write_deltalake(path, rows, mode="append", commit_properties=mark)


def record(number: int) -> Record:
    return Record(
        run_id=f"run{number}-0",
        table="shop.events",
        sequence=number,
        strategy="append",
        at=f"2024-01-0{number}T00:00:00.000Z",
        rows=3,
        counts={"inserted": 2},
        window={"column": "id", "reason": "first run"},
        progress={"source": cursor("integer", str(number))},
    )


def test_steps_are_read_back_from_the_tables_own_logs(ledger: Ledger, tmp_path: Path):
    path = tmp_path / "events"
    for number, kept in ((1, record(1)), (2, None), (3, record(3))):
        commit(path, number, kept)
    assert rebuild(ledger, [str(path), str(tmp_path / "gone")]) == 2
    rows = ledger.query(
        "SELECT run_id, table_name, path, mode, status, inserted, unchanged, version, watermark FROM steps ORDER BY at"
    )
    assert [tuple(row) for row in rows] == [
        ("run1", "shop.events", str(path), "first", "created", 2, 1, 0, "1"),
        ("run3", "shop.events", str(path), "incremental", "changed", 2, 1, 2, "3"),
    ]
    (state,) = ledger.query("SELECT version, last_processed_value FROM model_state")
    assert tuple(state) == (2, "3")


def test_reading_back_adds_only_what_is_missing(ledger: Ledger, tmp_path: Path):
    path = tmp_path / "events"
    commit(path, 1, record(1))
    keep(ledger, replace(STEP, path=str(path), commit_id="run1-0"))
    commit(path, 3, record(3))
    assert rebuild(ledger, [str(path)]) == 1
    assert rebuild(ledger, [str(path)]) == 0
    kept = ledger.query("SELECT seconds FROM steps WHERE commit_id = 'run1-0'")
    assert [row["seconds"] for row in kept] == [0.9]
