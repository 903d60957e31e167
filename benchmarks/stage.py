"""What every benchmark stands on: big tables made once, cheap copies of them, changes, and a clock."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import tidemill

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

ROWS_PER_FILE = 625_000  # 16 files for 10 million rows, 48 for 30 million
CHANGE = 1_000
COLUMNS = (
    "id AS k",
    "CAST(id AS DOUBLE) * 1.5 AS value",
    "concat('row ', id % 1000) AS s",
    "CAST(id % 100 AS INT) AS part",
)
CHANGED = (
    "k",
    "CAST(k AS DOUBLE) * 1.5 + {salt} AS value",
    "concat('row ', k % 1000) AS s",
    "CAST(k % 100 AS INT) AS part",
)


@dataclass(frozen=True)
class Stage:
    """A folder with the tables of one size, and the session that works on them."""

    spark: SparkSession
    folder: Path
    rows: int

    @property
    def plain(self) -> Path:
        return self.folder / f"plain_{self.rows}"

    @property
    def ours(self) -> Path:
        return self.folder / f"ours_{self.rows}"

    @property
    def source(self) -> Path:
        return self.folder / f"source_{self.rows}"

    def build(self) -> None:
        """The same rows in key order three times: as Parquet, as a plain Delta table, and as a table of ours."""
        rows = self.spark.range(0, self.rows, 1, max(self.rows // ROWS_PER_FILE, 1)).selectExpr(*COLUMNS)
        rows.write.parquet(str(self.source))
        rows.write.format("delta").option("delta.enableDeletionVectors", "false").save(str(self.plain))
        tidemill.merge(rows, self.ours, on="k", spark=self.spark)

    def copy(self, table: Path, name: str) -> Path:
        """A table of its own at no cost: the files of a Delta table never change, so links to them do."""
        target = self.folder / name
        shutil.rmtree(target, ignore_errors=True)
        return linked(table, target)

    def change(self, kind: str, salt: int, rows: int = CHANGE) -> Path:
        """A change as a Parquet folder; another `salt` changes other values."""
        path = self.folder / f"change_{kind}_{salt}_{rows}_{self.rows}"
        if not path.exists():
            self._keys(kind, rows).selectExpr(*(c.format(salt=salt) for c in CHANGED)).coalesce(1).write.parquet(
                str(path)
            )
        return path

    def _keys(self, kind: str, rows: int) -> DataFrame:
        end, step = self.rows, self.rows // rows
        match kind:
            case "tail":
                return self.spark.range(end - rows // 2, end + rows // 2).selectExpr("id AS k")
            case "new":
                return self.spark.range(end, end + rows).selectExpr("id AS k")
            case _:  # spread over all keys
                return self.spark.range(0, rows).selectExpr(f"id * {step} + 7 % {step} AS k")


def linked(folder: Path, target: Path) -> Path:
    """A copy by links; into a folder that is there, its files beside those."""
    target.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-alf", f"{folder}/.", str(target)], check=True)
    return target


def plain_merge(spark: SparkSession, change: Path, table: Path) -> None:
    """What people write by hand."""
    spark.read.parquet(str(change)).createOrReplaceTempView("change")
    spark.sql(
        f"MERGE INTO delta.`{table}` t USING change s ON t.k = s.k "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


def our_merge(spark: SparkSession, change: Path, table: Path) -> tidemill.MergeResult:
    return tidemill.merge(change, table, on="k", spark=spark)


def seconds(job: Callable[..., object], *arguments: object) -> float:
    os.sync()  # what the job before has left in memory for the disk is not written at this one's cost
    began = time.perf_counter()
    job(*arguments)
    return time.perf_counter() - began


@dataclass
class Duel:
    """Two ways of one job, timed in turn; medians decide."""

    name: str
    plain: list[float] = field(default_factory=list)
    ours: list[float] = field(default_factory=list)

    def fight(self, plain: Callable[[], object], ours: Callable[[], object], *, counts: bool = True) -> None:
        """Both ways once; a round that warms up does not count."""
        times = seconds(plain), seconds(ours)
        if counts:
            self.plain.append(times[0])
            self.ours.append(times[1])

    @property
    def medians(self) -> tuple[float, float]:
        return statistics.median(self.plain), statistics.median(self.ours)

    @property
    def speedup(self) -> float:
        plain, ours = self.medians
        return plain / ours
