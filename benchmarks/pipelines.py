"""What Tidemill adds to a pipeline of ten steps, against the bare statements that a person would write for it."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from merges import Claim
from stage import linked, seconds

from tidemill.api.workspace import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Way = Callable[[Path], None]

ROWS = 1_000_000  # of each of the three sources
NEW = 100  # one row in so many is new or changed on the second day
DAYS = ("first load", "second run")
BEGINNING = 1_704_067_200  # 2024-01-01; a row for every second since

SOURCES = """
SOURCE orders TYPE PARQUET PARAMS { "path": "data/orders" } INCREMENTAL BY updated_at;
SOURCE events TYPE PARQUET PARAMS { "path": "data/events" } INCREMENTAL BY seen_at;
SOURCE customers TYPE PARQUET PARAMS { "path": "data/customers" };
LOAD raw_orders FROM orders MODE MERGE ON order_id;
LOAD raw_events FROM events MODE APPEND;
LOAD raw_customers FROM customers;
"""
LOADED = {"raw_orders": "orders", "raw_events": "events", "raw_customers": "customers"}
MODES = {
    "daily": "MODE INCREMENTAL_MERGE ON day",
    "hourly": "MODE INCREMENTAL BY hour",
    "large_orders": "MODE INCREMENTAL_MERGE ON order_id",
    "per_customer": "",
    "regions": "",
    "kinds": "",
    "best_customers": "MODE MERGE ON customer_id",
}
QUERIES = {
    "daily": "SELECT date(updated_at) AS day, count(*) AS orders, sum(amount) AS amount FROM {raw_orders} GROUP BY 1",
    "hourly": "SELECT date_trunc('HOUR', seen_at) AS hour, kind, count(*) AS events FROM {raw_events}{window} "
    "GROUP BY 1, 2",
    "large_orders": "SELECT order_id, customer_id, amount FROM {raw_orders} WHERE amount >= 990",
    "per_customer": "SELECT customer_id, count(*) AS orders, sum(amount) AS amount FROM {raw_orders} GROUP BY 1",
    "regions": "SELECT c.region, count(*) AS orders, sum(o.amount) AS amount "
    "FROM {raw_orders} AS o JOIN {raw_customers} AS c ON c.customer_id = o.customer_id GROUP BY 1",
    "kinds": "SELECT kind, count(*) AS events, max(seen_at) AS last_seen FROM {raw_events} GROUP BY 1",
    "best_customers": "SELECT customer_id, amount FROM {per_customer} ORDER BY amount DESC, customer_id LIMIT 1000",
}
TABLES = (*LOADED, *QUERIES)


@dataclass(frozen=True)
class Shop:
    """Two days of three sources, made once; a copy of the first day is where a way of doing it starts."""

    spark: SparkSession
    folder: Path
    rows: int

    def build(self) -> None:
        end, new = self.rows, self.rows // NEW
        self._orders("day1", f"SELECT id, id AS second FROM range({end})")
        corrected = f"SELECT id * {NEW} AS id, {end} + id AS second FROM range({new // 2})"
        self._orders("day2", f"{corrected} UNION ALL SELECT {end} + id, {end} + id FROM range({new // 2})")
        self._events("day1", f"range({end})")
        self._events("day2", f"range({end}, {end + new})")
        self._customers("day1", "id % 7")
        self._customers("day2", f"CASE WHEN id % {NEW} = 1 THEN 7 ELSE id % 7 END")

    def fresh(self, name: str) -> Path:
        """The first day in a folder of its own, with the pipeline and without any table."""
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        linked(self.folder / "day1", folder / "data")
        (folder / "shop.sql").write_text(pipeline())
        return folder

    def second_day(self, folder: Path) -> None:
        """Orders and events are added, customers are replaced."""
        shutil.rmtree(folder / "data" / "customers")
        linked(self.folder / "day2", folder / "data")

    def _orders(self, day: str, ids: str) -> None:
        self._write(
            f"{day}/orders",
            f"SELECT id AS order_id, id * 31 % {self.rows // 10} AS customer_id, "
            "CAST((id * 7 + second) % 1000 AS DECIMAL(10,2)) AS amount, "
            f"timestamp_seconds({BEGINNING} + second) AS updated_at FROM ({ids})",
        )

    def _events(self, day: str, ids: str) -> None:
        columns = f"id AS event_id, concat('kind ', id % 20) AS kind, timestamp_seconds({BEGINNING} + id) AS seen_at"
        self._write(f"{day}/events", f"SELECT {columns} FROM {ids}")

    def _customers(self, day: str, region: str) -> None:
        columns = f"id AS customer_id, concat('name ', id) AS name, concat('region ', {region}) AS region"
        self._write(f"{day}/customers", f"SELECT {columns} FROM range({self.rows})")

    def _write(self, place: str, query: str) -> None:
        write_source(self.spark, query, self.folder / place)


def write_source(spark: SparkSession, query: str, path: Path) -> None:
    """Parquet with times that can be filtered, as all writers but Spark make it."""
    own = spark.newSession()
    own.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    own.sql(query).write.parquet(str(path))


def pipeline() -> str:
    names = {name: name for name in TABLES}
    window = " WHERE seen_at >= @start_dt AND seen_at < @end_dt"
    queries = {name: query.format(window=window, **names) for name, query in QUERIES.items()}
    return SOURCES + "".join(f"CREATE TABLE {name} {MODES[name]} AS {query};\n" for name, query in queries.items())


def our_run(spark: SparkSession, folder: Path, threads: int | None = None) -> None:
    outcome = Workspace.load(folder / "shop.sql").run(spark, threads=threads)
    failed = [each.error or each.name for each in outcome.outcomes if not each.ok]
    if failed:
        raise RuntimeError(failed)


class ByHand:
    """The statements of a person who knows each table well, one after the other."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.data = spark, folder / "data"
        self.tables = {name: f"delta.`{folder / 'warehouse' / 'main' / name}`" for name in TABLES}

    def first(self) -> None:
        for name, source in LOADED.items():
            self._create(name, f"SELECT * FROM {self._source(source)}")
        for name, query in QUERIES.items():
            self._create(name, query.format(window="", **self.tables))

    def second(self) -> None:
        self._merge("raw_orders", "order_id", self._since("raw_orders", "orders", "updated_at", ">="))
        self.spark.sql(f"INSERT INTO {self.tables['raw_events']} {self._since('raw_events', 'events', 'seen_at', '>')}")
        self._overwrite("raw_customers", f"SELECT * FROM {self._source('customers')}")
        self._merge("daily", "day", self._query("daily"))
        self._hourly()
        self._merge("large_orders", "order_id", self._query("large_orders"))
        for name in ("per_customer", "regions", "kinds"):
            self._overwrite(name, self._query(name))
        self._merge("best_customers", "customer_id", self._query("best_customers"))

    def _hourly(self) -> None:
        last = self._highest("hourly", "hour")
        query = self._query("hourly", f" WHERE seen_at >= '{last}'")
        self.spark.sql(f"INSERT INTO {self.tables['hourly']} REPLACE WHERE hour >= '{last}' {query}")

    def _since(self, table: str, source: str, column: str, sign: str) -> str:
        return f"SELECT * FROM {self._source(source)} WHERE {column} {sign} '{self._highest(table, column)}'"

    def _highest(self, table: str, column: str) -> str:
        found = self.spark.sql(f"SELECT string(max({column})) FROM {self.tables[table]}").first()
        return str(found[0]) if found else ""

    def _query(self, name: str, window: str = "") -> str:
        return QUERIES[name].format(window=window, **self.tables)

    def _source(self, name: str) -> str:
        return f"parquet.`{self.data / name}`"

    def _create(self, name: str, query: str) -> None:
        self.spark.sql(f"CREATE TABLE {self.tables[name]} USING delta AS {query}")

    def _overwrite(self, name: str, query: str) -> None:
        self.spark.sql(f"INSERT OVERWRITE {self.tables[name]} {query}")

    def _merge(self, name: str, key: str, query: str) -> None:
        self.spark.sql(
            f"MERGE INTO {self.tables[name]} t USING ({query}) s ON t.{key} = s.{key} "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )


def overhead(shop: Shop, repeat: int) -> list[Claim]:
    """A first load and a second run with a hundredth of new rows, in a session that has done both before."""
    hand, ours, alone = _by_hand(shop), partial(our_run, shop.spark), partial(our_run, shop.spark, threads=1)
    _two_days(shop, "hand", *hand)
    _two_days(shop, "ours", ours, ours)
    check_same(shop)
    times = [
        (_two_days(shop, "hand", *hand), _two_days(shop, "ours", ours, ours), _two_days(shop, "ours", alone, alone))
        for _ in range(repeat)
    ]
    return [_claim(what, [[way[day] for way in each] for each in times]) for day, what in enumerate(DAYS)]


def check_same(shop: Shop) -> None:
    """Figures of two ways that do not end with the same rows would say nothing."""
    hand, ours = ByHand(shop.spark, shop.folder / "hand"), ByHand(shop.spark, shop.folder / "ours")
    for name in TABLES:
        left, right = (shop.spark.sql(f"SELECT * FROM {way.tables[name]}") for way in (hand, ours))
        if left.exceptAll(right).count() or right.exceptAll(left).count():
            raise RuntimeError(f"{name} by hand is not {name} by Tidemill")


def _by_hand(shop: Shop) -> tuple[Way, Way]:
    return (lambda folder: ByHand(shop.spark, folder).first()), (lambda folder: ByHand(shop.spark, folder).second())


def _two_days(shop: Shop, name: str, first: Way, second: Way) -> tuple[float, float]:
    folder = shop.fresh(name)
    began = seconds(first, folder)
    shop.second_day(folder)
    return began, seconds(second, folder)


def _claim(what: str, times: list[list[float]]) -> Claim:
    hand, ours, alone = (statistics.median(way) for way in zip(*times, strict=True))
    detail = f"by hand {hand:.2f} s, ours {ours:.2f} s, {alone:.2f} s with one step at a time"
    return Claim(f"ten steps, {what}", ours / hand, 1.2, at_least=False, detail=detail)
