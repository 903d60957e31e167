"""More than a thousand random joins, with every cutting into windows, give what their meaning says: in one Spark job.

Each window of each case is a world of its own: its number is a part of the condition, and its bounds are columns.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from cases import drawn
from oracle import HOWS, Out
from pyspark.sql import functions as F

from tidemill import JoinType
from tidemill.join.rows import STATUS, TARGET, WAITED, Joining, Side, Ticks
from tidemill.model.join import join_type, scope_of
from tidemill.results import CursorKind

if TYPE_CHECKING:
    from cases import Case
    from oracle import Row
    from pyspark.sql import Column, DataFrame, SparkSession

    from tidemill.model.join import Span

NAIVE = datetime(2023, 12, 31, 23, 59, 59, 999_999)  # noqa: DTZ001
ODD = 86_400_000_001  # microseconds: no tick is a whole day, none a whole second
BOUNDS = ("start", "end", "look_back", "look_forward")


@dataclass(frozen=True)
class Times:
    """How the small numbers of a case become times of one kind: `first` and then steps of so many ticks."""

    kind: CursorKind
    arrow: pa.DataType
    first: int
    step: int

    def tick(self, number: int) -> int:
        return self.first + number * self.step

    def value(self, number: int) -> Any:
        tick = self.tick(number)
        match self.kind:
            case CursorKind.DATE:
                return date(1970, 1, 1) + timedelta(days=tick)
            case CursorKind.INTEGER:
                return tick
            case CursorKind.TIMESTAMP:
                return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=tick)
            case _:
                return datetime(1970, 1, 1) + timedelta(microseconds=tick)  # noqa: DTZ001

    def text(self, number: int) -> str:
        value = self.value(number)
        return f"{value:%Y-%m-%d %H:%M:%S.%f}" if isinstance(value, datetime) else str(value)


MICROS = (NAIVE - datetime(1970, 1, 1)) // timedelta(microseconds=1)  # noqa: DTZ001
KINDS = (
    Times(CursorKind.DATE, pa.date32(), -3, 1),
    Times(CursorKind.TIMESTAMP, pa.timestamp("us", tz="UTC"), MICROS, ODD),
    Times(CursorKind.TIMESTAMP_NTZ, pa.timestamp("us"), MICROS, ODD),
    Times(CursorKind.INTEGER, pa.int32(), -5, 3),
)


@dataclass(frozen=True)
class World:
    """One window of one case, under its number."""

    number: int
    case: Case
    window: Span
    times: Times
    waiting: bool

    def rows(self, side: str) -> list[dict[str, Any]]:
        scope = getattr(scope_of(join_type(self.case.how), self.window, self.case.waits, waiting=self.waiting), side)
        found: tuple[Row, ...] = getattr(self.case, side)
        return [self._row(row) for row in found if scope.start <= row.t < scope.end]

    def _row(self, row: Row) -> dict[str, Any]:
        case, times = self.case, self.times
        return {
            "world": self.number,
            "how": case.how,
            "id": row.id,
            "key": row.key,
            "t": times.value(row.t),
            "start": times.tick(self.window.start),
            "end": times.tick(self.window.end),
            "look_back": case.lb * times.step,
            "look_forward": case.lf * times.step,
        }

    def shown(self, out: Out) -> tuple[Any, ...]:
        """A row of the oracle as Spark gives it."""
        waited = None if out.waited is None else out.waited * self.times.step
        return out.a, out.b, self.times.text(out.target), out.status, waited


def frame(spark: SparkSession, worlds: list[World], side: str) -> DataFrame:
    numbers = ("world", "id", "key", *BOUNDS)
    fields = [("how", pa.string()), ("t", worlds[0].times.arrow), *((name, pa.int64()) for name in numbers)]
    rows = [row for world in worlds for row in world.rows(side)]
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=pa.schema(fields)))


def bound(name: str, how: JoinType) -> Column:
    a, b = F.col(f"a.{name}"), F.col(f"b.{name}")
    return a if how is JoinType.LEFT_ANTI else b if how is JoinType.RIGHT_ANTI else F.coalesce(a, b)


def joined(a: DataFrame, b: DataFrame, times: Times, how: JoinType, *, waiting: bool) -> DataFrame:
    """The rows of all worlds of one type of join, as the tuples that `World.shown` gives."""
    sides = [Side(rows.where(F.col("how") == how), name, "t") for rows, name in ((a, "a"), (b, "b"))]
    on = F.expr("a.world = b.world AND a.key = b.key")
    bounds = Ticks(*(bound(name, how) for name in BOUNDS))
    rows = Joining(sides[0], sides[1], on, how, times.kind, bounds, waiting).rows
    text = F.date_format(TARGET, "yyyy-MM-dd HH:mm:ss.SSSSSS") if "timestamp" in times.kind else F.col(TARGET)
    none = F.lit(None).cast("bigint")
    return rows.select(
        bound("world", how).alias("world"),
        (none if how is JoinType.RIGHT_ANTI else F.col("a.id")).alias("a"),
        (none if how is JoinType.LEFT_ANTI else F.col("b.id")).alias("b"),
        text.cast("string").alias("target"),
        F.col(STATUS).alias("status"),
        F.col(WAITED).alias("waited"),
    )


def worlds_of(cases: list[Case]) -> list[World]:
    """Each kind of time has its share of the cases; of every other one, waiting rows are asked for too."""
    found: list[World] = []
    for number, case in enumerate(cases):
        times = KINDS[number % len(KINDS)]
        for window in case.windows:
            waiting = times.kind in {CursorKind.DATE, CursorKind.TIMESTAMP}
            found.append(World(len(found), case, window, times, waiting))
    return found


def answers(spark: SparkSession, worlds: list[World]) -> dict[int, list[tuple[Any, ...]]]:
    parts: list[DataFrame] = []
    for times in KINDS:
        own = [world for world in worlds if world.times is times]
        a, b = (frame(spark, own, side) for side in ("a", "b"))
        parts += [joined(a, b, times, join_type(how), waiting=own[0].waiting) for how in HOWS]
    found: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for row in reduce(lambda one, other: one.unionByName(other), parts).collect():
        found[row["world"]].append((row["a"], row["b"], row["target"], row["status"], row["waited"]))
    return found


def plain(spark: SparkSession) -> SparkSession:
    """A session for one query of many small joins: compiling and adapting each takes longer than running it."""
    session = spark.newSession()
    for name, value in (("adaptive.enabled", False), ("codegen.wholeStage", False), ("shuffle.partitions", 1)):
        session.conf.set(f"spark.sql.{name}", value)
    return session


def check(spark: SparkSession, count: int) -> None:
    cases = drawn(count)
    assert len(cases) >= count
    worlds = worlds_of(cases)
    found = answers(plain(spark), worlds)
    wrong: list[tuple[Case, list[Any], list[Any]]] = []
    for _, group in groupby(worlds, key=lambda world: id(world.case)):
        own = list(group)
        case = own[0].case
        given = [out for world in own for out in found[world.number]]
        expected = [own[0].shown(out) for out in case.history]
        expected += [world.shown(out) for world in own if world.waiting for out in case.waiting(world.window)]
        if sorted(given, key=repr) != sorted(expected, key=repr):
            wrong.append((case, given, expected))
    if wrong:
        case, given, expected = min(wrong, key=lambda each: each[0].size)
        pytest.fail(f"{len(wrong)} of {count} are wrong, such as {case}:\n{given}\ninstead of\n{expected}")


def test_random_joins_give_what_their_meaning_says(spark: SparkSession) -> None:
    check(spark, 1200)


@pytest.mark.slow
def test_many_more_random_joins_do_too(spark: SparkSession) -> None:
    check(spark, 20_000)
