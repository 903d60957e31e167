"""The 22 queries of TPC-H as views under RF1 and RF2 (orders that come and go), beside a plain statement by hand.

The rows are those of TPC-H's own generator; what comes later is held back, since it makes no refresh sets. Changes are
spread over all keys of orders, or local at the end of them; orders and lineitem lie in the order of these keys.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from merges import Claim
from stage import ROWS_PER_FILE, seconds
from tpch_queries import QUERIES, TABLES
from view_ways import HAND, REFUSED, Ways, table_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

AUTO, BY_CHANGES, WHOLE = "auto", "incremental", "full"
SPREAD, LOCAL = "spread", "local"
SHARE = 1000  # one order of so many comes in each round, and another one goes
WARM_UP = 1
SUMS = (1, 6, 14, 19)  # the changed lines are enough
OF_A_SUM, OF_A_QUERY, OF_ALL = 0.15, 1.2, {SPREAD: 0.75, LOCAL: 0.5}
RIGHT, NEARLY = 0.9, 1.2  # so many choices take the cheaper way, or one that takes hardly longer
_KEYS = {"orders": "o_orderkey", "lineitem": "l_orderkey"}
_HELD_BACK = 10  # rounds that the data is enough for


@dataclass(frozen=True)
class Warehouse:
    """The tables of TPC-H at this scale, as Spark writes them, and each query as views and by hand."""

    spark: SparkSession
    folder: Path
    scale: float
    layout: str = SPREAD

    def build(self) -> None:
        raw = self.folder / "raw"
        generator = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"
        command = [generator, "parquet", "--quiet", "-s", str(self.scale), "--output-dir", raw]
        subprocess.run(command, check=True, capture_output=True)
        for table in TABLES:
            rows = self._generated(table)
            if table in _KEYS:
                rows = rows.where(f"NOT ({self._coming(table, 0, _HELD_BACK)})")
                files = max(rows.count() // ROWS_PER_FILE, 1)
                rows = rows.repartitionByRange(files, _KEYS[table]).sortWithinPartitions(_KEYS[table])
            writer = rows.write.format("delta").option("delta.enableDeletionVectors", "true")
            writer.save(str(table_at(self.folder, table)))

    def views(self, query: int, refreshes: Iterable[str] = (AUTO, BY_CHANGES, WHOLE)) -> Ways:
        text = QUERIES[query].strip().replace("{share}", f"{0.0001 / self.scale:.10f}")
        tables = [table for table in TABLES if f"{{{table}}}" in text]
        views = {f"q{query}_{each}": each for each in refreshes}
        return Ways(self.spark, self.folder, f"q{query}", text, tables, views)

    def change(self, number: int, *, customers: bool = False) -> None:
        """RF1 and RF2, each a thousandth of the orders with their lines; some customers' balances too, if asked for."""
        for table in _KEYS:
            name = f"delta.`{table_at(self.folder, table)}`"
            rows = self._generated(table).where(self._coming(table, number, number + 1))
            rows.write.format("delta").mode("append").save(str(table_at(self.folder, table)))
            self.spark.sql(f"DELETE FROM {name} WHERE {self._leaving(table, number)}")
        if customers:
            name = f"delta.`{table_at(self.folder, 'customer')}`"
            self.spark.sql(f"UPDATE {name} SET c_acctbal = c_acctbal + 1 WHERE c_custkey % 100 = {number}")

    def clean(self) -> None:
        shutil.rmtree(self.folder)

    def _generated(self, table: str) -> DataFrame:
        return self.spark.read.parquet(str(self.folder / "raw" / f"{table}.parquet"))

    def _coming(self, table: str, first: int, end: int) -> str:
        """The rows of the orders that come in these rounds."""
        key = _KEYS[table]
        if self.layout == SPREAD:
            return f"pmod(xxhash64({key}), {SHARE}) >= {first} AND pmod(xxhash64({key}), {SHARE}) < {end}"
        return f"{key} > {self._at(SHARE - _HELD_BACK + first)} AND {key} <= {self._at(SHARE - _HELD_BACK + end)}"

    def _leaving(self, table: str, number: int) -> str:
        key = _KEYS[table]
        if self.layout == SPREAD:
            return f"pmod(xxhash64({key}), {SHARE}) = {SHARE // 2 + number}"
        first = SHARE - 2 * _HELD_BACK + number
        return f"{key} > {self._at(first)} AND {key} <= {self._at(first + 1)}"

    def _at(self, part: int) -> int:
        """The order key below which so many of all orders lie; there are 6,000,000 numbers at scale 1."""
        return int(6_000_000 * self.scale) * part // SHARE


@dataclass
class Times:
    """The seconds of each way of a query, and how the views were refreshed in the last round."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    how: dict[str, str] = field(default_factory=dict)

    def median(self, way: str) -> float:
        return statistics.median(self.seconds[way])


def tpch(spark: SparkSession, folder: Path, scale: float, repeat: int, queries: Sequence[int] = ()) -> list[Claim]:
    """The claims over all queries, with changes of both layouts."""
    claims = []
    for layout in (SPREAD, LOCAL):
        warehouse = Warehouse(spark, folder / "tpch", scale, layout)
        found = measured(warehouse, repeat, queries or sorted(QUERIES))
        claims += [_claim_of(layout, number, times) for number, times in found.items()]
        claims += [_all_of(layout, found), _choices_of(layout, found)]
        warehouse.clean()
    return claims


def measured(warehouse: Warehouse, repeat: int, queries: Sequence[int]) -> dict[int, Times]:
    """Every way of every query on the same changes, in turns; all ways end with the same rows."""
    warehouse.build()
    found = {number: Times() for number in queries}
    ways = {number: warehouse.views(number) for number in queries}
    for each in ways.values():
        each.declare()
        for way in each.all().values():
            way()
    for number in range(-WARM_UP, repeat):
        warehouse.change(number + WARM_UP)
        for query, times in found.items():
            _time(ways[query], times, counts=number >= 0)
            if times.how.get(BY_CHANGES) == REFUSED:  # so it is in every round
                ways[query] = warehouse.views(query, (AUTO, WHOLE))
            ways[query].check()
            ways[query].clean()
    return found


def _time(ways: Ways, times: Times, *, counts: bool) -> None:
    for name, way in ways.all().items():
        kind = name.partition("_")[2] if name != HAND else HAND
        took = seconds(lambda way=way, kind=kind: times.how.update({kind: str(way())}))
        if counts:
            times.seconds.setdefault(kind, []).append(took)


def _claim_of(layout: str, number: int, times: Times) -> Claim:
    auto, hand = times.median(AUTO), times.median(HAND)
    others = [f"{way} {times.median(way):.2f}" for way in (BY_CHANGES, WHOLE) if way in times.seconds]
    detail = f"{times.how[AUTO]}: {auto:.2f} of {hand:.2f} s; {', '.join(others)} s"
    bound = OF_A_SUM if number in SUMS else OF_A_QUERY
    return Claim(f"TPC-H {number}, {layout}", auto / hand, bound, at_least=False, detail=detail)


def _all_of(layout: str, found: Mapping[int, Times]) -> Claim:
    auto, hand = (sum(times.median(way) for times in found.values()) for way in (AUTO, HAND))
    detail = f"{auto:.1f} of {hand:.1f} s"
    return Claim(f"TPC-H, {layout}, all together", auto / hand, OF_ALL[layout], at_least=False, detail=detail)


def _choices_of(layout: str, found: Mapping[int, Times]) -> Claim:
    """How often what `auto` chose was the cheaper way, or nearly; of the queries that have both ways."""
    both = {number: times for number, times in found.items() if BY_CHANGES in times.seconds}
    wrong = [number for number, times in both.items() if not _is_right(times)]
    detail = f"not of {', '.join(map(str, wrong))}" if wrong else f"of {len(both)} queries"
    share = 1 - len(wrong) / max(len(both), 1)
    return Claim(f"TPC-H, {layout}, cheaper way chosen", share, RIGHT, at_least=True, detail=detail)


def _is_right(times: Times) -> bool:
    chosen, other = BY_CHANGES, WHOLE
    if not times.how[AUTO].startswith(BY_CHANGES):
        chosen, other = other, chosen
    return times.median(chosen) <= NEARLY * times.median(other)
