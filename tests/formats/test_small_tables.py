"""Small tables are met in memory and written whole, by few Spark jobs; what becomes of their rows is as by Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest
from delta_rows import delta_rows, delta_table
from support import Rows, events, fed, keyed

import tidemill
from tidemill import Cursor, MergeStrategy, Record, Table
from tidemill.declarations import Merge, Replace
from tidemill.errors import MergeError
from tidemill.execution.step import run_step
from tidemill.formats.base import Conflict, KeyRange, RewriteRows
from tidemill.formats.delta import small
from tidemill.formats.delta.store import DeltaStore
from tidemill.results import CursorKind
from tidemill.sources.frames import FrameSource

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tidemill.execution import StepResult
    from tidemill.model.record import Snapshot
    from tidemill.model.strategy import Strategy

pytestmark = pytest.mark.small_tables

KINDS = pa.schema(
    [
        ("k", pa.int64()),
        ("text", pa.string()),
        ("number", pa.float64()),
        ("money", pa.decimal128(10, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("raw", pa.binary()),
    ]
)
NAN, DAY = float("nan"), date(2024, 2, 29)
AT = datetime(2261, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
EVER = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
HELD = [
    (1, "same", NAN, Decimal("1.10"), DAY, AT, b"\0"),
    (2, None, -0.0, None, None, None, None),
    (3, "a", 1.0, Decimal("2.00"), DAY, AT, b"a"),
    (4, "leaves", 4.0, None, DAY, AT, b""),
    (None, "no key", 1.0, None, DAY, AT, b"n"),
]
COMING = [
    (2, None, 0.0, None, None, None, None),
    (1, "same", NAN, Decimal("1.10"), DAY, AT, b"\0"),
    (3, "A", 1.0, Decimal("2.00"), DAY, AT, b"a"),
    (5, "new", None, Decimal("-0.01"), date(1900, 1, 1), AT, b"\xff"),
]
WAYS = {"whole": ["PART_BYTES"], "in part": ["MOST_BYTES"], "by Spark": ["MOST_BYTES", "PART_BYTES"]}
STRATEGIES = [Replace(), *(Merge(("k",), form) for form in MergeStrategy)]


def rows(of: Sequence[tuple[object, ...]]) -> pa.Table:
    return pa.Table.from_arrays(
        [pa.array(column, kind) for column, kind in zip(zip(*of, strict=True), KINDS.types, strict=True)], schema=KINDS
    )


def _step(spark: SparkSession, path: Path, strategy: Strategy, given: pa.Table) -> StepResult:
    return run_step(spark, Table(name="t", path=str(path), strategy=strategy), FrameSource(given))


def _jobs(spark: SparkSession) -> int:
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_what_becomes_of_the_rows_is_what_spark_makes_of_them(
    spark: SparkSession, tmp_path: Path, strategy: Strategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NULL, NaN, both zeros, a row without a key: counts and rows are the same, as a whole, in part, and by Spark."""
    found = {}
    for way, switched_off in WAYS.items():
        with monkeypatch.context() as patch:
            for bound in switched_off:
                patch.setattr(small, bound, -1)
            path = tmp_path / way
            deltalake.write_deltalake(path, rows(HELD))
            result = _step(spark, path, strategy, rows(COMING))
            again = _step(spark, path, strategy, rows(COMING))
        assert not again.counts.written
        found[way] = (result.counts, result.total, again.counts, sorted(map(repr, delta_rows(path))))
        by_key = isinstance(strategy, Merge) and strategy.form is not MergeStrategy.FULL_MERGE
        in_memory = way == "whole" or (way == "in part" and by_key)
        by = deltalake.DeltaTable(path).history(1)[0]["engineInfo"]
        assert by.startswith("delta-rs" if in_memory else "Apache-Spark")
    assert found["whole"] == found["in part"] == found["by Spark"]


def test_rows_beside_the_range_of_a_change_stay_as_they_are(spark: SparkSession, tmp_path: Path) -> None:
    """A table of two files that is too large to be rewritten: the one that the change can meet is."""
    path = tmp_path / "t"
    numbers = [range(60_000), range(60_000, 120_000)]
    for some in numbers:
        deltalake.write_deltalake(path, pa.table({"K": some, "v": [f"{n} {n * 7}" for n in some]}), mode="append")
    change = pa.table({"K": [119_999, 120_000, 119_998], "v": ["changed", "new", "119998 839986"]})
    result = _step(spark, path, Merge(("K",)), change)
    assert (result.counts.updated, result.counts.inserted, result.counts.unchanged) == (1, 1, 1)
    assert (result.files_rewritten, result.files_kept) == (1, 1)
    assert deltalake.DeltaTable(path).history(1)[0]["engineInfo"].startswith("delta-rs")
    stored = dict(delta_rows(path))
    assert stored == {n: f"{n} {n * 7}" for n in range(119_999)} | {119_999: "changed", 120_000: "new"}


def test_a_key_that_a_part_of_a_table_holds_twice_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    twice = [*range(20_000), 19_999]
    deltalake.write_deltalake(path, pa.table({"k": twice, "v": ["x"] * len(twice)}))
    with pytest.raises(MergeError, match="19999"):
        _step(spark, path, Merge(("k",)), pa.table({"k": [19_999], "v": ["y"]}))


def test_a_changed_row_takes_three_spark_jobs(spark: SparkSession, tmp_path: Path) -> None:
    """Settling, profiling and collecting the change: the table's log and files are read and written without Spark."""
    for strategy in (Replace(), Merge(("k",)), Merge(("k",), MergeStrategy.FULL_MERGE)):
        path = tmp_path / str(strategy)
        _step(spark, path, strategy, rows(HELD[:4]))
        before = _jobs(spark)
        result = _step(spark, path, strategy, rows([*HELD[:2], (3, "B", 1.0, None, DAY, AT, b"a"), HELD[3]]))
        assert (result.counts.written, result.counts.unchanged, result.files_rewritten) == (1, 3, 1)
        assert _jobs(spark) - before <= 3


def test_another_commit_since_the_table_was_looked_at_is_a_conflict(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    _step(spark, path, Merge(("k",)), rows(HELD[:4]))
    store = DeltaStore(str(path))
    looked_at = _snapshot(path)
    deltalake.write_deltalake(path, rows(COMING[3:]), mode="append")
    whole = small.small_table(str(path), looked_at)
    assert whole is not None
    record = Record(run_id="late", table="t", sequence=2, strategy="replace", at="")
    with pytest.raises(Conflict):
        whole.write(rows(HELD[:1]), record)
    with pytest.raises(Conflict):
        store.commit(spark, RewriteRows(rows(HELD[:1])), record, looked_at)
    assert delta_table(path).num_rows == 5


def test_rows_that_others_append_meanwhile_stay(spark: SparkSession, tmp_path: Path) -> None:
    table = keyed(tmp_path / "t")
    fed(spark, table, events((1, 1, "a"), (2, 2, "b")))
    foreign = events((9, 9, "theirs"))

    def append() -> None:
        deltalake.write_deltalake(table.path, foreign, mode="append")

    result = run_step(spark, table, Rows(events((1, 1, "A")), meanwhile=append))
    assert (result.counts.updated, result.total) == (1, 3)
    assert sorted(delta_table(table.path).column("value").to_pylist()) == ["A", "b", "theirs"]


def test_every_tenth_commit_leaves_a_checkpoint_that_spark_reads(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    _step(spark, path, Merge(("k",)), rows(HELD[:4]))
    for n in range(1, 11):
        whole = small.small_table(str(path), _snapshot(path))
        assert whole is not None
        whole.write(
            rows([(n, "x", 1.0, None, DAY, AT, b"")]),
            Record(run_id=str(n), table="t", sequence=n + 1, strategy="replace", at=""),
        )
    assert (path / "_delta_log/00000000000000000010.checkpoint.parquet").exists()
    assert [row.k for row in tidemill.read(path, spark=spark).collect()] == [10]


def _snapshot(path: Path) -> Snapshot:
    snapshot = DeltaStore(str(path)).snapshot()
    assert snapshot is not None
    return snapshot


@pytest.mark.parametrize(
    "made",
    [
        {"partition_by": ["text"]},
        {"configuration": {"delta.enableChangeDataFeed": "true"}},
        {"configuration": {"delta.appendOnly": "true"}},
    ],
    ids=str,
)
def test_a_table_with_something_that_only_spark_keeps_is_left_to_it(tmp_path: Path, made: dict[str, Any]) -> None:
    deltalake.write_deltalake(tmp_path / "t", rows(HELD), **made)
    assert small.small_table(str(tmp_path / "t"), _snapshot(tmp_path / "t")) is None


def test_columns_that_may_not_be_null_are_left_to_spark(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False)])
    deltalake.write_deltalake(tmp_path / "t", pa.table({"k": [1]}, schema=schema))
    assert small.small_table(str(tmp_path / "t"), _snapshot(tmp_path / "t")) is None


def test_moments_that_delta_rs_would_take_for_others_are_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    """It reads the times in Spark's files as nanoseconds, of which the year 9999 has too many."""
    old = [(1, "old", 1.0, None, DAY, EVER, b"")]
    _step(spark, tmp_path / "t", Merge(("k",)), rows(old))
    assert small.small_table(str(tmp_path / "t"), _snapshot(tmp_path / "t")) is None
    assert not _step(spark, tmp_path / "t", Merge(("k",)), rows(old)).counts.written


def test_days_before_1900_are_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    """In a file they may be by another calendar, which Spark knows by who wrote it."""
    old = [(1, "old", 1.0, None, date(1582, 10, 4), AT, b"")]
    _step(spark, tmp_path / "t", Merge(("k",)), rows(old))
    _step(spark, tmp_path / "t", Merge(("k",)), rows([(1, "new", *old[0][2:])]))
    assert deltalake.DeltaTable(tmp_path / "t").history(1)[0]["engineInfo"].startswith("Apache-Spark")
    assert delta_rows(tmp_path / "t", "text", "day") == [("new", date(1582, 10, 4))]


@pytest.mark.parametrize("marks_rows", [False, True])
def test_keys_that_no_file_can_hold_are_appended_without_reading_any(
    spark: SparkSession, tmp_path: Path, *, marks_rows: bool
) -> None:
    """However large the table is, and also where rows may be marked as deleted: nothing is rewritten."""
    path = tmp_path / "t"
    numbers = list(range(120_000))
    held = pa.table({"k": numbers, "v": [f"{n} {n * 7}" for n in numbers]})
    if marks_rows:  # as our own tables do
        _step(spark, path, Merge(("k",)), held)
    else:
        deltalake.write_deltalake(path, held)
    looked_at, before = _snapshot(path), _jobs(spark)
    assert looked_at.marks_rows == marks_rows
    result = _step(spark, path, Merge(("k",)), pa.table({"k": [120_000, 120_001], "v": ["new", "new"]}))
    assert (result.counts.inserted, result.counts.written, result.total) == (2, 2, 120_002)
    assert (result.files_rewritten, result.files_kept) == (0, looked_at.files)
    assert _jobs(spark) - before <= 5
    assert deltalake.DeltaTable(path).history(1)[0]["engineInfo"].startswith("delta-rs")
    span = KeyRange("k", Cursor(CursorKind.INTEGER, 120_005), Cursor(CursorKind.INTEGER, 120_005))
    late = small.small_table(str(path), looked_at, (span,))
    assert late is not None
    with pytest.raises(Conflict):
        late.write(held.slice(0, 1), Record(run_id="late", table="t", sequence=9, strategy="merge", at=""))
    assert not _step(spark, path, Merge(("k",)), pa.table({"k": [120_001], "v": ["new"]})).counts.written


def test_a_table_that_somebody_else_has_opened_later_is_a_conflict(tmp_path: Path) -> None:
    """What is open is shared: rows of a later version are neither read nor written as those of this one."""
    path = tmp_path / "t"
    deltalake.write_deltalake(path, rows(HELD[:2]))
    whole = small.small_table(str(path), _snapshot(path))
    assert whole is not None
    deltalake.write_deltalake(path, rows(HELD[2:3]), mode="append")
    _snapshot(path)
    with pytest.raises(Conflict):
        whole.rows(10)
    with pytest.raises(Conflict):
        whole.write(rows(HELD[:1]), Record(run_id="late", table="t", sequence=1, strategy="merge", at=""))
    assert delta_table(path).num_rows == 3
