"""Refreshes of materialized views by what changed, beside refreshes in full and a plain statement that makes the table.

A warm session; what changed is there before the clock starts. Every way is timed on the same change, in turns.
"""

from __future__ import annotations

import shutil
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from merges import Claim
from stage import ROWS_PER_FILE, seconds
from view_ways import HAND, Ways, table_at

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

ROWS, THIRD = 10_000_000, 3
CHANGED_ROWS, CHANGED_KEYS = 10_000, 1_000
PER_KEY = 10  # rows of each
CUSTOMERS, PRODUCTS = 100_000, 10_000
OURS, FULL = "by_changes", "whole"
REFRESH = {OURS: "incremental", FULL: "full"}
WARM_UP = 2  # rounds before the clock counts

_WIDE = (
    "id",
    f"id * 31 % {CUSTOMERS} AS customer",
    f"id * 17 % {PRODUCTS} AS product",
    "CAST(id % 100000 AS DECIMAL(12,2)) AS amount",
    "timestamp_seconds(1700000000 + id) AS at",
    *(f"pmod(xxhash64(id, {n}), {1000 * n}) AS n{n}" for n in range(1, 20)),
    *(f"CAST(pmod(hash(id, {n}), {100 * n}) AS DECIMAL(12,2)) AS d{n}" for n in range(1, 13)),
    *(f"concat('value ', pmod(hash(id, 'v{n}'), {500 * n})) AS s{n}" for n in range(1, 15)),
    *(f"DATE '2020-01-01' + pmod(hash(id, 'd{n}'), {50 * n}) AS day{n}" for n in range(1, 6)),
    *(f"CAST(pmod(hash(id, 'f{n}'), 1000) AS DOUBLE) AS f{n}" for n in range(1, 6)),
)
_NARROW = (
    "id",
    "{key} AS customer",
    "timestamp_seconds(1700000000 + id * 7919 % 31536000) AS at",
    "CAST(id % 100000 AS DECIMAL(12,2)) AS amount",
    "concat('note ', pmod(hash(id), 50000)) AS note",
    "CAST(id % 50 AS INT) AS kind",
)
_ENRICHED = (
    "SELECT f.*, c.region, c.segment, p.brand, p.category FROM {fact} f "
    "JOIN {customers} c ON f.customer = c.customer JOIN {products} p ON f.product = p.product"
)
_LATEST = (
    "SELECT id, customer, at, amount, note, kind FROM (SELECT *, row_number() OVER "
    "(PARTITION BY customer ORDER BY at DESC, id DESC) AS place FROM {fact}) WHERE place = 1"
)
_PER_CUSTOMER = (
    "SELECT customer, count(*) AS events, sum(amount) AS amount, max(at) AS last, count(DISTINCT kind) AS kinds "
    "FROM {fact} GROUP BY customer"
)


@dataclass(frozen=True)
class Case:
    """A view, and a change of what it reads. `of_full` and `of_hand` are what a refresh may cost of the other ways.

    The fact has these columns; `changed` is a condition on those of its rows that a round changes, by the number of
    the round and of the rows. `bytes_read`: of those of a refresh in full; `growth`: of the time with a third of rows.
    """

    name: str
    query: str
    columns: Sequence[str]
    changed: Callable[[int, int], str]
    of_full: float
    of_hand: float
    bytes_read: float | None = None
    growth: float | None = None


def _spread_rows(number: int, rows: int) -> str:
    return f"id % {max(rows // CHANGED_ROWS, 1)} = {number % max(rows // CHANGED_ROWS, 1)}"


def _rows_beside(number: int, rows: int) -> str:
    few = min(CHANGED_ROWS, rows // 100)
    return f"id >= {rows // 2 + number * few} AND id < {rows // 2 + (number + 1) * few}"


def _spread_keys(number: int, rows: int) -> str:
    """One row of each of some keys: of the first tenth of the rows, each has another one."""
    step = max(rows // PER_KEY // CHANGED_KEYS, 1)
    return f"id < {rows // PER_KEY} AND id % {step} = {number % step}"


def _keys_beside(number: int, rows: int) -> str:
    few = min(CHANGED_KEYS, rows // PER_KEY // 100)
    first = rows // PER_KEY // 2 + number * few
    return f"customer >= {first} AND customer < {first + few} AND id % {PER_KEY} = 3"


def _narrow(key: str) -> tuple[str, ...]:
    return tuple(each.format(key=key) for each in _NARROW)


def cases(rows: int) -> list[Case]:
    """All of them, for a fact of so many rows."""
    keys = rows // PER_KEY
    spread, clustered = _narrow(f"id * 31 % {keys}"), _narrow(f"id DIV {PER_KEY}")
    return [
        Case("wide join, spread", _ENRICHED, _WIDE, _spread_rows, 0.10, 0.15, growth=1.3),
        Case("wide join, local", _ENRICHED, _WIDE, _rows_beside, 0.10, 0.15, bytes_read=0.05, growth=1.3),
        Case("latest row, spread", _LATEST, spread, _spread_keys, 0.25, 0.4),
        Case("latest row, clustered", _LATEST, clustered, _keys_beside, 0.15, 0.15, growth=1.5),
        Case("per customer, spread", _PER_CUSTOMER, spread, _spread_keys, 0.25, 0.4),
        Case("per customer, clustered", _PER_CUSTOMER, clustered, _keys_beside, 0.15, 0.15, growth=1.5),
    ]


@dataclass(frozen=True)
class Views:
    """A fact, two dimensions, and the ways of a case over them."""

    spark: SparkSession
    folder: Path
    rows: int
    case: Case

    @property
    def ways(self) -> Ways:
        return Ways(self.spark, self.folder, "views", self.case.query, self._tables, REFRESH)

    def build(self) -> None:
        """Tables of Spark's own with deletion vectors; then the first run of both views."""
        self._write("fact", self.spark.range(0, self.rows, 1, max(self.rows // ROWS_PER_FILE, 1)), *self.case.columns)
        customers = ("id AS customer", "concat('region ', id % 20) AS region", "concat('segment ', id % 7) AS segment")
        self._write("customers", self.spark.range(0, CUSTOMERS, 1, 1), *customers)
        products = ("id AS product", "concat('brand ', id % 500) AS brand", "concat('kind ', id % 30) AS category")
        self._write("products", self.spark.range(0, PRODUCTS, 1, 1), *products)
        self.ways.declare()
        for way in self.ways.all().values():
            way()

    def change(self, number: int) -> None:
        """Other rows in each round."""
        changed = self.case.changed(number, self.rows)
        fact = table_at(self.folder, "fact")
        self.spark.sql(f"UPDATE delta.`{fact}` SET amount = amount + 0.01 WHERE {changed}")

    @property
    def _tables(self) -> list[str]:
        return [name for name in ("fact", "customers", "products") if f"{{{name}}}" in self.case.query]

    def _write(self, name: str, rows: DataFrame, *columns: str) -> None:
        if name in self._tables:
            writer = rows.selectExpr(*columns).write.format("delta").option("delta.enableDeletionVectors", "true")
            writer.save(str(table_at(self.folder, name)))


@dataclass(frozen=True)
class Found:
    """Median seconds of each way, and the bytes that Spark's tasks read in its last round."""

    seconds: Mapping[str, float]
    read: Mapping[str, int]

    def over(self, way: str) -> float:
        return self.seconds[OURS] / self.seconds[way]


def refreshes(spark: SparkSession, folder: Path, rows: int, repeat: int) -> list[Claim]:
    """The claims of all cases, each with a third of the rows and with all of them: the bounds are those of all."""
    claims = []
    for less, case in zip(cases(rows // THIRD), cases(rows), strict=True):
        third = measured(Views(spark, folder / "views", rows // THIRD, less), repeat)
        found = measured(Views(spark, folder / "views", rows, case), repeat)
        claims += [*_ratios(case, found, third), *_reading(case, found), *_growth(case, found, third)]
    return claims


def _ratios(case: Case, found: Found, third: Found) -> list[Claim]:
    bounds = {FULL: ("a full refresh", case.of_full), HAND: ("CREATE OR REPLACE", case.of_hand)}
    return [
        _claim(
            f"{case.name}, of {what}",
            found.over(way),
            bound,
            f"{found.seconds[OURS]:.2f} of {found.seconds[way]:.2f} s; a third of the rows: {third.over(way):.2f}×",
        )
        for way, (what, bound) in bounds.items()
    ]


def _reading(case: Case, found: Found) -> list[Claim]:
    if case.bytes_read is None:
        return []
    ours, full = found.read[OURS], found.read[FULL]
    return [
        _claim(f"{case.name}, bytes read", ours / full, case.bytes_read, f"{ours / 1e6:.1f} of {full / 1e6:.1f} MB")
    ]


def _growth(case: Case, found: Found, third: Found) -> list[Claim]:
    if case.growth is None:
        return []
    less, more = third.seconds[OURS], found.seconds[OURS]
    return [_claim(f"{case.name}, three times the rows", more / less, case.growth, f"{less:.2f} s → {more:.2f} s")]


def _claim(what: str, figure: float, bound: float, detail: str) -> Claim:
    return Claim(f"view, {what}", figure, bound, at_least=False, detail=detail)


def measured(views: Views, repeat: int) -> Found:
    """Every way on the same changes, in turns."""
    views.build()
    ways = views.ways
    times: dict[str, list[float]] = {name: [] for name in ways.all()}
    read: dict[str, int] = {}
    for number in range(-WARM_UP, repeat):
        ways.clean()
        views.change(number + WARM_UP)
        for name, way in ways.all().items():
            before = bytes_read(views.spark)
            took = seconds(way)
            read[name] = bytes_read(views.spark) - before
            if number >= 0:
                times[name].append(took)
        ways.check()
    shutil.rmtree(views.folder)
    return Found({name: statistics.median(each) for name, each in times.items()}, read)


def bytes_read(spark: SparkSession) -> int:
    """What Spark's tasks have read since it was started, settled rows included."""
    spark.range(1).count()  # when it ends, what ran before has been reported
    executors = spark.sparkContext._jsc.sc().statusStore().executorList(False)  # noqa: FBT003  nobody else says
    return sum(executors.apply(n).totalInputBytes() for n in range(executors.size()))
