"""What it costs to follow a change of a thousandth, a hundredth and a tenth of a table, against rebuilding it."""

from __future__ import annotations

import io
import json
import shutil
import statistics
import subprocess
import sys
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from merges import Claim
from pipelines import BEGINNING, our_run, write_source
from rich.console import Console
from rich.table import Table
from stage import linked, seconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 5_000_000
SHARES = (0.001, 0.01, 0.1)
CLAIMED = (0.001, 0.01)  # of a tenth nobody promises that following it is faster
FILES = 8
WARM_UP = 3  # rounds; after one the second way still gains seconds from the first
BAR = 30  # the longest, in characters
PIPELINE = """
SOURCE orders TYPE PARQUET PARAMS { "path": "data/orders" } INCREMENTAL BY updated_at;
LOAD raw_orders FROM orders MODE MERGE ON order_id;
CREATE TABLE daily MODE INCREMENTAL_MERGE ON day AS
SELECT date(created_at) AS day, count(*) AS orders, sum(amount) AS amount FROM raw_orders GROUP BY 1;
"""


@dataclass(frozen=True)
class Cost:
    """Seconds in a warm session, and the peaks of memory in MB of a process that does nothing else."""

    seconds: float
    python: float
    jvm: float


@dataclass(frozen=True)
class Orders:
    """A source that holds each order once, as a database does, and the tables that a first run made of it."""

    spark: SparkSession
    folder: Path
    rows: int

    def build(self) -> None:
        our_run(self.spark, self._place("loaded", 0))

    def full(self, share: float) -> Path:
        """The source after a change, and no table yet."""
        shutil.rmtree(self.folder / "full", ignore_errors=True)
        return self._place("full", share)

    def incremental(self, share: float) -> Path:
        """The source after a change, and the tables as they were before it."""
        folder = self.folder / "incremental"
        shutil.rmtree(folder, ignore_errors=True)
        linked(self.folder / "loaded", folder)
        shutil.rmtree(folder / "data")
        return self._place("incremental", share)

    def _place(self, name: str, share: float) -> Path:
        folder = self.folder / name
        linked(self._source(share), folder / "data")
        (folder / "shop.sql").write_text(PIPELINE)
        return folder

    def _source(self, share: float) -> Path:
        """Half of a change corrects orders from the first to the last, half are new ones."""
        path, half = self.folder / f"source_{share}", int(self.rows * share / 2)
        if not path.exists():
            changed = f"id >= {self.rows} OR id % {self.rows // half} = 0" if half else "false"
            updated = f"if({changed}, {self.rows} + id, id)"
            columns = (
                "id AS order_id",
                "id * 31 % 100000 AS customer_id",
                "concat('note ', id % 1000) AS note",
                f"CAST({updated} * 7 % 1000 AS DECIMAL(10,2)) AS amount",
                f"timestamp_seconds({BEGINNING} + id) AS created_at",
                f"timestamp_seconds({BEGINNING} + {updated}) AS updated_at",
            )
            query = f"SELECT {', '.join(columns)} FROM range(0, {self.rows + half}, 1, {FILES})"
            write_source(self.spark, query, path / "orders")
        return path


def full_and_incremental(orders: Orders, repeat: int, console: Console, plot: str | None) -> list[Claim]:
    """The costs of both for each share, as a table; as an SVG, too, where `plot` names a file."""
    for _, way in product(range(WARM_UP), (orders.full, orders.incremental)):  # Java compiles what runs often
        our_run(orders.spark, way(SHARES[0]))
    costs = {share: _costs(orders, share, repeat) for share in SHARES}
    shown = _table(costs)
    console.print(shown)
    if plot:
        paper = Console(record=True, file=io.StringIO(), width=110)
        paper.print(shown)
        paper.save_svg(plot, title=f"{orders.rows:,} rows: rebuilt, and followed")
    return [_claim(share, full, followed) for share, (full, followed) in costs.items() if share in CLAIMED]


def _costs(orders: Orders, share: float, repeat: int) -> list[Cost]:
    ways = (orders.full, orders.incremental)
    times = [[seconds(our_run, orders.spark, way(share)) for way in ways] for _ in range(repeat)]
    return [
        Cost(statistics.median(each), *_peaks(way(share)))
        for way, each in zip(ways, zip(*times, strict=True), strict=True)
    ]


def _peaks(folder: Path) -> tuple[float, float]:
    command = [sys.executable, str(Path(__file__).with_name("one_run.py")), str(folder)]
    python, jvm = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return python, jvm


def _claim(share: float, full: Cost, followed: Cost) -> Claim:
    detail = f"rebuilt {full.seconds:.2f} s, incremental {followed.seconds:.2f} s"
    return Claim(
        f"{share:.1%} changed, against rebuilding it",
        full.seconds / followed.seconds,
        1.0,
        at_least=True,
        detail=detail,
    )


def _table(costs: dict[float, list[Cost]]) -> Table:
    table = Table("changed", "", "seconds", "", "Python MB", "JVM MB", box=None, header_style="dim")
    longest = max(cost.seconds for both in costs.values() for cost in both)
    for share, (full, followed) in costs.items():
        for changed, way, cost in ((f"{share:.1%}", "rebuilt", full), ("", "incremental", followed)):
            bar = "█" * round(cost.seconds / longest * BAR)
            table.add_row(changed, way, f"{cost.seconds:.2f}", bar, f"{cost.python:,.0f}", f"{cost.jvm:,.0f}")
    return table
