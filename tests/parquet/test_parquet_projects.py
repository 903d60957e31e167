"""A project whose warehouse is of Parquet datasets: the same pipelines, windows, records and proofs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import tidemill as tm
from tidemill.api.workspace import Workspace
from tidemill.cli.main import tidemill
from tidemill.formats.parquet.folder import Folder
from tidemill.formats.registry import format_at

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result
    from pyspark.sql import SparkSession

PIPELINE = """
SOURCE orders TYPE CSV PARAMS {"path": "data/*.csv", "cursor_field": "at", "primary_key": ["id"]};
LOAD raw_orders FROM orders MODE MERGE ON id;
CREATE TABLE by_region MODE MERGE ON region OPTIONS {"partition_by": ["region"]}
  AS SELECT region, count(*) AS orders, sum(amount) AS amount FROM raw_orders GROUP BY region;
"""
MODEL = "SELECT region, sum(amount) AS amount FROM main.raw_orders GROUP BY region"
METADATA = """
metadata = {
    "format": "parquet",
    "materialization": "incremental",
    "incremental": {"strategy": "merge", "merge": {"unique_key": ["region"]}},
}
"""
FUNCTION = """
import tidemill

@tidemill.table(
    name="shop.days", keys="day", time_column="day", start="2024-01-01", schema="day DATE, rank INT", format="parquet"
)
def days(run):
    return [{"day": day, "rank": day.day} for day in run.dates]
"""
OVERTAKEN = """
import pathlib, pyarrow, tidemill

@tidemill.table(name="shop.scores", keys="id", schema="id BIGINT, score STRING", format="parquet")
def scores(run):
    meanwhile = pathlib.Path("meanwhile")
    if meanwhile.exists():
        meanwhile.unlink()
        theirs = pyarrow.table({"id": [2], "score": ["theirs"]})
        tidemill.merge_parquet_dataset(theirs, "warehouse/shop/scores", "id", "upsert")
    if run.mode == "first":
        return [{"id": 1, "score": "first"}, {"id": 2, "score": "first"}]
    return [{"id": 1, "score": "new"}]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tidemill.toml").write_text('name = "shop"\n[warehouse]\npath = "warehouse"\nformat = "parquet"\n')
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "shop.sql").write_text(PIPELINE)
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def cli(*args: object) -> Result:
    return CliRunner().invoke(tidemill, [str(arg) for arg in args])


def day(folder: Path, number: int, *rows: str) -> None:
    lines = ["id,region,amount,at", *(f"{row},2024-01-0{number} 00:00:00" for row in rows)]
    (folder / "data" / f"day{number}.csv").write_text("\n".join(lines) + "\n")


def files(folder: Path, table: str, schema: str = "main") -> list[Path]:
    found = (folder / "warehouse" / schema / table).rglob("*.parquet")
    return sorted(file for file in found if "_tidemill" not in file.parts)


def test_a_project_of_datasets_is_kept_incrementally_and_proves_itself(spark: SparkSession, folder: Path) -> None:
    day(folder, 1, "1,eu,10", "2,us,20", "3,us,5")
    first = {each.name: each for each in Workspace.load(folder).run(spark).outcomes}
    assert [each.error for each in first.values()] == [None, None]
    kept = files(folder, "by_region")
    assert [file.parent.name for file in kept] == ["region=eu", "region=us"]
    day(folder, 2, "2,us,21", "4,us,1")
    second = {each.name: each.result for each in Workspace.load(folder).run(spark).outcomes}
    assert (second["main.raw_orders"].counts.inserted, second["main.raw_orders"].counts.updated) == (1, 1)
    assert str(second["main.raw_orders"].watermark) == "2024-01-02 00:00:00 UTC"
    assert (second["main.by_region"].counts.updated, second["main.by_region"].counts.unchanged) == (1, 1)
    assert files(folder, "by_region")[0] == kept[0]
    assert [each.result.status for each in Workspace.load(folder).run(spark).outcomes] == ["up to date"] * 2
    assert pq.read_table(kept[0]).to_pylist() == [{"orders": 1, "amount": 10}]
    verified = cli("verify", "--format", "json")
    assert verified.exit_code == 0, verified.output


def test_models_and_functions_of_a_delta_warehouse_may_be_datasets(spark: SparkSession, folder: Path) -> None:
    (folder / "tidemill.toml").write_text('name = "shop"\n')
    models = folder / "models" / "shop"
    models.mkdir(parents=True)
    (models / "totals.sql").write_text(MODEL)
    (models / "totals.py").write_text(METADATA)
    (models / "days.py").write_text(FUNCTION)
    day(folder, 1, "1,eu,10", "2,us,20")
    asked = {"select": ["+shop.totals", "shop.days"], "spark": spark}
    first = tm.Project.load(folder).run(**asked, end="2024-01-02")
    assert {step.table: step.error for step in first.steps} == dict.fromkeys(["raw_orders", "shop.totals", "shop.days"])
    day(folder, 2, "3,us,1")
    second = {step.table: step for step in tm.Project.load(folder).run(**asked, end="2024-01-03").steps}
    assert (second["shop.totals"].updated, second["shop.totals"].unchanged) == (1, 1)
    assert second["shop.days"].inserted == 1
    formats = [format_at(str(folder / "warehouse" / name)) for name in ("main/raw_orders", "shop/totals", "shop/days")]
    assert formats == ["delta", "parquet", "parquet"]
    held = [pq.ParquetFile(file).read().to_pylist() for file in files(folder, "totals", "shop")]
    assert sorted((row["region"], row["amount"]) for rows in held for row in rows) == [("eu", 10), ("us", 21)]


def test_a_function_that_was_overtaken_by_another_writer_is_asked_again(spark: SparkSession, folder: Path) -> None:
    models = folder / "models" / "shop"
    models.mkdir(parents=True)
    (models / "scores.py").write_text(OVERTAKEN)
    tm.Project.load(folder).run(select=["shop.scores"], spark=spark)
    (folder / "meanwhile").touch()
    (step,) = tm.Project.load(folder).run(select=["shop.scores"], spark=spark).steps
    assert (step.error, step.updated) == (None, 1)
    held = [row for file in files(folder, "scores", "shop") for row in pq.ParquetFile(file).read().to_pylist()]
    assert sorted((row["id"], row["score"]) for row in held) == [(1, "new"), (2, "theirs")]


def test_a_table_stays_in_the_format_that_it_was_made_in(spark: SparkSession, folder: Path) -> None:
    day(folder, 1, "1,eu,10")
    Workspace.load(folder).run(spark)
    (folder / "tidemill.toml").write_text('name = "shop"\n')
    told = cli("plan")
    assert told.exit_code == 2
    assert "raw_orders is a Parquet dataset, and raw_orders is declared with the format delta." in told.output


def test_metadata_commands_know_datasets_without_spark(spark: SparkSession, folder: Path) -> None:
    day(folder, 1, "1,eu,10", "2,us,20")
    Workspace.load(folder).run(spark)
    history = json.loads(cli("history", "raw_orders", "--format", "json").output)
    assert [(each["version"], each["inserted"], each["by"]) for each in history["commits"]] == [(0, 2, "tidemill")]
    assert "2024-01-01" in cli("show-watermarks").output
    shown = json.loads(cli("show", "by_region", "--format", "json").output)
    assert (shown["total"], sorted(row["region"] for row in shown["rows"])) == (2, ["eu", "us"])
    assert cli("status").exit_code == 0
    path = folder / "warehouse" / "main" / "raw_orders"
    small = cli("compact", path, "--format", "json")
    assert (small.exit_code, json.loads(small.output)["joined"]) == (0, 0)
    assert cli("recover", "raw_orders").output == "  ✓ raw_orders  whole, nothing to do\n"
    left = Folder(str(path)).begin()
    (left.folder / "x.parquet").write_bytes(b"12345")
    left.alive.close()
    assert cli("vacuum", "raw_orders").output == "  ✓ raw_orders  1 interrupted attempt cleared (5 B)\n"
