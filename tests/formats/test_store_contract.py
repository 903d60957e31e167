"""What every table format keeps to: one suite, run on each of them, and on one that only the tests have."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest
from formats.arrow_format import ARROW, ArrowFormat
from pyspark.sql import functions as F

import tidemill
from tidemill import Record
from tidemill.changes.match import Match
from tidemill.declarations import Merge
from tidemill.errors import TidemillError
from tidemill.formats import DELTA, FORMATS, PARQUET, Capability
from tidemill.formats.base import (
    AppendRows,
    Change,
    Conflict,
    OverwriteRows,
    Profile,
    ReplaceRows,
    Requirements,
    Target,
    UpsertRows,
)
from tidemill.formats.port import WEIGHT
from tidemill.formats.registry import format_at, format_named, log_at, register, some_rows, store_at, unregister
from tidemill.model.record import Counts, counts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, Row, SparkSession

    from tidemill.formats.port import Store
    from tidemill.model.record import Snapshot

KINDS = [DELTA.name, PARQUET.name, ARROW.name]
SMALL_TABLES = [each.name for each in (DELTA, PARQUET, ARROW) if Capability.SMALL_TABLES in each.capabilities]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Iterator[str]:
    register(ArrowFormat())
    yield request.param
    unregister(ARROW.name)


@pytest.fixture
def store(kind: str, tmp_path: Path) -> Store:
    return format_named(kind).store(str(tmp_path / "t"))


@pytest.fixture
def filled(store: Store, rows: Rows, spark: SparkSession) -> Store:
    """A table of keys 1 to 3, made once for each format and copied."""
    path = Path(store.path)
    made = path.parent.parent / f"made-{store.traits.name}"
    if not made.exists():
        store.commit(spark, AppendRows(rows((1, "a"), (2, "b"), (3, "c"))), record(store), store.snapshot())
        store.close()
        shutil.copytree(path, made)
        return store
    shutil.copytree(made, path)
    return format_named(store.traits.name).store(store.path)


Rows: TypeAlias = "Callable[..., DataFrame]"


@pytest.fixture
def rows(spark: SparkSession) -> Rows:
    return lambda *pairs: spark.createDataFrame(list(pairs), "k bigint, v string")


def record(store: Store, **more: object) -> Record:
    """The next record of a table, under a name of its own."""
    snapshot = store.snapshot()
    sequence = snapshot.sequence + 1 if snapshot else 1
    number = sum(commit.record is not None for commit in store.commits()) + 1 if snapshot else 1
    return replace(Record(f"run {number}", "t", sequence, "append", "2024-01-01T00:00:00Z"), **more)  # type: ignore[arg-type]


def there(store: Store) -> Snapshot:
    snapshot = store.snapshot()
    assert snapshot is not None
    return snapshot


def held(store: Store, spark: SparkSession, version: int | None = None) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in store.read(spark, version).collect())


def upsert(store: Store, spark: SparkSession, change: DataFrame, **more: object) -> UpsertRows:
    """The change's rows by key, as a strategy compiles them."""
    matched = Match(
        Merge(("k",)), Change(change, Profile(rows=2)), Target("t", store.read(spark), there(store), store.log.reach)
    )
    return replace(matched.upsert(change), **more)  # type: ignore[arg-type]


def test_where_no_table_is_the_store_and_the_log_say_so(store: Store, kind: str) -> None:
    assert store.snapshot() is None
    assert not store.log.exists()
    assert format_at(store.path) is None
    assert format_named(kind).traits is FORMATS[kind]


def test_a_first_commit_makes_the_table_with_its_record(filled: Store, kind: str, spark: SparkSession) -> None:
    snapshot = there(filled)
    assert held(filled, spark) == [(1, "a"), (2, "b"), (3, "c")]
    assert snapshot.record is not None
    assert (snapshot.record.run_id, snapshot.record_version) == ("run 1", snapshot.version)
    assert (snapshot.foreign, snapshot.partition_columns) == ((), ())
    assert (format_at(filled.path), filled.log.columns(), filled.count(spark)) == (kind, ["k", "v"], 3)
    assert filled.log.column_types() == {"k": "long", "v": "string"}
    assert filled.schema(spark).simpleString() == "struct<k:bigint,v:string>"
    assert held(store_at(filled.path), spark) == held(filled, spark)


def test_every_operation_leaves_exactly_its_rows_and_counts_them(
    filled: Store, rows: Rows, spark: SparkSession
) -> None:
    keyed = {"keys": ("k",), "strategy": "merge upsert"}

    def commit(operation: object, **more: object) -> Counts:
        result = filled.commit(spark, operation, record(filled, **more), there(filled))  # type: ignore[arg-type]
        commit = filled.log.commit(result.version)
        assert commit is not None
        assert counts_of(commit) == result.counts  # in our words, now and from the log
        return result.counts

    assert commit(AppendRows(rows((4, "d"))), rows=1) == Counts(inserted=1)
    assert commit(upsert(filled, spark, rows((4, "D"), (5, "e"))), rows=2, **keyed) == Counts(inserted=1, updated=1)
    assert held(filled, spark) == [(1, "a"), (2, "b"), (3, "c"), (4, "D"), (5, "e")]
    assert commit(ReplaceRows(rows((1, "z")), "k <= 2"), rows=1).deleted == 2
    assert held(filled, spark) == [(1, "z"), (3, "c"), (4, "D"), (5, "e")]
    assert commit(OverwriteRows(rows((9, "i"))), rows=1).inserted == 1
    assert held(filled, spark) == [(9, "i")]


def test_an_upsert_may_delete_what_the_change_lacks(filled: Store, rows: Rows, spark: SparkSession) -> None:
    change = rows((2, "b"), (3, "C"))
    target = Target("t", filled.read(spark), there(filled), filled.log.reach)
    matched = Match(Merge(("k",)), Change(change, Profile(rows=2)), target)
    done = filled.commit(
        spark, matched.full_merge(), record(filled, rows=2, keys=("k",), strategy="merge full_merge"), there(filled)
    )
    assert held(filled, spark) == [(2, "b"), (3, "C")]
    assert filled.count(spark) == 2
    assert done.version == filled.log.version()


def test_what_is_staged_is_no_part_of_the_table_until_it_is_committed(
    filled: Store, rows: Rows, spark: SparkSession
) -> None:
    before = there(filled)
    filled.stage(spark, AppendRows(rows((7, "never"))), before, rows=1)
    filled.close()
    assert there(filled) == before
    staged = filled.stage(spark, AppendRows(rows((8, "h"))), before, rows=1)
    assert held(store_at(filled.path), spark) == [(1, "a"), (2, "b"), (3, "c")]
    staged.commit(record(filled, rows=1), Requirements.of(before))
    assert held(filled, spark) == [(1, "a"), (2, "b"), (3, "c"), (8, "h")]


def test_of_two_commits_on_one_version_the_second_conflicts(filled: Store, rows: Rows, spark: SparkSession) -> None:
    other = store_at(filled.path)
    seen, same = there(filled), there(other)
    late = other.stage(spark, AppendRows(rows((5, "late"))), same, rows=1)
    filled.commit(spark, AppendRows(rows((4, "d"))), record(filled, rows=1), seen)
    with pytest.raises(Conflict):
        late.commit(replace(record(filled), run_id="late", sequence=seen.sequence + 1), Requirements.of(same))
    other.close()
    assert held(filled, spark) == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]


def test_a_table_that_came_meanwhile_is_a_conflict_for_who_would_make_it(
    store: Store, rows: Rows, spark: SparkSession
) -> None:
    other = store_at(store.path) if format_at(store.path) else format_named(store.traits.name).store(store.path)
    assert other.snapshot() is None
    store.commit(spark, AppendRows(rows((1, "a"))), record(store), None)
    with pytest.raises(Conflict):
        other.commit(spark, AppendRows(rows((2, "b"))), replace(record(store), run_id="late", sequence=1), None)
    assert held(store, spark) == [(1, "a")]


def test_a_record_alone_moves_the_sequence_and_no_row(filled: Store, rows: Rows, spark: SparkSession) -> None:
    before = there(filled)
    other = store_at(filled.path)
    seen = there(other)
    noted = record(filled, strategy="set watermark", base=before.version, same_rows_as=before.content_version)
    filled.commit_record(spark, noted, after=before.version)
    after = there(filled)
    assert (after.sequence, after.record, after.rows) == (before.sequence + 1, noted, before.rows)
    assert held(filled, spark) == [(1, "a"), (2, "b"), (3, "c")]
    with pytest.raises(Conflict):  # planned before it
        other.commit(spark, AppendRows(rows((4, "d"))), replace(noted, run_id="late"), seen)
    assert held(filled, spark) == [(1, "a"), (2, "b"), (3, "c")]


def test_properties_are_kept_and_change_neither_rows_nor_progress(filled: Store, spark: SparkSession) -> None:
    before = there(filled)
    filled.set_properties(spark, {"our.owner": r"a 'team' with \ in its name"})
    after = there(filled)
    assert filled.log.described().properties["our.owner"] == r"a 'team' with \ in its name"
    assert (after.record, after.content) == (before.record, before.content)
    assert after.sequence >= before.sequence  # who planned before may conflict, and nobody passes for another
    assert held(filled, spark) == [(1, "a"), (2, "b"), (3, "c")]


def test_columns_can_go(filled: Store, spark: SparkSession) -> None:
    filled.drop_columns(spark, ["v"], there(filled))
    assert held(filled, spark) == [(1,), (2,), (3,)]
    snapshot = there(filled)
    assert snapshot.record is not None
    assert snapshot.record.run_id == "run 1"


def test_the_log_tells_commits_newest_first_and_another_identity_after_each(
    filled: Store, rows: Rows, spark: SparkSession
) -> None:
    before, reach = filled.log.identity(), filled.log.reach(())
    filled.commit(spark, AppendRows(rows((4, "d"))), record(filled, rows=1), there(filled))
    log = log_at(filled.path)
    assert [commit.record.run_id for commit in log.commits() if commit.record] == ["run 2", "run 1"]
    assert [commit.version for commit in log.commits(1)] == [log.version()]
    assert log.commit(log.version() + 1) is None
    assert log.identity() != before
    assert log.reach(()).size >= reach.size > 0


def test_capabilities_are_what_a_store_does(filled: Store, rows: Rows, spark: SparkSession) -> None:
    """Whoever asks before it acts meets no surprise: what is not declared is None, nothing, or an error."""
    snapshot = there(filled)
    assert (filled.near(spark) is not None) == filled.can(Capability.ROWS_BY_PLACE)
    assert (filled.retention(snapshot) is not None) == filled.can(Capability.ANCHORS)
    if not filled.can(Capability.SMALL_TABLES):
        assert filled.in_memory(snapshot) is None
    filled.commit(spark, OverwriteRows(rows((9, "i"))), record(filled, rows=1), snapshot)
    if filled.can(Capability.TIME_TRAVEL):
        assert held(filled, spark, snapshot.version) == [(1, "a"), (2, "b"), (3, "c")]
    else:
        with pytest.raises(TidemillError):
            filled.read(spark, snapshot.version)
        with pytest.raises(TidemillError):
            filled.restore(spark, snapshot.version, record(filled))
    if not filled.can(Capability.REHEARSAL):
        with pytest.raises(TidemillError):
            filled.rehearse(AppendRows(rows((4, "d"))), record(filled), there(filled))


def test_row_changes_are_the_difference_of_two_versions_or_the_log_says_why_not(
    filled: Store, rows: Rows, spark: SparkSession
) -> None:
    before = there(filled).version
    filled.commit(spark, AppendRows(rows((3, "c"), (4, "d"))), record(filled, rows=2), there(filled))
    told = filled.log.changes_since(before)
    assert told.how is not None
    assert told.added in {None, 2}
    came = filled.row_changes(spark, before, told.until, ["v", "k"])
    assert sorted(map(tuple, _net(came))) == [("c", 3, 1), ("d", 4, 1)]
    filled.commit(spark, ReplaceRows(rows((1, "z")), "k <= 2"), record(filled, rows=1), there(filled))
    told = filled.log.changes_since(before, columns=["k"])
    if told.refusal is None:
        changes = filled.row_changes(spark, before, told.until, ["k"])
        assert sorted(map(tuple, _net(changes))) == [(2, -1), (3, 1), (4, 1)]
    else:
        with pytest.raises(TidemillError, match=told.refusal):
            filled.row_changes(spark, before, told.until, ["k"])
    assert _net(filled.row_changes(spark, told.until, told.until, ["k"])) == []
    filled.close()


def _net(changes: DataFrame) -> list[Row]:
    columns = [name for name in changes.columns if name != WEIGHT]
    return changes.groupBy(*columns).agg(F.sum(WEIGHT).alias(WEIGHT)).where(F.col(WEIGHT) != 0).collect()


def test_a_copy_elsewhere_is_of_the_same_format(filled: Store, kind: str, tmp_path: Path, spark: SparkSession) -> None:
    copy = tidemill.backup(filled.path, to=tmp_path / "copy", spark=spark)
    assert (format_at(copy.path), copy.total) == (kind, 3)
    shown = some_rows(copy.path, 2)
    assert shown is None or shown.num_rows == 2


@pytest.mark.small_tables
@pytest.mark.parametrize("kind", SMALL_TABLES, indirect=True)  # the others have one way
def test_a_merge_into_a_small_table_works_from_end_to_end(
    kind: str, tmp_path: Path, rows: Rows, spark: SparkSession
) -> None:
    _merge_from_end_to_end(kind, tmp_path / "t", rows, spark)


def test_a_merge_works_from_end_to_end(kind: str, tmp_path: Path, rows: Rows, spark: SparkSession) -> None:
    _merge_from_end_to_end(kind, tmp_path / "t", rows, spark)


def _merge_from_end_to_end(kind: str, path: Path, rows: Rows, spark: SparkSession) -> None:
    def merge(strategy: str, *pairs: tuple[int, str]) -> tuple[int, ...]:
        done = tidemill.merge(rows(*pairs), path, on="k", strategy=strategy, format=kind, spark=spark)
        return done.inserted, done.updated, done.deleted, done.unchanged, done.ignored, done.total

    assert merge("upsert", (1, "a"), (2, "b"), (3, "c")) == (3, 0, 0, 0, 0, 3)
    version = log_at(str(path)).version()
    assert merge("upsert", (1, "a"), (2, "b")) == (0, 0, 0, 2, 0, 3)
    assert log_at(str(path)).version() == version  # a rerun writes nothing
    assert merge("upsert", (2, "B"), (3, "c"), (4, "d")) == (1, 1, 0, 1, 0, 4)
    assert merge("insert", (4, "x"), (5, "e")) == (1, 0, 0, 0, 1, 5)
    assert merge("update", (5, "E"), (6, "f")) == (0, 1, 0, 0, 1, 5)
    assert merge("full_merge", (1, "a"), (2, "b"), (7, "g")) == (1, 1, 3, 1, 0, 3)
    assert sorted(tuple(row) for row in tidemill.read(path, spark=spark).collect()) == [(1, "a"), (2, "b"), (7, "g")]
    assert tidemill.history(path)[0].version == log_at(str(path)).version()
