"""A table with reset_allowed = false, or the property of that meaning, loses no row that an upsert would keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from given import bag, commits_nothing, frame, held, refused, step, table

import tidemill
from tidemill import MergeStrategy
from tidemill.declarations import DeleteInsert, Merge, Replace

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

COLUMNS = {"id": pa.int64(), "v": pa.string(), "loaded": pa.int64()}
UPSERT = "Merge by key instead (keys=[…] of a function, MERGE ON in SQL), which keeps rows that do not come again."


def rows(*given: tuple[int, str | None, int]) -> pa.Table:
    return frame(COLUMNS, *given)


def test_a_replace_may_add_rows_and_columns_but_removes_none(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    kept = table(path, Replace(0.1, by_default=True), volatile=("loaded",), reset_allowed=False)
    first = [(1, "a", 1), (2, None, 1), (2, None, 1)]
    step(spark, kept, rows(*first))
    error = refused(path, lambda: step(spark, kept, rows((1, "a", 2), (2, None, 2), (3, "c", 2), (4, "d", 2))))
    assert str(error) == (
        "[table.history_lost] orders is declared reset_allowed = false, and this run would remove 1 of its 3 rows that "
        f"an upsert would keep. {UPSERT} If these rows are to go, allow it with max_shrink = 0.34. orders is unchanged."
    )
    with commits_nothing(path):
        step(spark, kept, rows(*first))
    more = frame({**COLUMNS, "new": pa.string()}, *[(*row, "x") for row in (*first, (3, "c", 2))])
    assert step(spark, kept, more).total == 4
    narrow = frame({"id": pa.int32(), "loaded": pa.int64()}, *[(n, 3) for n in (1, 2, 2, 3)])
    assert "would remove 4 of its 4 rows" in str(refused(path, lambda: step(spark, kept, narrow)))


def test_max_shrink_allows_a_loss_up_to_that_share(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    kept = table(path, Replace(0.5), reset_allowed=False)
    step(spark, kept, rows(*[(n, "x", 1) for n in range(4)]))
    as_many = rows((0, "x", 1), *[(n, "y", 1) for n in range(1, 4)])
    error = refused(path, lambda: step(spark, kept, as_many))
    assert "would remove 3 of its 4 rows that an upsert would keep, more than max_shrink = 0.5 allows." in str(error)
    assert step(spark, kept, rows((0, "x", 1), (1, "x", 1))).total == 2


def test_a_full_merge_keeps_every_key_and_may_change_values(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    kept = table(path, Merge(("id",), MergeStrategy.FULL_MERGE), reset_allowed=False)
    step(spark, kept, rows((1, "a", 1), (2, "b", 1)))
    error = refused(path, lambda: step(spark, kept, rows((1, "changed", 1), (3, "c", 1))))
    assert "would remove 1 of its 2 rows that an upsert would keep. Use upsert in the place of full_merge" in str(error)
    step(spark, kept, rows((1, "changed", 1), (2, "b", 1), (3, "c", 1)))
    assert held(path) == bag((1, "changed", 1), (2, "b", 1), (3, "c", 1))


def test_a_delete_insert_removes_nothing_in_its_window_either(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    kept = table(path, DeleteInsert("id >= 2"), reset_allowed=False)
    step(spark, table(path, DeleteInsert(), reset_allowed=False), rows((1, "a", 1), (2, "b", 1), (3, "c", 1)))
    assert "would remove 1 of its 3 rows" in str(
        refused(path, lambda: step(spark, kept, rows((2, "b", 1), (4, "d", 1))))
    )
    assert step(spark, kept, rows((2, "b", 1), (3, "c", 1), (4, "d", 1))).counts.inserted == 1
    allowed = table(path, DeleteInsert("id >= 2", max_shrink=0.5), reset_allowed=False)
    assert step(spark, allowed, rows((2, "b", 1), (3, "changed", 1))).counts.deleted == 2


def test_a_table_that_says_so_itself_is_protected_from_a_merge_too(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    spark.sql(
        f"CREATE TABLE delta.`{path}` USING delta TBLPROPERTIES ('pipelines.reset.allowed' = 'false') "
        "AS SELECT id, 'a' AS v, id AS loaded FROM range(1, 4)"
    )

    def merge(**more: float) -> tidemill.MergeResult:
        return tidemill.merge(rows((1, "b", 1)), path, "id", "full_merge", spark=spark, **more)

    error = str(refused(path, merge))
    assert "has the property pipelines.reset.allowed = false, and this run would remove 2 of its 3 rows" in error
    assert merge(max_shrink=0.67).deleted == 2
