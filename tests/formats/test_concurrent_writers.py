"""Two writers at once on one table: each commits wholly or plans again; nothing is lost or doubled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support import events, events_table, fed, feed, held, ids, keyed, together

from tidemill import MergeStrategy, Record, Table
from tidemill.declarations import Append, DeleteInsert, Merge, Replace
from tidemill.formats.base import AppendRows, Conflict
from tidemill.formats.delta.store import DeltaStore

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tidemill.model.strategy import Strategy


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events"


@pytest.mark.parametrize("strategy", [Append(), Merge(("id",)), DeleteInsert()], ids=str)
def test_two_runs_of_the_same_input_at_once_leave_each_row_once(
    spark: SparkSession, path: Path, strategy: Strategy
) -> None:
    table = events_table(path, strategy)
    fed(spark, table, events((1, 1, "a"), (2, 2, "b")))
    source = events((1, 1, "a"), (2, 2, "B"), (3, 3, "c"), (4, 3, "d"))
    wanted = [3, 4] if isinstance(strategy, Append) else [1, 2, 3, 4]
    failures = together(*[lambda: feed(spark, table, source)] * 2)
    assert failures == []
    assert [i for i in ids(held(path)) if i in wanted] == wanted


def test_two_first_runs_at_once_make_one_table(spark: SparkSession, path: Path) -> None:
    table = keyed(path)
    failures = together(
        lambda: feed(spark, table, events((1, 1, "a"), (2, 2, "b"))),
        lambda: feed(spark, table, events((2, 2, "b"), (3, 3, "c"))),
    )
    assert failures == []
    assert ids(held(path)) == [1, 2, 3]


def test_writers_of_different_keys_lose_nothing(spark: SparkSession, path: Path) -> None:
    table = keyed(path)
    fed(spark, table, events((0, 0, "start")))
    jobs = [lambda n=n: feed(spark, table, events(*[(n * 10 + k, 1, "x") for k in range(5)])) for n in (1, 2, 3)]
    failures = together(*jobs)
    assert failures == []
    assert ids(held(path)) == [0, *[n * 10 + k for n in (1, 2, 3) for k in range(5)]]


def test_a_replace_and_a_merge_at_once_end_as_one_after_the_other(spark: SparkSession, path: Path) -> None:
    feed(spark, keyed(path), events((1, 1, "a"), (2, 2, "b")))
    replace = Table(name="events", path=str(path), strategy=Replace())
    failures = together(
        lambda: feed(spark, replace, events((1, 1, "replaced"))),
        lambda: feed(spark, keyed(path), events((2, 2, "merged"), (3, 3, "merged"))),
    )
    assert failures == []
    after = held(path)
    merged_last = [(1, 1.0, "replaced"), (2, 2.0, "merged"), (3, 3.0, "merged")]
    replaced_last = [(1, 1.0, "replaced")]
    assert after in (merged_last, replaced_last)


def test_a_full_merge_and_an_insert_at_once_end_as_one_after_the_other(spark: SparkSession, path: Path) -> None:
    feed(spark, keyed(path), events((1, 1, "a"), (2, 2, "b")))
    failures = together(
        lambda: feed(spark, keyed(path, form=MergeStrategy.FULL_MERGE), events((1, 1, "full"))),
        lambda: feed(spark, keyed(path, form=MergeStrategy.INSERT), events((3, 3, "new"))),
    )
    assert failures == []
    assert ids(held(path)) in ([1], [1, 3])


def test_a_commit_that_delta_skips_silently_is_a_conflict(spark: SparkSession, path: Path) -> None:
    """A run that took its sequence number from an older look at the table: Delta writes nothing and says nothing."""
    feed(spark, keyed(path), events((1, 1, "a")))
    feed(spark, keyed(path), events((2, 2, "other")))
    store = DeltaStore(str(path))
    rows = spark.createDataFrame(events((3, 3, "ours")))
    ours = Record(run_id="ours", table="events", sequence=2, strategy="append", at="")
    with pytest.raises(Conflict) as caught:
        store.commit(spark, AppendRows(rows), ours, store.snapshot())
    assert str(caught.value) == f"sequence number 2 of {path} was taken by another run"
    assert ids(held(path)) == [1, 2]


def test_a_run_planned_on_an_older_version_is_a_conflict(spark: SparkSession, path: Path) -> None:
    feed(spark, keyed(path), events((1, 1, "a")))
    store = DeltaStore(str(path))
    planned = store.snapshot()
    feed(spark, keyed(path), events((2, 2, "other")))
    rows = spark.createDataFrame(events((3, 3, "ours")))
    ours = Record(run_id="ours", table="events", sequence=2, strategy="append", at="")
    with pytest.raises(Conflict) as caught:
        store.commit(spark, AppendRows(rows), ours, planned)
    assert str(caught.value) == f"{path} was changed since it was looked at"
    assert ids(held(path)) == [1, 2]
