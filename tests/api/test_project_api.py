"""A project is loaded, planned, run and verified from Python."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest

import tidemill
from tidemill.errors import ArgumentError, TableError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIPELINE = """
SOURCE orders TYPE CSV PARAMS { "path": "data/*.csv" } INCREMENTAL BY at LOOKBACK 2 HOURS;
LOAD raw_orders FROM orders MODE MERGE ON id;
CREATE TABLE daily MODE INCREMENTAL_MERGE ON day OPTIONS { "kept_rows": "intended" } AS
SELECT date(at) AS day, count(*) AS orders FROM raw_orders WHERE region = '${region|eu}' GROUP BY 1;
EXPORT daily TO "out/daily.csv" TYPE CSV;
"""
BROKEN = """
SOURCE gone TYPE CSV PARAMS { "path": "data/${env:HIDDEN}/gone.csv" };
LOAD raw_gone FROM gone;
CREATE TABLE report AS SELECT * FROM raw_gone;
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with two orders of one region and one of another."""
    (tmp_path / "tidemill.toml").write_text('name = "shop"\n[profiles.prod.warehouse]\npath = "lake"\n')
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "shop.sql").write_text(PIPELINE)
    write(tmp_path / "data/1.csv", "1,2024-01-01 10:00:00,eu", "2,2024-01-02 11:00:00,eu", "3,2024-01-02 12:00:00,us")
    return tmp_path


def write(path: Path, *rows: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(["id,at,region", *rows, ""]))


def statuses(result: Any) -> dict[str, str]:
    return {step.table: step.status for step in result.steps}


def test_a_run_reports_every_step(spark: SparkSession, folder: Path) -> None:
    project = tidemill.Project.load(folder)
    first = project.run(spark=spark)
    assert first.ok
    assert statuses(first) == {"raw_orders": "created", "daily": "created", "out/daily.csv": "exported"}
    write(folder / "data/2.csv", "2,2024-01-02 11:30:00,us", "4,2024-01-03 00:00:00,eu")
    raw, daily, export = project.run(spark=spark).steps
    assert (raw.rows_read, raw.rows_written, raw.inserted, raw.updated, raw.unchanged) == (4, 2, 1, 1, 1)
    assert (raw.deleted, raw.ignored, raw.total, raw.version, raw.strategy) == (0, 0, 4, 1, "merge upsert")
    assert raw.window is not None
    assert (raw.window.column, raw.window.start, raw.window.end) == ("at", datetime(2024, 1, 2, 10, tzinfo=UTC), None)
    assert raw.window.reason == "since 2024-01-02 12:00:00 UTC, lookback 2 hours"
    assert raw.watermark == datetime(2024, 1, 3, tzinfo=UTC)
    assert raw.seconds > 0
    assert (raw.error, daily.window, daily.watermark) == (None, None, None)
    assert (daily.inserted, export.rows_written) == (1, 3)
    with closing(sqlite3.connect(folder / ".tidemill" / "ledger.db")) as ledger:
        kept = ledger.execute("SELECT table_name, status FROM steps ORDER BY step_id").fetchall()
    assert sorted(kept) == [
        ("daily", "changed"),
        ("daily", "created"),
        ("out/daily.csv", "exported"),
        ("out/daily.csv", "exported"),
        ("raw_orders", "changed"),
        ("raw_orders", "created"),
    ]


def test_tables_are_selected_variables_given_and_bounds_set(spark: SparkSession, folder: Path) -> None:
    project = tidemill.Project.load(folder, vars={"region": "us"})
    assert statuses(project.run("raw_orders", spark=spark)) == {"raw_orders": "created"}
    assert statuses(project.run(["daily"], spark=spark)) == {"daily": "created"}
    assert project.run(["+daily"], vars={"region": "eu"}, spark=spark).steps[1].inserted == 1
    again = project.run(
        exclude=["out/*", "daily"], start=date(2024, 1, 1), end=datetime(2024, 1, 2, 12, tzinfo=UTC), spark=spark
    )
    (raw,) = again.steps
    assert raw.window is not None
    assert (raw.window.start, raw.window.end) == (
        datetime(2024, 1, 1, tzinfo=UTC),
        datetime(2024, 1, 2, 12, tzinfo=UTC),
    )
    assert raw.rows_read == 2
    (rebuilt,) = project.run("raw_orders", full_refresh=True, spark=spark).steps
    assert (rebuilt.total, rebuilt.status) == (3, "unchanged")


def test_a_failed_step_raises_nothing_and_shows_no_secret(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIDDEN", "hidden-place")
    (folder / "pipelines" / "broken.sql").write_text(BROKEN)
    result = tidemill.Project.load(folder).run(select=["raw_gone+"], spark=spark)
    failed, waiting = result.steps
    assert (result.ok, failed.status, failed.ok) == (False, "failed", False)
    assert isinstance(failed.error, tidemill.TidemillError)
    assert "data/***/gone.csv" in failed.error.problem
    assert "hidden-place" not in str(failed.error)
    assert (waiting.status, waiting.waits_for, waiting.error) == ("not run", "raw_gone", None)


def test_tables_are_verified(spark: SparkSession, folder: Path) -> None:
    project = tidemill.Project.load(folder)
    project.run(spark=spark)
    assert [(each.table, each.equal) for each in project.verify(spark=spark)] == [
        ("raw_orders", True),
        ("daily", True),
    ]
    write(folder / "data/1.csv", "1,2024-01-01 10:00:00,eu")
    (raw,) = project.verify("raw_orders", spark=spark)
    assert (raw.outcome, raw.equal, raw.ok, raw.kept.count) == ("kept", False, True, 2)


def test_a_table_is_backed_up_restored_and_dropped(spark: SparkSession, folder: Path) -> None:
    project = tidemill.Project.load(folder, profile="prod")
    assert project.run("raw_orders", spark=spark).ok
    copied = project.backup("raw_orders", "orders_kept", spark=spark)
    assert (copied.path, copied.total) == (str(folder / "lake/main/orders_kept"), 3)
    write(folder / "data/2.csv", "4,2024-01-03 00:00:00,eu")
    assert project.run("raw_orders", spark=spark).steps[0].total == 4
    back = project.restore("raw_orders", backup="orders_kept", spark=spark)
    assert (back.total, back.watermark, back.undo) == (3, "2024-01-02 12:00:00 UTC", 1)
    gone = project.drop(folder / "lake/main/raw_orders")
    assert (gone.rows, (folder / "lake/main/raw_orders").exists()) == (3, False)
    assert project.restore("raw_orders", backup=Path(copied.path), spark=spark).version == 0
    with closing(sqlite3.connect(folder / ".tidemill" / "ledger.db")) as ledger:
        kept = ledger.execute("SELECT command FROM runs ORDER BY started").fetchall()
    assert [command for (command,) in kept if not command.startswith("run")] == [
        "backup raw_orders --to orders_kept",
        "restore raw_orders --from orders_kept",
        f"drop {folder}/lake/main/raw_orders",
        f"restore raw_orders --from {copied.path}",
    ]


def test_what_cannot_be_copied_restored_or_dropped_is_reported_without_spark(folder: Path) -> None:
    (folder / "models/main").mkdir(parents=True)
    (folder / "models/main/stats.sql").write_text("SELECT 1 AS id")
    (folder / "models/main/stats.py").write_text('metadata = {"reset_allowed": False}\n')
    deltalake.write_deltalake(folder / "warehouse/main/stats", pa.table({"id": [1]}))
    project = tidemill.Project.load(folder)
    with pytest.raises(TableError, match="stats is declared reset_allowed = false: its rows of history would be") as no:
        project.drop("stats")
    assert no.value.origin is not None
    for wrong, problem in (
        (lambda: project.drop("stat"), "There is no table stat."),
        (lambda: project.backup("stat"), "There is no table at "),
        (lambda: project.backup("stats", "stats"), "There is a table at "),
        (lambda: project.restore("stats", backup="gone"), "There is no table at "),
        (lambda: project.restore("stats"), "A restore goes back to one of three"),
        (lambda: project.restore("stats", at="tomorrow"), "'tomorrow' is no moment."),
        (lambda: project.drop("main.stats.old.er"), "'main.stats.old.er' is no name of a table."),
    ):
        with pytest.raises(ArgumentError, match=problem):
            wrong()


def test_a_plan_and_the_tables_need_no_spark(folder: Path) -> None:
    project = tidemill.Project.load(folder / "pipelines")
    assert [table.name for table in project.tables] == ["raw_orders", "daily"]
    assert [(step.table, step.reason) for step in project.plan("+daily")] == [
        ("raw_orders", "first run"),
        ("daily", "first run"),
    ]
    planned = project.plan("raw_orders", start="2024-01-01", end=date(2024, 1, 31), batch="7 days")
    assert [step.reason for step in planned] == ["backfill from 2024-01-01 to 2024-01-31 by 7 days"]
    assert tidemill.Project.load(folder, profile="prod").tables[0].path == str(folder / "lake/main/raw_orders")


def test_files_are_read_again_at_every_call(folder: Path) -> None:
    project = tidemill.Project.load(folder)
    (folder / "pipelines" / "more.sql").write_text("CREATE TABLE more AS SELECT 1 AS one;")
    assert len(project.tables) == 3


def test_wrong_arguments_are_errors_that_are_value_errors(folder: Path) -> None:
    project = tidemill.Project.load(folder)
    for wrong, problem in (
        ({"select": "dialy"}, "Nothing is selected by dialy."),
        ({"vars": {"region": ["eu"]}}, "region is a list."),
        ({"vars": "region=eu"}, "vars is a str."),
        ({"start": 1.5j}, "start is a complex."),
        ({"full_refresh": True, "start": "2024-01-01"}, "A full refresh reads everything"),
    ):
        with pytest.raises(ArgumentError, match=problem) as failure:
            project.run(**wrong)
        assert isinstance(failure.value, ValueError)
    with pytest.raises(ArgumentError, match="There is no profile prd"):
        tidemill.Project.load(folder, profile="prd")
    with pytest.raises(ArgumentError, match=r"There is no tidemill\.toml in "):
        tidemill.Project.load(folder.parent)
    with pytest.raises(ArgumentError, match=r"There is no .*/shpo\."):
        tidemill.Project.load(folder / "shpo")


def test_importing_and_loading_imports_no_spark(folder: Path) -> None:
    code = (
        "import sys, tidemill\n"
        "heavy = set('pyspark py4j pandas pyarrow deltalake sqlglot click rich httpx tenacity'.split())\n"
        "print(sorted(heavy & set(sys.modules)))\n"
        f"tidemill.Project.load({str(folder)!r}).plan()\n"
        "print(sorted({'pyspark', 'py4j', 'pandas', 'click', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n[]\n"
