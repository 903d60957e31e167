"""Merges into a plain Parquet dataset, side by side with a full rewrite by plain Spark, in a warm session."""

from __future__ import annotations

import os
import shutil
import statistics
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import psutil
from fsspeckit_beside import HANDLERS, Fsspeckit
from merges import Claim
from rich.table import Table
from stage import seconds

import tidemill
from tidemill.formats.parquet import protocol, store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession
    from rich.console import Console

    Ways = dict[str, Callable[[Path, Path], float]]

ROWS, PARTITIONS, CHANGED = 10_000_000, 100, 1_000
PLAIN, OURS = "plain Spark, outer join", "Tidemill"
BOUNDS = {"one partition": 0.1, "spread": 0.5}


@dataclass
class Dataset:
    """Ten million rows in a hundred hive partitions of one file each."""

    spark: SparkSession
    folder: Path
    rows: int = ROWS
    partitions: int = PARTITIONS
    torn: list[float] = field(default_factory=list)

    def build(self) -> None:
        rows = self.spark.range(self.rows).selectExpr(
            "id AS k",
            "uuid() AS name",
            "rand(1) * 1000 AS amount",
            "timestamp_seconds(1700000000 + id) AS at",
            f"cast(id DIV {self.rows // self.partitions} AS int) AS part",
        )
        writer = rows.repartition(self.partitions, "part").write.partitionBy("part")
        self.spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        writer.parquet(str(self.folder / "data"))

    def copy(self, name: str) -> Path:
        target = self.folder / name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(self.folder / "data", target)
        os.sync()  # or the merge, which waits for the disk, would wait for the copy too
        return target

    def change(self, kind: str, number: int) -> Path:
        """A thousand rows with another amount: of one partition, or of all."""
        path, size = self.folder / f"change {kind} {number}", self.rows // self.partitions
        if not path.exists():
            middle = size * (self.partitions // 2)
            start, end = (middle, middle + size) if kind == "one partition" else (0, self.rows)
            step = max((end - start) // CHANGED, 1)
            held = self.spark.read.parquet(str(self.folder / "data"))
            some = held.where(f"k >= {start} AND k < {end} AND k % {step} = {number % step}")
            some.selectExpr("k", "name", f"amount + {number + 1} AS amount", "at", "part").write.parquet(str(path))
        return path

    def rewrite(self, change: Path, target: Path, *, outer: bool = True) -> None:
        """What people do without a merge: join all, write all, swap the folders.

        By an outer join, or by leaving out what the change has and adding it: faster where the change is small.
        """
        new, old = self.spark.read.parquet(str(change)), self.spark.read.parquet(str(target))
        if outer:
            both = old.alias("old").join(new.alias("new"), "k", "full_outer")
            names = [name for name in old.columns if name != "k"]
            rows = both.selectExpr(
                "k", *[f"if(new.part IS NOT NULL, new.{name}, old.{name}) AS {name}" for name in names]
            )
        else:
            rows = old.join(new, "k", "left_anti").unionByName(new)
        rows.repartition(self.partitions, "part").write.partitionBy("part").parquet(f"{target}.new")
        shutil.rmtree(target)
        shutil.move(f"{target}.new", target)

    def merge(self, change: Path, target: Path) -> None:
        walk = store.walk
        store.walk = self._watched  # type: ignore[attr-defined]
        try:
            tidemill.merge(change, target, on="k", spark=self.spark)
        finally:
            store.walk = walk  # type: ignore[attr-defined]

    def _watched(self, steps: protocol.Steps[object]) -> object:
        """Takes the steps, and the time from the first move to the last removal: what foreign readers may see torn."""
        first = last = 0.0
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                if first:
                    self.torn.append(last - first)
                return end.value
            now = time.perf_counter()
            first = first or (now if step == protocol.MOVE_IN else 0.0)
            last = now if step == protocol.SYNC else last


def rewrites(data: Dataset, repeat: int, console: Console) -> list[Claim]:
    """Each kind of change against a full rewrite; beside them others, how far memory went, and how long it was torn."""
    ways: Ways = {
        PLAIN: partial(seconds, data.rewrite),
        "plain Spark, anti join": partial(seconds, partial(data.rewrite, outer=False)),
        OURS: partial(seconds, data.merge),
    }
    others = _others(data, console)
    claims, found = [], {}
    for kind, bound in BOUNDS.items():
        found[kind] = took = _timed(data, kind, ways, others, repeat)
        torn = f"torn for {max(data.torn) * 1000:.0f} ms"
        detail = f"rewrite {took[PLAIN]:.2f} s, merge {took[OURS]:.2f} s, {torn}"
        claims.append(Claim(f"dataset, {kind}", took[OURS] / took[PLAIN], bound, at_least=False, detail=detail))
    table = Table("way", *BOUNDS, box=None, header_style="dim")
    for way in (*ways, *others):
        table.add_row(way, *(f"{found[kind][way]:.2f} s" for kind in BOUNDS))
    console.print(table)
    console.print(f"[dim]workers' largest memory: {_largest_worker() / 1e6:,.0f} MB[/dim]")
    return claims


def _others(data: Dataset, console: Console) -> Ways:
    beside = Fsspeckit(data.folder / "fsspeckit")
    missing = beside.install()
    if missing is not None:
        console.print(f"[dim]no comparison with fsspeckit: {missing}[/dim]")
        return {}
    return {f"fsspeckit, {handler}": partial(beside.merge, handler, CHANGED) for handler in HANDLERS}


def _timed(data: Dataset, kind: str, ways: Ways, others: Ways, repeat: int) -> dict[str, float]:
    """The median seconds of each way, on the same changes and on copies of the same data; a first round is for Java."""
    times: dict[str, list[float]] = {name: [] for name in (*ways, *others)}
    for way in ways.values():
        way(data.change(kind, repeat), data.copy("target"))
    data.torn.clear()
    for number in range(repeat):
        for name, way in {**ways, **others}.items():
            times[name].append(way(data.change(kind, number), data.copy("target")))
    return {name: statistics.median(each) for name, each in times.items()}


def _largest_worker() -> int:
    """The largest Python worker that Spark keeps."""
    children = psutil.Process().children(recursive=True)
    return max((child.memory_info().rss for child in children if "python" in child.name()), default=0)
