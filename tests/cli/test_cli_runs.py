"""What the ledger shows of runs: `tidemill runs`, `tidemill status`, and the JSON of a run."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import pytest

from tidemill import Project
from tidemill.ledger import Ledger, Step, ledger_file, now
from tidemill.model.record import Counts

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
SOURCE visits TYPE CSV PARAMS {"path": "visits.csv", "cursor_field": "day", "types": {"day": "date"}};
LOAD visits FROM visits MODE APPEND;
SOURCE pages TYPE CSV PARAMS {"path": "${env:PAGES}/pages.csv"};
LOAD pages FROM pages;
CREATE TABLE per_page AS SELECT page, count(*) AS visits FROM visits JOIN pages USING (page) GROUP BY page;
"""


@pytest.fixture
def shop(folder: Path, write_csv, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PAGES", "/nowhere/s3cret")
    (folder / "tidemill.toml").write_text('name = "shop"\n')
    (folder / "pipelines").mkdir()
    (folder / "pipelines" / "p.sql").write_text(PIPELINE)
    write_csv(folder / "visits.csv", "home,2024-01-01", "help,2024-01-02", header="page,day")
    return folder


def test_a_run_is_remembered_with_errors_reasons_and_what_was_skipped(shop: Path, cli, spark):  # noqa: ARG001
    failed = cli("run", "--format", "json")
    told = json.loads(failed.output)
    assert failed.exit_code == 2, "a file is missing"
    assert told["started"] < told["ended"]
    assert next(step["seconds"] for step in told["steps"] if step["status"] == "failed") > 0
    (run,) = json.loads(cli("runs", "--format", "json").output)["runs"]
    assert (run["run_id"], run["ok"], run["status"]) == (told["run_id"], False, "failed")
    steps = {step["table"]: step for step in run["steps"]}
    visits, pages, per_page = (steps[name] for name in ("visits", "pages", "per_page"))
    assert (visits["mode"], visits["reason"], visits["rows_read"]) == ("first", "first run", 2)
    assert visits["bytes_read"] == (shop / "visits.csv").stat().st_size
    assert (pages["status"], pages["rows_read"], pages["bytes_read"]) == ("failed", None, None)
    assert (pages["mode"], pages["reason"]) == ("first", "first run")
    assert pages["error"] == "The source pages could not be read: There is nothing at ***/pages.csv."
    assert "s3cret" not in json.dumps(run)
    assert (per_page["status"], per_page["mode"]) == ("not run", "skipped")
    assert per_page["reason"] == "pages was not made by this run"

    cli("run", "-s", "visits")
    with (shop / "visits.csv").open("a") as file:
        file.write("home,2024-01-03\n")
    cli("run", "-s", "visits")
    cli("run", "-s", "visits", "--start", "2024-01-01")
    backfill, more, nothing, _ = json.loads(cli("runs", "--format", "json").output)["runs"]
    assert (nothing["steps"][0]["mode"], nothing["steps"][0]["reason"]) == (
        "skipped",
        "up to date: its inputs are unchanged",
    )
    assert (more["steps"][0]["mode"], more["steps"][0]["inserted"]) == ("incremental", 1)
    assert more["steps"][0]["reason"].startswith("since 2024-01-02")
    assert (backfill["command"], backfill["steps"][0]["mode"]) == ("run --start 2024-01-01", "backfill")
    saved = json.loads(cli("status", "--format", "json").output)["tables"][0]["saved"]
    assert (saved["runs"], saved["rows_read"], saved["full_rows_read"]) == (2, 1, 2)
    assert [each.run_id for each in Project.load(shop).runs(limit=1)] == [backfill["run_id"]]

    assert cli("verify", "visits").exit_code == 0
    (verified, *_) = json.loads(cli("runs", "--format", "json").output)["runs"]
    assert (verified["command"], verified["ok"]) == ("verify visits", True)
    assert [(step["mode"], step["status"]) for step in verified["steps"]] == [("verify", "equal")]


def step(name: str, status: str, at: str, **facts: object) -> Step:
    path = str(facts.pop("path", f"/{name}"))
    return Step(f"main.{name}", path, "append", str(facts.pop("mode", "incremental")), status, at, **facts)  # type: ignore[arg-type]


def keep(folder: Path, *steps: Step) -> str:
    with Ledger(ledger_file(folder)).run("run") as run:
        for each in steps:
            run.add(each)
    return run.run_id


def settled(text: str, *ids: str) -> str:
    for number, each in enumerate(ids, 1):
        text = text.replace(each, f"ID{number}").replace(each[:8], f"ID{number:<6}")
    text = re.sub(r"today \d\d:\d\d", "today ##:##", text)
    return text.replace("0.0 s", "### s")


def test_runs_are_listed_newest_first_and_one_is_shown_with_its_steps(shop: Path, cli):
    at = "2024-01-01T00:00:00.000Z"
    read = {"rows_read": 7, "bytes_read": 1234, "counts": Counts(5, 2), "seconds": 1.24, "reason": "since 2023-12-31"}
    first = keep(shop, step("visits", "changed", at, **read))
    error = {"error_code": "source.missing", "error": "There is no pages.csv.", "seconds": 0.31}
    waits = step("per_page", "not run", at, mode="skipped", reason="main.pages was not made by this run")
    second = keep(shop, step("pages", "failed", at, **error), waits)
    assert settled(cli("runs").output, first, second) == (
        "  run       started      command  status  steps                 took\n"
        "  ID2       today ##:##  run      failed  1 failed, 1 not run  ### s\n"
        "  ID1       today ##:##  run      ok      1 changed            ### s\n"
    )
    assert settled(cli("runs", first[:5]).output, first).splitlines()[1:] == [
        "  table        status   mode         read            written   took  why",
        "  main.visits  changed  incremental  7 rows, 1.2 kB  +5 ~2    1.2 s  since 2023-12-31",
    ]
    shown = cli("runs", second).output
    assert "✗ main.pages  error[source.missing] There is no pages.csv." in shown
    assert "main.pages was not made by this run" in shown
    assert cli("runs", "nothing").stderr == (
        "error[runs.unknown] The ledger has no run nothing.\n  tidemill runs lists those that it has.\n"
    )
    assert cli("runs", "--limit", 1, "--format", "json").output.count('"run_id"') == 1


def test_a_run_that_was_interrupted_is_shown_with_its_seconds_and_no_error(shop: Path, cli):
    with suppress(KeyboardInterrupt), Ledger(ledger_file(shop)).run("run") as run:
        run.add(step("visits", "running", now()))
        raise KeyboardInterrupt
    (shown,) = json.loads(cli("runs", "--format", "json").output)["runs"]
    (visits,) = shown["steps"]
    assert (shown["status"], shown["error_code"], visits["status"]) == ("interrupted", "interrupted", "interrupted")
    assert visits["seconds"] is not None
    assert settled(cli("runs", run.run_id).output).splitlines()[1:] == [
        "  table        status       mode          took",
        "  main.visits  interrupted  incremental  ### s",
    ]


def test_status_has_the_reason_of_a_failure_beside_it_and_ends_with_a_total(folder: Path, cli):
    (folder / "p.sql").write_text("CREATE TABLE a AS SELECT 1 AS id;\nCREATE TABLE b AS SELECT 2 AS id;")
    a, b = (str(folder / "warehouse" / "main" / name) for name in "ab")
    failed = step("a", "failed", "2024-01-01T00:00:00.000Z", path=a, error_code="query.failed", error="No column x.")
    with Ledger(ledger_file(folder)).run("run p.sql", folder) as run:
        run.add(failed)
        run.add(step("b", "running", "2024-01-01T00:00:00.000Z", path=b))
        assert "b      not run yet  2024-01-01 00:00 running" in cli("status").output
    with closing(sqlite3.connect(ledger_file(folder))) as db, db:
        db.execute("UPDATE steps SET status = 'running' WHERE path = ?", (b,))
    shown = settled(cli("status").output).splitlines()
    assert shown[1:] == [
        "  a      not run yet  2024-01-01 00:00 failed",
        "  b      not run yet  2024-01-01 00:00 interrupted",
        "  ✗ a  failed: error[query.failed] No column x.",
        "  ! b  interrupted: nothing is half written, tidemill run takes it up",
        "  2 tables · 0 rows · last run today ##:## failed",
        "  next: tidemill run",
    ]


@pytest.mark.parametrize(
    ("read", "total"),
    [
        # the source has grown; all is read each time
        ({"a": (("first", 3), ("incremental", 4)), "b": (("first", 90), ("full", 80))}, ""),
        (
            {"a": (("first", 3), ("full", 4)), "b": (("first", 90), ("incremental", 5))},
            " · saved: all runs since the first read 9 rows, full ones would have read 94",
        ),
    ],
)
def test_status_says_what_was_saved_only_where_runs_read_less_than_full_ones(
    folder: Path, cli, read: dict[str, tuple[tuple[str, int], ...]], total: str
):
    (folder / "p.sql").write_text("CREATE TABLE a AS SELECT 1 AS id;\nCREATE TABLE b AS SELECT 2 AS id;")
    for number in range(2):
        with Ledger(ledger_file(folder)).run("run p.sql", folder) as run:
            for name, steps in read.items():
                facts = {"mode": steps[number][0], "rows_read": steps[number][1], "seconds": 1.0}
                path = str(folder / "warehouse" / "main" / name)
                run.add(step(name, "changed", f"2024-01-0{number + 1}T00:00:00.000Z", path=path, **facts))
    shown = settled(cli("status").output).splitlines()
    assert shown[3] == f"  2 tables · 0 rows · last run today ##:## ok{total}"
    assert ("a run reads" in shown[1], "a run reads 5 rows instead of 90" in shown[2]) == (False, bool(total))


def test_last_changed_is_the_time_of_the_commit(folder: Path, cli, make_table):
    import pyarrow as pa  # noqa: PLC0415

    (folder / "p.sql").write_text("CREATE TABLE a AS SELECT 1 AS id;")
    path = make_table("main.a", pa.table({"id": [1]}), at="2024-02-01T06:00:00.000Z")
    entry = path / "_delta_log" / f"{0:020d}.json"
    entry.write_text(re.sub(r'"timestamp": \d+', '"timestamp": 1706774460000', entry.read_text()))
    (found,) = json.loads(cli("status", "--format", "json").output)["tables"]
    assert found["changed_at"] == "2024-02-01T08:01:00.000Z"
