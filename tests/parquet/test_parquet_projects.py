"""A project whose warehouse is of Parquet datasets: the same pipelines, windows, records and proofs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from tidemill.cli.main import tidemill
from tidemill.dataset.folder import Folder
from tidemill.workspace import Workspace

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


def files(folder: Path, table: str) -> list[Path]:
    found = (folder / "warehouse" / "main" / table).rglob("*.parquet")
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
    assert cli("vacuum", "raw_orders").output == "  ✓ raw_orders  1 interrupted attempts cleared (5 bytes)\n"
