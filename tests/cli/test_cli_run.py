"""`tidemill run`, `plan`, `validate` and `list`, on the shared Spark: what they print, and how they end."""

from __future__ import annotations

import json
import os
import pty
import re
import resource
import shutil
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from pace import second

from tidemill.api.planning import catalog_of
from tidemill.api.workspace import Workspace
from tidemill.cli import Live
from tidemill.cli.run import Shown
from tidemill.errors import EngineError
from tidemill.execution import Outcome, RefreshReport, StepResult
from tidemill.execution.runner import Runner
from tidemill.model.record import Counts

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SHOP = """
SOURCE orders TYPE CSV PARAMS { "path": "data/orders/*.csv" } INCREMENTAL BY updated_at LOOKBACK 2 HOURS;
LOAD raw_orders FROM orders MODE MERGE ON order_id;
CREATE TABLE daily MODE INCREMENTAL_MERGE ON day OPTIONS { "kept_rows": "intended" } AS
SELECT date(updated_at) AS day, count(*) AS orders FROM raw_orders GROUP BY 1;
"""
HEADER = "order_id,updated_at"
STEP_KEYS = {
    *(
        "table",
        "status",
        "strategy",
        "first_run",
        "rebuilt",
        "batches",
        "rows_read",
        "bytes_read",
        "rows_written",
        "inserted",
        "updated",
        "deleted",
    ),
    *("unchanged", "ignored", "total", "window", "watermark", "version", "seconds", "notices", "checks", "joined"),
    *("refresh", "expectations", "error", "waits_for"),
}


def settled(text: str) -> str:
    """Without seconds and alignment, and the steps of a run in the order of their names."""
    text = re.sub(r" {2,}", "  ", re.sub(r"\d+\.\d s\b", "# s", text))
    return "\n".join(sorted(text.splitlines(), key=lambda line: line if line.startswith("  ✓") else ""))


@pytest.fixture
def shop(folder: Path, write_csv) -> Path:
    """A project with a pipeline, and three orders."""
    (folder / "tidemill.toml").write_text('name = "shop"\n')
    (folder / "pipelines").mkdir()
    (folder / "pipelines" / "shop.sql").write_text(SHOP)
    write_csv(
        folder / "data/orders/1.csv",
        "1,2024-01-01 10:00:00",
        "2,2024-01-01 12:00:00",
        "3,2024-01-02 09:00:00",
        header=HEADER,
    )
    return folder


@pytest.mark.usefixtures("spark")
def test_a_new_project_runs_a_second_day_is_a_small_run_and_then_there_is_nothing_to_do(
    folder: Path, cli, monkeypatch: pytest.MonkeyPatch
):
    cli("init", "shop")
    monkeypatch.chdir(folder / "shop")
    first = cli("run")
    assert first.exit_code == 0
    assert first.stdout.splitlines()[0] == "  Tidemill 0.1 · shop · embedded Spark · 4 steps   first run"
    assert settled("\n".join(first.stdout.splitlines()[1:])) == (
        "  done in # s · 3 tables changed · next: tidemill status\n"
        "  ✓ daily  loaded  62 rows  62 inserted  # s\n"
        "  ✓ out/daily.csv  exported  62 rows  # s\n"
        "  ✓ raw_customers  loaded  120 rows  120 inserted  # s\n"
        "  ✓ raw_orders  loaded  1,000 rows  on order_id · 1,000 inserted  # s"
    )
    shutil.copy("day2/orders.csv", "data/orders")
    second = cli("run")
    assert re.sub(r"\([\d.]+ kB\)", "(# kB)", settled(second.stdout)) == (
        "  Tidemill 0.1 · shop · embedded Spark · 4 steps\n"
        "  done in # s · 2 tables changed\n"
        "  ✓ daily  refreshed  64 rows  2 inserted · 11 updated · 51 unchanged"
        " · full refresh: its inputs are small (# kB), so that reading them whole is faster  # s\n"
        "  ✓ out/daily.csv  exported  64 rows  # s\n"
        "  ✓ raw_customers  up to date  its inputs are unchanged  # s\n"
        "  ✓ raw_orders  merged  57 rows  on order_id · 41 inserted · 9 updated · 7 unchanged"
        " · since 2024-01-31 21:00:00 UTC, lookback 2 hours  # s"
    )
    third = cli("run", "--summary")
    assert third.stdout == "  up to date · nothing read, nothing written\n"
    assert len((folder / "shop/out/daily.csv").read_text().splitlines()) == 65


@pytest.mark.usefixtures("spark")
def test_json_is_one_document_with_stable_keys_and_a_rerun_does_nothing(shop: Path, cli, write_csv):
    cli("run", "--quiet")
    write_csv(
        shop / "data/orders/2.csv", "4,2024-01-02 09:00:00", "5,2024-01-02 08:00:00", "1,2024-01-03 00:00:00",
        header=HEADER,
    )  # fmt: skip
    result = cli("run", "--format", "json")
    found = json.loads(result.stdout)
    assert (result.exit_code, result.stderr, found["ok"], found["project"]) == (0, "", True, "shop")
    assert [set(step) for step in found["steps"]] == [STEP_KEYS, STEP_KEYS]
    assert all(step.pop("seconds") > 0 for step in found["steps"])
    read = sum(file.stat().st_size for file in (shop / "data/orders").iterdir())
    assert found["steps"][0].pop("bytes_read") == read
    assert found["steps"][0] == {
        "table": "raw_orders",
        "status": "changed",
        "strategy": "merge upsert",
        "first_run": False,
        "rebuilt": False,
        "batches": 1,
        "rows_read": 4,
        "rows_written": 3,
        "inserted": 2,
        "updated": 1,
        "deleted": 0,
        "unchanged": 1,
        "ignored": 0,
        "total": 5,
        "window": {
            "column": "updated_at",
            "reason": "since 2024-01-02 09:00:00 UTC, lookback 2 hours",
            "start": "2024-01-02T07:00:00.000000Z",
            "exclusive": "false",
        },
        "watermark": "2024-01-03T00:00:00.000000Z",
        "version": 1,
        "notices": [],
        "checks": [],
        "expectations": [],
        "joined": None,
        "refresh": None,
        "error": None,
        "waits_for": None,
    }
    again = cli("run")
    assert again.stdout.splitlines()[-1] == "  up to date · nothing read, nothing written"
    assert cli("plan").stdout.splitlines()[1].split() == [
        *("raw_orders", "merge", "upsert", "on", "order_id"),
        *("up", "to", "date:", "its", "inputs", "are", "unchanged"),
    ]


BROKEN = """
CREATE TABLE broken AS SELECT no_such_column FROM daily;
CREATE TABLE report AS SELECT * FROM broken;
"""


@pytest.mark.usefixtures("spark")
def test_a_failing_third_step_ends_with_1_and_the_first_two_stay(shop: Path, cli):
    with (shop / "pipelines/shop.sql").open("a") as file:
        file.write(BROKEN)
    result = cli("run")
    lines = result.stdout.splitlines()
    assert result.exit_code == 1
    assert [line.split()[:2] for line in lines[1:4]] == [["✓", "raw_orders"], ["✓", "daily"], ["✗", "broken"]]
    assert "no_such_column" in lines[3]
    assert lines[-2:] == [
        "  - report      not run: it reads broken, which this run could not make",
        "  1 failed · 1 not run · 2 tables changed · what is done stays: fix the rest and run again",
    ]
    assert sorted(path.name for path in (shop / "warehouse/main").iterdir()) == ["daily", "raw_orders"]
    silent = cli("run", "--quiet")
    assert (silent.exit_code, silent.stdout) == (1, "")
    assert "✗ broken" in silent.stderr
    document = cli("run", "--format", "json")
    assert (document.exit_code, document.stderr) == (1, "")
    steps = json.loads(document.stdout)["steps"]
    assert [step["status"] for step in steps] == ["up to date", "up to date", "failed", "not run"]
    assert {frozenset(step) for step in steps} == {frozenset(STEP_KEYS)}
    assert set(steps[2]["error"]) == {"code", "problem", "remedy", "origin"}
    assert steps[3]["waits_for"] == "broken"


def test_a_dry_run_is_a_plan_and_writes_nothing(shop: Path, cli):
    planned, dry = cli("plan"), cli("run", "--dry-run")
    assert (planned.exit_code, planned.stdout) == (0, dry.stdout)
    assert planned.stdout == (
        "  table       strategy                  reads\n"
        "  raw_orders  merge upsert on order_id  first run\n"
        "  daily       merge upsert on day       first run\n"
    )
    assert cli("run", "--dry-run", "--quiet").output == ""
    assert json.loads(cli("plan", "--format", "json").stdout) == {
        "project": "shop",
        "steps": [
            {"table": "raw_orders", "strategy": "merge upsert on order_id", "reason": "first run", "notices": []},
            {"table": "daily", "strategy": "merge upsert on day", "reason": "first run", "notices": []},
        ],
        "exports": [],
    }
    assert not (shop / "warehouse").exists()


@pytest.mark.usefixtures("shop")
def test_list_shows_what_is_declared_in_order(cli):
    assert cli("list").stdout == (
        "  name        strategy      reads       declared in\n"
        "  raw_orders  merge upsert  orders      pipelines/shop.sql:3:1\n"
        "  daily       merge upsert  raw_orders  pipelines/shop.sql:4:1\n"
    )
    assert json.loads(cli("list", "--format", "json").stdout)["declared"][1] == {
        "name": "daily",
        "strategy": "merge upsert",
        "reads": ["raw_orders"],
        "origin": "pipelines/shop.sql:4:1",
    }


def test_all_errors_of_a_file_come_at_once_with_2_and_nothing_is_run(shop: Path, cli):
    (shop / "pipelines/shop.sql").write_text(
        'SOURCE orders TYPE CSV PARAMS { "path": "x.csv" };\n'
        "LAOD raw FROM orders;\n"
        "LOAD other FROM orders MODE MERGE;\n"
    )
    for command in ("validate", "run", "plan", "list"):
        result = cli(command)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "error[language.unknown_statement]" in result.stderr
        assert "pipelines/shop.sql:2:1\n    2 │ LAOD raw FROM orders;\n      │ ^^^^ did you mean LOAD?" in result.stderr
        assert result.stderr.endswith("2 errors · nothing was run\n")
    error = json.loads(cli("validate", "--format", "json").stdout)["error"]
    assert (error["code"], error["problem"], len(error["errors"])) == ("files.errors", "2 errors", 2)
    assert error["errors"][0]["origin"] == "pipelines/shop.sql:2:1"
    assert set(error["errors"][1]) == {"code", "problem", "remedy", "origin"}


def test_outside_of_a_project_the_error_says_what_to_do(cli):
    result = cli("run")
    assert result.exit_code == 2
    assert "Make a project with tidemill init NAME, or name a pipeline file or a Python file." in result.stderr


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("command", ["validate", "plan", "list"])
def test_no_spark_is_imported_and_it_takes_less_than_a_second(shell, command: str):
    code = (
        "import sys; from tidemill.cli.main import tidemill\n"
        f"try: tidemill.main(['{command}'])\n"
        "finally: print(sorted({'pyspark', 'py4j', 'pandas', 'rich'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
    assert min(_seconds(lambda: shell(command)) for _ in range(3)) < second()


def _seconds(call) -> float:
    """The work of a process, which is its wall-clock time on a machine that does nothing else."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert call().returncode == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.usefixtures("shop")
def test_a_step_that_is_not_tried_says_why(capsys: pytest.CaptureFixture[str]):
    shown = Shown(Workspace.load(), Live("starting Spark", quiet=True))
    shown.ended(Outcome("main.daily", waits_for="main.raw_orders"))
    shown.ended(Outcome("main.raw_orders", waits_for="main.daily"))
    assert capsys.readouterr().out == (
        "  - daily       not run: it reads raw_orders, which this run could not make\n"
        "  - raw_orders  not run: daily failed, and --fail-fast starts nothing more\n"
    )


def test_sums_that_are_added_up_are_shown_with_their_groups(folder: Path, capsys: pytest.CaptureFixture[str]):
    (folder / "shop.sql").write_text(SHOP)
    report = RefreshReport("incremental", "", "summed", "region", {"main.raw_orders": 1447}, 4)
    step = StepResult("main.daily", "changed", "materialized_view", counts=Counts(updated=4), refresh=report)
    shown = Shown(Workspace.load(folder / "shop.sql"), Live("starting Spark", quiet=True))
    shown.ended(Outcome("main.daily", step))
    whole = replace(report, key="one row", keys=None)
    shown.ended(Outcome("main.daily", replace(step, refresh=whole, counts=Counts(updated=1))))
    said = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "1,447 changed rows of raw_orders · sums are added up · 4 groups · 4 updated" in said[0]
    assert "1,447 changed rows of raw_orders · sums are added up · 1 updated" in said[1]


def test_lines_reach_a_file_while_the_terminal_shows_what_is_being_done(tmp_path: Path):
    code = (
        "from tidemill.cli import render\nfrom tidemill.cli import Live\n"
        "with Live('starting Spark', quiet=False) as live:\n"
        "    live.began('raw_orders'); render.say('a line'); live._progress.refresh(); live.ended('raw_orders')"
    )
    terminal, end = pty.openpty()
    env = {**os.environ, "TERM": "xterm"}
    command = [sys.executable, "-c", code]
    lines = tmp_path / "lines.txt"
    with lines.open("w") as file:
        subprocess.run(command, stdout=file, stderr=end, env=env, check=True)
    os.close(end)
    seen = os.read(terminal, 65536).decode()
    os.close(terminal)
    assert lines.read_text() == "a line\n"
    assert "raw_orders" in seen
    assert "a line" not in seen


class Told(Live):
    """A terminal that remembers what it showed."""

    def __init__(self) -> None:
        super().__init__("reading logs", quiet=True)
        self.told: list[str] = []

    def began(self, name: str) -> None:
        self.told.append(f"{name} …")

    def ended(self, name: str) -> None:
        self.told.append(f"{name} done")


def test_a_terminal_says_that_spark_starts_as_long_as_it_does(folder: Path):
    """It starts inside the first step that needs it, and not at all where none does."""
    (folder / "p.sql").write_text("CREATE TABLE a AS SELECT 1 AS id;")
    workspace, live = Workspace.load("p.sql"), Told()

    def no_java() -> SparkSession:
        live.told.append("Java")
        raise EngineError("engine.no_java", "There is no Java.", "Install one.")

    runner = Runner(no_java, workspace.graph, catalog_of(workspace), listener=Shown(workspace, live, lines=False))
    assert not runner.run().ok
    assert live.told == ["a …", "starting Spark …", "Java", "starting Spark done", "a done"]
