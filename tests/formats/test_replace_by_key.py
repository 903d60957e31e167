"""Rows that replace others by keys that need not be unique, on every table format."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import pytest
from formats.arrow_format import ARROW, ArrowFormat

from tidemill import Record
from tidemill.changes.profile import profile
from tidemill.changes.replace_keys import replacing
from tidemill.formats import DELTA, PARQUET
from tidemill.formats.base import AppendRows, Conflict, Requirements
from tidemill.formats.registry import format_named, register, store_at, unregister
from tidemill.model.record import Counts, counts_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tidemill.formats.base import KeyRange, ReplaceByKey
    from tidemill.formats.port import Store
    from tidemill.model.record import Snapshot

Row: TypeAlias = "tuple[int | None, str | None, int]"
HELD: list[Row] = [(1, "a", 1), (1, "a", 1), (2, "a", 2), (None, "a", 3), (None, None, 4), (5, "b", 5)]
FORMATS = [(DELTA.name, ()), (DELTA.name, ("g",)), (PARQUET.name, ()), (PARQUET.name, ("g",)), (ARROW.name, ())]


@pytest.fixture(params=FORMATS, ids=lambda param: " by ".join([param[0], *param[1]]))
def store(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Iterator[Store]:
    """A table of keys that come twice, and are NULL; made once for each format and copied."""
    register(ArrowFormat())
    kind, by = request.param
    made = tmp_path.parent / "-".join(["made-by-key", kind, *by])
    if not made.exists():
        first = format_named(kind).store(str(made), partition_by=by)
        first.commit(spark, AppendRows(rows(spark, HELD)), record(first), None)
    shutil.copytree(made, tmp_path / "t")
    yield store_at(str(tmp_path / "t"))
    unregister(ARROW.name)


def rows(spark: SparkSession, values: Sequence[Row]) -> DataFrame:
    return spark.createDataFrame(list(values), "k bigint, g string, n bigint")


def record(store: Store) -> Record:
    snapshot = store.snapshot()
    sequence = snapshot.sequence + 1 if snapshot else 1
    return Record(f"run {sequence}", "t", sequence, "materialized_view", "2024-01-01T00:00:00Z")


def there(store: Store) -> Snapshot:
    snapshot = store.snapshot()
    assert snapshot is not None
    return snapshot


def held(store: Store, spark: SparkSession) -> list[Row]:
    return in_order([(row["k"], row["g"], row["n"]) for row in store.read(spark).collect()])


def in_order(values: Sequence[Row]) -> list[Row]:
    return sorted(values, key=repr)


def by_k(
    store: Store, spark: SparkSession, gone: Sequence[int | None] | None, new: Sequence[Row], *ranges: KeyRange
) -> ReplaceByKey:
    keys = None if gone is None else spark.createDataFrame([(key,) for key in gone], "k bigint")
    coming, there = {row[0] for row in new}, {row[0] for row in HELD}
    covered = gone is not None and set(gone) <= coming and coming & there <= set(gone)
    return replacing(store.schema(spark), ["k"], keys, rows(spark, new), ranges, covered=covered)


Replacement: TypeAlias = "tuple[list[int | None] | None, list[Row], list[Row], Counts]"
REPLACEMENTS: dict[str, Replacement] = {
    "rows of a key by others": ([1], [(1, "a", 7)], [*HELD[2:], (1, "a", 7)], Counts(1, 0, 2)),
    "a NULL key is a key": ([None], [(None, "b", 8)], [*HELD[:3], HELD[5], (None, "b", 8)], Counts(1, 0, 2)),
    "the same row many times": ([2], [(2, "a", 9)] * 3, [*HELD[:2], *HELD[3:], *[(2, "a", 9)] * 3], Counts(3, 0, 1)),
    "a key that vanishes": ([5], [], HELD[:5], Counts(0, 0, 1)),
    "a key that was not there": ([], [(6, None, 6)], [*HELD, (6, None, 6)], Counts(1)),
    "a key that moves to another partition": ([5], [(5, "c", 5)], [*HELD[:5], (5, "c", 5)], Counts(1, 0, 1)),
    "keys of which none is held": ([7, 8], [], HELD, Counts()),
    "no key leaves": (None, [(1, "a", 1), (6, "z", 6)], [*HELD, (1, "a", 1), (6, "z", 6)], Counts(2)),
    "all keys": ([1, 2, None, 5], [(9, "z", 9)], [(9, "z", 9)], Counts(1, 0, 6)),
}


@pytest.mark.parametrize("replacement", REPLACEMENTS.values(), ids=REPLACEMENTS)
def test_rows_of_keys_are_replaced_as_a_bag(store: Store, spark: SparkSession, replacement: Replacement) -> None:
    gone, new, expected, counts = replacement
    before = there(store)
    done = store.commit(spark, by_k(store, spark, gone, new), record(store), before)
    assert held(store, spark) == in_order(expected)
    assert store.schema(spark).names == ["k", "g", "n"]
    commit = store.log.commit(done.version)
    assert commit is not None
    assert commit.record is not None
    assert (done.counts, counts_of(commit)) == (counts, counts)
    assert there(store).sequence == before.sequence + 1


def test_files_out_of_reach_of_the_keys_are_kept(store: Store, spark: SparkSession) -> None:
    far = [(100 + n, "a", n) for n in range(5)]
    store.commit(spark, AppendRows(rows(spark, far)), record(store), there(store))
    ranges = profile(spark.createDataFrame([(1,), (2,)], "k bigint"), keys=["k"]).ranges
    files = there(store).files
    done = store.commit(spark, by_k(store, spark, [1, 2], [(2, "a", 0)], *ranges), record(store), there(store))
    assert held(store, spark) == in_order([*HELD[3:], (2, "a", 0), *far])
    assert done.files_rewritten < files or not files


def test_keys_of_several_columns_are_compared_null_safe(store: Store, spark: SparkSession) -> None:
    gone = spark.createDataFrame([(None, None), (1, "b"), (5, "b")], "k bigint, g string")
    operation = replacing(store.schema(spark), ["k", "g"], gone, rows(spark, [(None, None, 0)]))
    store.commit(spark, operation, record(store), there(store))
    assert held(store, spark) == in_order([*HELD[:4], (None, None, 0)])


def test_who_comes_second_conflicts_and_leaves_nothing(store: Store, spark: SparkSession) -> None:
    other = store_at(store.path)
    seen = there(other)
    late = other.stage(spark, by_k(other, spark, [1], [(1, "late", 0)]), seen, rows=1)
    store.commit(spark, by_k(store, spark, [2], [(2, "first", 0)]), record(store), there(store))
    with pytest.raises(Conflict):
        late.commit(replace(record(store), run_id="late"), Requirements.of(seen))
    other.close()
    assert held(store, spark) == in_order([*HELD[:2], *HELD[3:], (2, "first", 0)])
