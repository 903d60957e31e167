"""The example of a folder of models does what its README says: a first run, a rerun, a second day, the late order."""

from __future__ import annotations

import csv
import shutil
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import tidemill

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemill import RunResult, RunStep

EXAMPLE = Path(__file__).parents[2] / "examples" / "models"
NOW, PLACED, RELOADED, REPORT = (
    f"my_schema.{name}" for name in ("orders_now", "orders_placed", "orders_reloaded", "report")
)
TABLES = (NOW, PLACED, RELOADED, REPORT)
SINCE = "2024-01-25"

Orders = dict[str, dict[str, str]]


def orders(file: str, *, active: bool = False) -> Orders:
    with (EXAMPLE / file).open() as rows:
        return {row["id"]: row for row in csv.DictReader(rows) if not active or row["active"] == "true"}


def back(moment: str, **length: int) -> str:
    """So long before a moment, as the files write it."""
    return str(datetime.fromisoformat(moment) - timedelta(**length))


def steps(result: RunResult) -> dict[str, RunStep]:
    assert result.ok, [step.error for step in result.steps]
    return {step.table: step for step in result.steps if step.table in TABLES}


def counts(step: RunStep) -> tuple[int, int, int, int]:
    return step.inserted, step.updated, step.deleted, step.unchanged


def test_the_readme_names_every_model_and_the_numbers_of_its_data():
    readme = (EXAMPLE / "README.md").read_text()
    placed, later = orders("data/source/orders.csv"), orders("day2/orders.csv")
    models = sorted(file.stem for file in (EXAMPLE / "models").rglob("*.sql"))
    assert [name for name in models if f"| `{name}` |" not in readme] == []
    active = orders("data/source/orders.csv", active=True)
    assert f"{len(active)} active orders and {len(placed) - len(active)} that are not" in readme
    gone = [key for key in active if later[key]["active"] == "false"]
    assert f"{len(gone)} that are no longer active" in readme
    assert f"{len(later) - len(placed) - 3} new orders" in readme, "beside a tie and two late ones"


def test_the_example_runs_as_its_readme_says(spark: SparkSession, tmp_path: Path):
    folder = tmp_path / "shop"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("warehouse", ".tidemill"))
    shop = tidemill.Project.load(folder)
    placed, active = orders("data/source/orders.csv"), orders("data/source/orders.csv", active=True)

    first = steps(shop.run(spark=spark))
    regions = {row["region"] for row in active.values()}
    assert [first[name].inserted for name in TABLES] == [len(placed), len(placed), len(active), len(regions)]

    rerun = steps(shop.run(vars={"start_date": SINCE}, spark=spark))
    assert [(rerun[name].rows_written, rerun[name].version) for name in TABLES] == [
        (0, first[name].version) for name in TABLES
    ]

    shutil.copy(folder / "day2" / "orders.csv", folder / "data" / "source")
    later, still = orders("day2/orders.csv"), orders("day2/orders.csv", active=True)
    second = steps(shop.run(vars={"start_date": SINCE}, spark=spark))

    watermark = max(row["updated_at"] for row in placed.values())
    read = {key: row for key, row in later.items() if row["updated_at"] >= back(watermark, hours=3)}
    new = [key for key in read if key not in placed]
    changed = [key for key in read if key in placed and read[key] != placed[key]]
    assert counts(second[NOW]) == (len(new), len(changed), 0, len(read) - len(new) - len(changed))

    newest = max(row["created_at"] for row in placed.values())
    seen = [key for key, row in later.items() if row["created_at"] >= back(newest, days=7)]
    fresh = [key for key in seen if key not in placed]
    assert counts(second[PLACED]) == (len(fresh), 0, 0, len(seen) - len(fresh))
    assert second[PLACED].total == len(later)

    before, after = reloaded(active), reloaded(still)
    assert counts(second[RELOADED]) == (len(after - before), 0, len(before - after), len(before & after))
    assert second[REPORT].status == "changed"

    verified = {found.table: found for found in shop.verify(vars={"start_date": SINCE}, spark=spark)}
    missing = [key for key in later if key not in placed and key not in read]
    assert [sample.row["id"] for sample in verified[NOW].missing.samples] == missing
    assert (verified[NOW].outcome, verified[NOW].missing.count) == ("different", 1)
    assert all(verified[name].equal for name in (PLACED, RELOADED, REPORT))

    late = steps(shop.run(NOW, start="2024-01-31", spark=spark))[NOW]
    assert (late.inserted, late.updated, late.deleted) == (1, 0, 0)
    (again,) = shop.verify(NOW, spark=spark)
    assert again.equal


def reloaded(found: Orders) -> set[tuple[str, ...]]:
    """The rows of orders_reloaded that a run since `SINCE` computes again."""
    columns = ("id", "region", "amount", "updated_at")
    return {tuple(row[column] for column in columns) for row in found.values() if row["updated_at"] >= SINCE}
