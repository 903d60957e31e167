"""`compact` and `vacuum` on Delta tables: rows and progress stay, and history is lost on purpose only."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from delta_rows import delta_table
from deltalake import DeltaTable

import tidemill
from tidemill.api.workspace import Workspace
from tidemill.cli.main import tidemill as command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIPELINE = """
SOURCE orders TYPE CSV PARAMS { "path": "data/*.csv" };
LOAD orders FROM orders MODE MERGE ON id;
CREATE TABLE per_region MODE FULL_MERGE ON region AS SELECT region, count(*) AS orders FROM orders GROUP BY region;
"""


def said(*args: object) -> str:
    done = CliRunner().invoke(command, [str(arg) for arg in args])
    assert done.exit_code == 0, done.output
    return done.output


def statuses(spark: SparkSession) -> list[str]:
    return [outcome.result.status for outcome in Workspace.load().run(spark).outcomes if outcome.result]


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose table of orders has two files, and one version for each."""
    monkeypatch.chdir(tmp_path)
    for folder in ("pipelines", "data"):
        Path(folder).mkdir()
    Path("tidemill.toml").write_text("")
    Path("pipelines/shop.sql").write_text(PIPELINE)
    for number in range(2):
        Path(f"data/{number}.csv").write_text(f"id,region\n{number},eu\n")
        statuses(spark)
    return tmp_path / "warehouse" / "main" / "orders"


def test_compact_and_vacuum_change_files_only_and_a_short_retention_has_to_be_confirmed(
    spark: SparkSession, shop: Path
) -> None:
    files = len(DeltaTable(shop).file_uris())
    rows = sorted(delta_table(shop).to_pylist(), key=str)
    told = json.loads(said("compact", "orders", "--format", "json"))
    version = told.pop("version")
    assert told == {"table": "orders", "joined": files, "written": 1, "kept": 0}
    assert (len(DeltaTable(shop).file_uris()), sorted(delta_table(shop).to_pylist(), key=str)) == (1, rows)
    assert [commit.operation for commit in tidemill.history(shop, 1)] == ["OPTIMIZE"]
    assert "compact" in said("history", "orders")
    assert said("compact", shop) == "  ✓ orders  nothing to join · 1 kept\n"
    assert DeltaTable(shop).version() == version
    before = len(list(shop.glob("*.parquet")))
    assert said("vacuum", "orders") == "  ✓ orders  nothing to remove\n"
    refused = CliRunner().invoke(command, ["vacuum", "orders", "--retain", "0 hours"])
    assert refused.exit_code == 2
    assert refused.output == (
        f"error[vacuum.short_retention] {shop} retains removed files for 7 days, and 0 hours is less: versions that "
        "ended before that could no longer be read or restored, and a run that is at work now could lose files that it "
        "has written.\n  Leave --retain out; or say --confirm, when nothing else writes to the table. --dry-run shows "
        "what would go. Nothing was removed.\n"
    )
    would = json.loads(said("vacuum", "orders", "--retain", "0 hours", "--dry-run", "--format", "json"))
    assert (would["files"], would["dry_run"], len(list(shop.glob("*.parquet")))) == (before - 1, True, before)
    assert would["bytes"] > 0
    told = said("vacuum", shop, "--retain", "0 hours", "--confirm")
    assert re.fullmatch(
        rf"  ✓ orders  {before - 1} files \([\d.]+ kB\) removed · versions that ended more than 0 hours ago cannot be "
        r"restored\n",
        told,
    )
    assert len(list(shop.glob("*.parquet"))) == 1
    assert statuses(spark) == ["up to date", "up to date"]  # the table, and what reads it
    assert "a vacuum has removed files of it" in CliRunner().invoke(command, ["restore", "orders", "--to", "0"]).output


DAY = 86_400


def aged(table: Path, copy: Path, days: int) -> Path:
    """A copy of the table whose replaced files were removed so many days ago, and written a day before."""
    shutil.copytree(table, copy, ignore=shutil.ignore_patterns("*.crc"))
    past = days * DAY * 1000
    for entry in (copy / "_delta_log").glob("*.json"):
        entry.write_text(
            re.sub(r'(?<="deletionTimestamp":)\d+', lambda now: str(int(now[0]) - past), entry.read_text())
        )
    for file in copy.glob("*.parquet"):
        os.utime(file, (time.time() - (days + 1) * DAY,) * 2)
    return copy


def test_vacuum_retains_files_for_as_long_as_it_is_asked_to_whatever_the_table_says(shop: Path, tmp_path: Path) -> None:
    said("compact", "orders")  # replaces the two files by one
    files = len(list(shop.glob("*.parquet")))
    three, ten = aged(shop, tmp_path / "three", 3), aged(shop, tmp_path / "ten", 10)
    assert said("vacuum", three, "--retain", "4 days", "--confirm") == "  ✓ three  nothing to remove\n"
    assert said("vacuum", ten, "--retain", "30 days") == "  ✓ ten  nothing to remove\n"
    assert [len(list(table.glob("*.parquet"))) for table in (three, ten)] == [files, files]
    for arguments in ((three, "--retain", "2 days", "--confirm"), (ten,)):
        assert " removed · versions that ended more than " in said("vacuum", *arguments)
    assert [len(list(table.glob("*.parquet"))) for table in (three, ten)] == [1, 1]
