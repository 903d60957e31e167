"""The month of bank data does what its README says: week by week, with one side behind, and as one window."""

from __future__ import annotations

import csv
import re
import shutil
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from join.oracle import Meaning, Row

import tidemill

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemill import RunResult, RunStep

EXAMPLE = Path(__file__).parents[2] / "examples" / "bank"
LAST = 30


def feed(name: str) -> list[dict[str, str]]:
    """All rows of one side, in the order of their files."""
    files = sorted(EXAMPLE.glob(f"*/{name}/*.csv"), key=lambda file: file.name)
    return [row for file in files for row in csv.DictReader(file.read_text().splitlines())]


def sides() -> list[list[Row]]:
    numbers = {key: number for number, key in enumerate(sorted({row["reference"] for row in feed("bank")} - {""}))}
    return [
        [
            Row(n, numbers.get(row["reference"]), date.fromisoformat(row["process_date"]).day)
            for n, row in enumerate(feed(name))
        ]
        for name in ("bank", "sepa")
    ]


def meaning() -> Meaning:
    a, b = sides()
    return Meaning(a, b, 6, 10)


def expected(last: int) -> list[tuple[Any, ...]]:
    bank, sepa = feed("bank"), feed("sepa")
    return sorted(
        (bank[out.a]["transaction_id"], sepa[out.b]["message_id"] if out.b is not None else "", out.target, out.status)
        for out in meaning().rows("left", lambda t: t <= last)
        if out.a is not None
    )


def payments(result: RunResult) -> RunStep:
    assert result.ok, [step.error for step in result.steps]
    return next(step for step in result.steps if step.table == "payments")


def held(spark: SparkSession, folder: Path) -> list[tuple[Any, ...]]:
    rows = tidemill.read(folder / "warehouse" / "main" / "payments", spark=spark)
    shown = rows.selectExpr("transaction_id", "coalesce(message_id, '')", "day(target_time)", "join_status")
    return sorted(tuple(row) for row in shown.collect())


def test_the_readme_has_the_numbers_of_its_data() -> None:
    readme = " ".join((EXAMPLE / "README.md").read_text().split())
    rows = meaning().rows("left", lambda t: t <= LAST)
    same = sum(out.status == "same_time" for out in rows)
    outdated = sum(out.status == "outdated" for out in rows)
    waiting = meaning().waiting("left", lambda t: t <= LAST)
    pairs = len(rows) - outdated
    assert re.findall(r"\d+", readme[readme.index("The ledger has") :]) == [
        str(each) for each in (len(feed("bank")), LAST, pairs, same, pairs - same, outdated, 10, len(waiting))
    ]


def test_the_example_runs_as_its_readme_says(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "bank"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("warehouse", ".tidemill"))
    bank = tidemill.Project.load(folder)

    first = payments(bank.run(spark=spark))
    assert first.window is not None
    assert (first.status, first.window.reason) == ("created", "first run: 2024-03-01 … 2024-03-06")
    assert held(spark, folder) == expected(6)

    shutil.copy(folder / "later" / "bank" / "week2.csv", folder / "data" / "bank")
    behind = payments(bank.run(spark=spark))
    assert behind.window is not None
    assert (behind.status, behind.version) == ("unchanged", first.version)
    assert behind.window.reason == "nothing new: joined up to 2024-03-06"
    assert behind.notices == (
        "sepa_transactions holds it back: its newest is 2024-03-07, that of bank_transactions 2024-03-14",
    )

    for name in ("bank", "sepa"):
        shutil.copytree(folder / "later" / name, folder / "data" / name, dirs_exist_ok=True)
    rest = payments(bank.run(spark=spark))
    assert rest.window is not None
    assert rest.window.reason == "2024-03-07 … 2024-03-30"
    assert held(spark, folder) == expected(LAST)
    (verified,) = bank.verify("payments", spark=spark)
    assert (verified.equal, verified.rows) == (True, len(expected(LAST)))
