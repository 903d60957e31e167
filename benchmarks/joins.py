"""One day of an incremental join over a year of two feeds: against the join of the whole year, and over two years."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

from merges import Claim
from stage import seconds

import tidemill

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

ROWS, DAYS = 10_000_000, 365
FIRST = date(2023, 1, 1)
LOOK_BACK, LOOK_FORWARD = 6, 10
WARM_UP = 2  # rounds before the clock counts: Java compiles what runs often


@dataclass(frozen=True)
class Feeds:
    """Two tables of the same size, partitioned by day; most rows of `b` come within days of their `a`."""

    spark: SparkSession
    folder: Path
    rows: int
    days: int = DAYS

    def build(self) -> None:
        day = f"CAST(id * {self.days} DIV {self.rows} AS INT)"
        later = f"least(greatest({day} + CAST(pmod(hash(id), 14) AS INT) - 2, 0), {self.days - 1})"
        for name, number in (("a", day), ("b", later)):
            rows = self.spark.range(self.rows).selectExpr(
                "id AS reference",
                f"DATE '{FIRST}' + {number} AS process_date",
                "CAST(id % 1000 AS DECIMAL(10,2)) AS amount",
                "concat('transfer ', id % 5000) AS purpose",
            )
            ordered = rows.repartition("process_date")
            ordered.write.format("delta").partitionBy("process_date").save(str(self.folder / name))

    def joined(self, first: date, last: date) -> DataFrame:
        a, b = (self.spark.read.format("delta").load(str(self.folder / name)) for name in ("a", "b"))
        return tidemill.incremental_join(
            a, b, "reference", "left", a_time="process_date", b_time="process_date", look_back=LOOK_BACK,
            look_forward=LOOK_FORWARD, start=first, end=last,
        )  # fmt: skip

    def join(self, first: date, last: date) -> None:
        """All rows of the window, made and given to nobody."""
        self.joined(first, last).write.format("noop").mode("overwrite").save()

    @property
    def last(self) -> date:
        return FIRST + timedelta(days=self.days - 1)

    def sizes(self, name: str, first: date, last: date) -> Iterator[int]:
        """The sizes of the files of these days."""
        for number in range((last - first).days + 1):
            folder = self.folder / name / f"process_date={first + timedelta(days=number)}"
            yield from (file.stat().st_size for file in folder.glob("*.parquet"))


def one_day(year: Feeds, two_years: Feeds, repeat: int) -> list[Claim]:
    """The three claims; both days lie at the end of their feeds, where a run's window does."""
    day, other = year.last, two_years.last
    whole = partial(year.join, FIRST, year.last)
    ways = {"day": partial(year.join, day, day), "later": partial(two_years.join, other, other), "whole": whole}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(-WARM_UP, repeat):
        for name, way in ways.items():
            taken = seconds(way)
            if number >= 0:
                times[name].append(taken)
    took = {name: statistics.median(each) for name, each in times.items()}
    return [
        bytes_read(year, day),
        _claim("one day against the whole year", took["day"], took["whole"], 0.15),
        _claim("one day of two years against one of one", took["later"], took["day"], 1.2),
    ]


def bytes_read(feeds: Feeds, day: date) -> Claim:
    read = sum(Path(unquote(urlparse(file).path)).stat().st_size for file in feeds.joined(day, day).inputFiles())
    forward, both = timedelta(days=LOOK_FORWARD), timedelta(days=LOOK_BACK + LOOK_FORWARD)
    scope = sum([*feeds.sizes("a", day - forward, day), *feeds.sizes("b", day - both, day)])
    detail = f"{read / 1e6:.1f} of {scope / 1e6:.1f} MB"
    return Claim("bytes that one day reads, of its scope", read / scope, 1.5, at_least=False, detail=detail)


def _claim(what: str, took: float, other: float, bound: float) -> Claim:
    return Claim(what, took / other, bound, at_least=False, detail=f"{took:.2f} s, {other:.2f} s")
