"""Whatever arrives and whenever runs happen, the table equals what one full run over the final source gives.

`pytest tests/acceptance/test_incremental_equals_full.py --histories 500` tries more; the first seeds are
always the same ones. A history that fails prints the test to paste.
"""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pytest
from delta_rows import delta_table
from given import UTC_MICROS, commits_nothing, step, table
from pyspark.sql import functions as F

from tidemill.declarations import Append, DeleteInsert, Merge

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tidemill import Table

pytestmark = pytest.mark.small_tables
STRATEGIES = {"append": Append(), "merge": Merge(("id",)), "delete_insert": DeleteInsert()}
KINDS = {"timestamp": UTC_MICROS, "timestamp_ntz": pa.timestamp("us"), "date": pa.date32(), "bigint": pa.int64()}
WORDS = [None, "", "a", "b", "c"]
VALUES = [None, 0.0, 1.5, float("inf")]
ONE_HISTORY = "test_incremental_equals_full"
AT_A_TIME = 3
TIES = 6  # so many different times do the rows of one step have, about
Row = tuple[int, int | None, str | None, float | None]


@dataclass(frozen=True)
class History:
    """All that decides what arrives, when runs happen and how the table is declared. Times are ticks."""

    seed: int
    strategy: str
    cursor: str
    lookback: int
    steps: int = 3
    rows: int = 300
    nulls: bool = False
    future: bool = False
    full_run: bool = True

    @classmethod
    def numbered(cls, seed: int) -> Self:
        draw = random.Random(seed)
        cursor = draw.choice(list(KINDS))
        return cls(
            seed=seed,
            strategy=list(STRATEGIES)[seed % len(STRATEGIES)],
            cursor=cursor,
            lookback=draw.choice([0, 1, 5, 24]),
            steps=draw.choice([2, 3, 3]),
            rows=draw.randint(200, 500),
            nulls=draw.random() < 0.3,
            future=cursor != "bigint" and draw.random() < 0.3,
            full_run=draw.random() < 0.3,
        )

    def table(self, path: Path) -> Table:
        unit = "day" if self.cursor == "date" else "hour"
        back = self.lookback if self.cursor == "bigint" else f"{self.lookback} {unit}s"
        nulls = "include" if self.nulls else "fail"
        # Half of the tables are left to Spark by a property; the others are small, and written whole.
        spark_writes = {"delta.logRetentionDuration": "interval 30 days"} if self.seed // len(STRATEGIES) % 2 else {}
        strategy = STRATEGIES[self.strategy]
        return table(path, strategy, time="at", back=back, null_time=nulls, properties=spark_writes)

    def cursor_value(self, tick: int | None) -> Any:
        if tick is None or self.cursor == "bigint":
            return tick
        if self.cursor == "date":
            return date(2020, 1, 1) + timedelta(days=tick)
        moment = datetime(2020, 1, 1, tzinfo=UTC) + timedelta(hours=tick)
        return moment if self.cursor == "timestamp" else moment.replace(tzinfo=None)

    def now(self, tick: int) -> datetime:
        if self.cursor == "date":
            return datetime(2020, 1, 1, 12, tzinfo=UTC) + timedelta(days=tick)
        return datetime(2020, 1, 1, tzinfo=UTC) + timedelta(hours=tick)

    def source(self, spark: SparkSession, rows: list[Row]) -> DataFrame:
        """Spark reads Arrow's times without a zone as times of its session's zone, which is UTC."""
        return spark.createDataFrame(self.frame(rows)).withColumn("at", F.col("at").cast(self.cursor))

    def frame(self, rows: list[Row]) -> pa.Table:
        ids, ticks, words, values = zip(*rows, strict=True)
        columns = {
            "id": pa.array(ids, pa.int64()),
            "at": pa.array([self.cursor_value(tick) for tick in ticks], KINDS[self.cursor]),
            "word": pa.array(words, pa.string()),
            "value": pa.array(values, pa.float64()),
        }
        return pa.table(columns)


@dataclass
class World:
    """The source as it grows, and how far a run that has seen it must have come."""

    history: History
    draw: random.Random
    rows: list[Row] = field(default_factory=list)
    watermark: int = 1000
    now: int = 1000

    @property
    def oldest(self) -> int:
        """Rows may still arrive or change from here on: a run looks back so far."""
        return self.watermark - self.history.lookback

    def goes_on(self) -> None:
        """New rows: ties with the watermark, late ones within the lookback, copies, some ahead of the clock."""
        self.now += self.draw.randint(0, 30)
        if self.history.strategy == "merge":
            self._correct_by_key()
        elif self.history.strategy == "delete_insert":
            self._correct_in_place()
        times = self._times()
        fresh = [self._row(len(self.rows) + n, times) for n in range(self.history.rows)]
        if self.history.strategy != "merge":
            fresh += self.draw.choices(fresh, k=len(fresh) // 4)
        self.rows += fresh
        self.draw.shuffle(self.rows)

    def is_read(self) -> None:
        highest = max(tick for _, tick, _, _ in self.rows if tick is not None)
        reached = min(highest, self.now) if self.history.cursor != "bigint" else highest
        self.watermark = max(self.watermark, reached)

    def _times(self) -> list[int | None]:
        last = self.now + (50 if self.history.future else 0)
        times: list[int | None] = [self.oldest, self.watermark]
        times += [self.draw.randint(self.oldest, max(last, self.watermark)) for _ in range(TIES)]
        return [*times, None] if self.history.nulls else times

    def _row(self, number: int, times: list[int | None]) -> Row:
        key = number if self.history.strategy == "merge" else self.draw.randrange(50)
        return key, self.draw.choice(times), self.draw.choice(WORDS), self.draw.choice(VALUES)

    def _correct_by_key(self) -> None:
        """A correction of a merge comes with a time of its own, which may be any that a run still reads."""
        times = self._times()
        for at in self.draw.sample(range(len(self.rows)), len(self.rows) // 5):
            self.rows[at] = self._row(self.rows[at][0], times)

    def _correct_in_place(self) -> None:
        """Rows of a delete_insert change or go where they stand, if a run still reads them."""
        kept = []
        for key, tick, word, value in self.rows:
            chance = self.draw.random() if tick is None or tick >= self.oldest else 1.0
            if chance < 0.1:
                continue
            kept.append((key, tick, self.draw.choice(WORDS) if chance < 0.3 else word, value))
        self.rows = kept


def table_rows(path: Path) -> Counter[tuple[Any, ...]]:
    return rows_of(delta_table(path))


def rows_of(found: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*(column.to_pylist() for column in found.columns), strict=True))


def run_history(spark: SparkSession, folder: Path, history: History) -> None:
    world = World(history, random.Random(history.seed))
    incremental = history.table(folder / "incremental")
    for number in range(history.steps):
        world.goes_on()
        rows = history.source(spark, world.rows)
        step(spark, incremental, rows, now=history.now(world.now))
        world.is_read()
        if world.draw.random() < 0.3:
            with commits_nothing(folder / "incremental"):
                again = step(spark, incremental, rows, now=history.now(world.now))
            assert again.counts.written == 0, f"the rerun of step {number} wrote rows"
    full = rows_of(history.frame(world.rows))  # every row of the source is a row of the table, in each strategy
    if history.full_run:
        step(spark, history.table(folder / "full"), rows, now=history.now(world.now))
        check_equal(table_rows(folder / "full"), full)
    check_equal(table_rows(folder / "incremental"), full)


def check_equal(incremental: Counter[tuple[Any, ...]], full: Counter[tuple[Any, ...]]) -> None:
    lost, extra = full - incremental, incremental - full
    shown = f"{lost.total()} rows lost: {list(lost.items())[:3]}; {extra.total()} too many: {list(extra.items())[:3]}"
    assert lost == extra == Counter(), shown


def to_paste(history: History) -> str:
    return (
        f"{history} fails. Paste this into test_incremental_equals_full.py:\n\n"
        f"def test_history_{history.seed}(spark: SparkSession, tmp_path: Path) -> None:\n"
        f"    run_history(spark, tmp_path, {history})\n"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(metafunc.config.getoption("--histories")))


@pytest.fixture(scope="module")
def outcomes(
    spark: SparkSession, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[int, Future[None]]]:
    """The histories of all chosen tests, a few at a time: a step leaves much of the machine idle."""
    chosen = [item.callspec.params["seed"] for item in request.session.items if item.originalname == ONE_HISTORY]
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        yield {
            seed: pool.submit(run_history, spark, tmp_path_factory.mktemp(f"history{seed}"), History.numbered(seed))
            for seed in chosen
        }
        pool.shutdown(cancel_futures=True)


def test_incremental_equals_full(outcomes: dict[int, Future[None]], seed: int) -> None:
    try:
        outcomes[seed].result()
    except Exception as failure:
        failure.add_note(to_paste(History.numbered(seed)))
        raise


def test_a_lost_or_doubled_row_is_found() -> None:
    rows = Counter({(1, "a"): 1, (2, "b"): 2})
    check_equal(rows, Counter(rows))
    for wrong in (Counter({(1, "a"): 1, (2, "b"): 1}), Counter({(1, "a"): 2, (2, "b"): 2})):
        with pytest.raises(AssertionError, match=r"1 rows lost|1 too many"):
            check_equal(wrong, rows)
