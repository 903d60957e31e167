"""Somebody else writes to the table: between two runs, and during one."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import deltalake
import pytest
from pyspark.errors import PySparkException
from support import NOW, Rows, events, events_table, fed, feed, held, ids, keyed, version

import tidemill
from tidemill.changes.compile import compile_change
from tidemill.changes.profile import profile
from tidemill.declarations import Append, DeleteInsert, Merge
from tidemill.errors import MergeError
from tidemill.execution.step import run_step
from tidemill.formats.base import AppendRows, Change, Target
from tidemill.formats.delta.store import DeltaStore
from tidemill.spark.errors import is_conflict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from tidemill.model.strategy import Strategy
    from tidemill.sources import Reading

FIRST = events((1, 1, "a"), (2, 2, "b"), (3, 3, "c"), (4, 3, "d"))
ALL = events((1, 1, "a"), (2, 2, "b"), (3, 3, "c"), (4, 3, "d"), (5, 4, "e"))
WHOLE = [(1, 1.0, "a"), (2, 2.0, "b"), (3, 3.0, "c"), (4, 3.0, "d"), (5, 4.0, "e")]


def foreign_append(spark: SparkSession, path: Path, rows: object) -> Callable[[], None]:
    return lambda: spark.createDataFrame(rows).write.format("delta").mode("append").save(str(path))


def statement(spark: SparkSession, path: Path, sql: str) -> Callable[[], None]:
    return lambda: spark.sql(sql.format(table=f"delta.`{path}`")).collect() and None


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events"


STRATEGIES = [Append(), Merge(("id",)), DeleteInsert()]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
@pytest.mark.parametrize("when", ["between", "during"])
def test_a_foreign_append_of_rows_that_the_source_gives_too_doubles_nothing(
    spark: SparkSession, path: Path, strategy: Strategy, when: str
) -> None:
    table = events_table(path, strategy)
    fed(spark, table, FIRST)
    append = foreign_append(spark, path, events((5, 4, "e")))
    if when == "between":
        append()
        feed(spark, table, ALL)
    else:
        feed(spark, table, ALL, meanwhile=append)
    assert held(path) == WHOLE


def test_rows_that_somebody_keeps_in_a_cache_are_not_read_as_the_table(spark: SparkSession, path: Path) -> None:
    """Spark gives what it has cached of a table also after another process has written to it."""
    table = keyed(path)
    fed(spark, table, FIRST)
    cached = tidemill.read(path, spark=spark).cache()
    cached.count()
    deltalake.write_deltalake(path, events((5, 4, "e")), mode="append")
    try:
        feed(spark, table, ALL)
    finally:
        cached.unpersist()
    assert held(path) == WHOLE


@pytest.mark.parametrize(("strategy", "when"), [(Append(), "between"), (Merge(("id",)), "during")], ids=str)
def test_an_optimize_changes_nothing(spark: SparkSession, path: Path, strategy: Strategy, when: str) -> None:
    table = events_table(path, strategy)
    fed(spark, table, FIRST)
    optimize = statement(spark, path, "OPTIMIZE {table}")
    if when == "between":
        optimize()
    result = feed(spark, table, ALL, meanwhile=None if when == "between" else optimize)
    assert held(path) == WHOLE
    assert result.window is not None
    assert result.window.reason == "since 2024-01-01 03:00:00 UTC, lookback 3 hours"


@pytest.mark.parametrize(
    ("strategy", "when"),
    [(Append(), "between"), (Append(), "during"), (Merge(("id",)), "between"), (DeleteInsert(), "during")],
    ids=str,
)
def test_rows_that_somebody_deleted_from_the_end_come_back(
    spark: SparkSession, path: Path, strategy: Strategy, when: str
) -> None:
    """The start is the table's own highest time: below it nothing is read again, as the lookback says."""
    table = events_table(path, strategy, back="1 hour")
    fed(spark, table, events((1, 1, "a"), (2, 2, "b"), (3, 5, "c"), (4, 9, "d")))
    delete = statement(spark, path, "DELETE FROM {table} WHERE id >= 3")
    source = events((1, 1, "a"), (2, 2, "b"), (3, 5, "c"), (4, 9, "d"), (5, 10, "e"))
    if when == "between":
        delete()
        result = feed(spark, table, source)
        assert result.window is not None
        assert result.window.reason == "somebody else removed rows: since 2024-01-01 02:00:00 UTC, lookback 1 hour"
    else:
        feed(spark, table, source, meanwhile=delete)
        feed(spark, table, source)
    assert ids(held(path)) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_an_emptied_table_is_read_from_the_beginning(spark: SparkSession, path: Path, strategy: Strategy) -> None:
    table = events_table(path, strategy)
    fed(spark, table, FIRST)
    statement(spark, path, "DELETE FROM {table}")()
    result = feed(spark, table, ALL)
    assert result.window is not None
    assert result.window.reason == "the table is empty: everything is read"
    assert held(path) == WHOLE


@pytest.mark.parametrize("when", ["between", "during"])
def test_an_overwrite_by_an_older_copy_is_continued_from_its_own_highest_time(
    spark: SparkSession, path: Path, when: str
) -> None:
    table = events_table(path, Append(), back=None)
    fed(spark, table, ALL)
    older = spark.createDataFrame(events((1, 1, "a"), (2, 2, "b")))
    overwrite = lambda: older.write.format("delta").mode("overwrite").save(str(path))  # noqa: E731
    if when == "between":
        overwrite()
    feed(spark, table, ALL, meanwhile=None if when == "between" else overwrite)
    if when == "during":
        feed(spark, table, ALL)
    assert held(path) == WHOLE


def test_a_table_made_by_hand_is_adopted_from_its_highest_time(spark: SparkSession, path: Path) -> None:
    foreign_append(spark, path, FIRST)()
    result = feed(spark, events_table(path, back=None), ALL)
    assert result.window is not None
    assert result.window.reason == "adopted: since its highest at 2024-01-01 03:00:00 UTC"
    assert result.counts.inserted == 1
    assert held(path) == WHOLE


def test_keys_doubled_by_somebody_else_are_an_error_and_not_updated_twice(spark: SparkSession, path: Path) -> None:
    table = keyed(path)
    fed(spark, table, FIRST)
    foreign_append(spark, path, events((1, 1, "again")))()
    before = version(path)
    with pytest.raises(MergeError) as caught:
        feed(spark, table, events((1, 1, "new")))
    assert str(caught.value) == (
        "[merge.target_duplicates] events holds 1 key of this change more than once: 1. "
        "Use the strategy deduplicate, which leaves one row of each, or other keys. events is unchanged."
    )
    assert version(path) == before


def test_a_foreign_append_during_the_write_itself_makes_the_run_plan_again(
    spark: SparkSession, path: Path, tmp_path: Path
) -> None:
    """The rows are held up inside the write job, after every look at the table, until the other commit is there."""
    table = events_table(path, Append())
    fed(spark, table, FIRST)
    gate = Gate(tmp_path, evaluation=2)  # the first is the profile, the second the write
    writer = threading.Thread(target=lambda: run_step(spark, table, gate.source(ALL), now=NOW))
    writer.start()
    gate.wait_until_reached()
    foreign_append(spark, path, events((5, 4, "e")))()
    gate.open()
    writer.join()
    assert held(path) == WHOLE


class Gate:
    """Rows whose n-th evaluation waits for a signal, through files, because it happens in another process."""

    def __init__(self, folder: Path, evaluation: int) -> None:
        self.folder, self.evaluation = folder, evaluation

    def source(self, table: object) -> Rows:
        gate = self

        class Gated(Rows):
            def read(self, reading: Reading, columns: Sequence[str] = ()) -> DataFrame:
                frame = super().read(reading, columns).coalesce(1)
                return frame.mapInArrow(_waiting(str(gate.folder), gate.evaluation), frame.schema)

        return Gated(table, settled=True)

    def wait_until_reached(self) -> None:
        _wait_for(self.folder / "reached")

    def open(self) -> None:
        (self.folder / "open").touch()


def _waiting(folder: str, evaluation: int) -> Callable[[object], object]:
    def pass_through(batches: object) -> object:
        counter = Path(folder) / "evaluations"
        with counter.open("a") as file:
            file.write("x")
        if len(counter.read_text()) == evaluation:
            (Path(folder) / "reached").touch()
            for _ in range(600):
                if (Path(folder) / "open").exists():
                    break
                time.sleep(0.1)
        yield from batches

    return pass_through


def _wait_for(path: Path) -> None:
    for _ in range(600):
        if path.exists():
            return
        time.sleep(0.1)
    raise TimeoutError(path)


def test_a_key_that_nobody_held_when_the_write_was_planned_conflicts_if_somebody_does_by_then(
    spark: SparkSession, path: Path
) -> None:
    """New keys out of every file's reach are appended without a join; the write itself looks once more."""
    feed(spark, keyed(path), FIRST)
    store = DeltaStore(str(path))
    snapshot, rows = store.snapshot(), spark.createDataFrame(events((9, 4, "e")))
    assert snapshot is not None
    change = Change(rows, profile(rows, keys=["id"]))
    target = Target("events", store.read(spark), snapshot, store.log.reach)
    operation = compile_change(Merge(("id",)), change, target).operation
    assert isinstance(operation, AppendRows)
    foreign_append(spark, path, events((9, 4, "theirs")))()
    with pytest.raises(PySparkException) as failure:
        operation.rows.write.format("delta").mode("append").save(str(path))
    assert is_conflict(failure.value)
    assert version(path) == 1
