"""Replace makes the table what the source gives; delete_insert does so for the rows of one predicate."""

from __future__ import annotations

from collections import Counter
from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from given import bag, commits_nothing, frame, held, refused, step, table

from tidemill.declarations import DeleteInsert, Replace
from tidemill.errors import ArgumentError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tidemill.execution import StepResult

PLAIN = {"id": pa.int64(), "v": pa.string()}
SALES = {"day": pa.date32(), "region": pa.string(), "v": pa.int64()}
EU = DeleteInsert("region = 'eu'")


def numbers(result: StepResult) -> tuple[int, int, int, int]:
    """Inserted, updated, deleted, unchanged."""
    return result.counts.inserted, result.counts.updated, result.counts.deleted, result.counts.unchanged


def plain(*rows: tuple[int, str | None]) -> pa.Table:
    return frame(PLAIN, *rows)


def sales(*rows: tuple[int | None, str | None, int | None]) -> pa.Table:
    return frame(SALES, *[(None if day is None else date(2024, 1, day), region, v) for day, region, v in rows])


def sold(path: Path) -> Counter[tuple[int | None, str | None, int | None]]:
    return Counter({(day and day.day, region, v): n for (day, region, v), n in held(path).items()})


def test_replace_counts_exactly_and_again_commits_nothing(spark: SparkSession, tmp_path: Path) -> None:
    orders = table(tmp_path / "t", Replace())
    assert numbers(step(spark, orders, plain((1, "a"), (2, None), (3, "c"), (3, "c")))) == (4, 0, 0, 0)
    second = plain((2, None), (3, "c"), (4, "d"), (1, "changed"))
    assert numbers(step(spark, orders, second)) == (2, 0, 2, 2)
    assert held(tmp_path / "t") == bag((2, None), (3, "c"), (4, "d"), (1, "changed"))
    other_order = second.take([3, 1, 0, 2]).select(["v", "id"])
    for same in (second, other_order):
        with commits_nothing(tmp_path / "t"):
            result = step(spark, orders, same)
        assert (result.status, numbers(result)) == ("unchanged", (0, 0, 0, 4))


def test_replace_by_an_empty_source_empties_the_table_and_says_so(spark: SparkSession, tmp_path: Path) -> None:
    orders = table(tmp_path / "t", Replace())
    step(spark, orders, plain((1, "a"), (2, "b")))
    result = step(spark, orders, plain())
    assert (numbers(result), result.notices) == ((0, 0, 2, 0), ("the source is empty, and so is the table now",))
    assert held(tmp_path / "t") == bag()
    with commits_nothing(tmp_path / "t"):
        assert step(spark, orders, plain()).status == "unchanged"


def test_max_shrink_refuses_a_replace_that_drops_more(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    orders = table(path, Replace(max_shrink=0.25))
    step(spark, orders, plain(*[(n, "x") for n in range(4)]))
    assert str(refused(path, lambda: step(spark, orders, plain((0, "x"), (1, "x"))))) == (
        "[table.max_shrink] orders would lose 2 of its 4 rows, more than max_shrink = 0.25 allows. "
        "Look at the source; if it is right, raise max_shrink for this run. orders is unchanged."
    )
    assert step(spark, orders, plain((0, "x"), (1, "y"), (2, "y"))).status == "changed"


def test_replace_takes_the_columns_of_its_source(spark: SparkSession, tmp_path: Path) -> None:
    orders = table(tmp_path / "t", Replace())
    step(spark, orders, plain((1, "a"), (2, "b")))
    wide = frame({"id": pa.int64(), "extra": pa.float64()}, (1, 1.5), (2, None), (3, None))
    result = step(spark, orders, wide)
    assert (numbers(result), held(tmp_path / "t")) == ((3, 0, 2, 0), bag((1, 1.5), (2, None), (3, None)))
    with commits_nothing(tmp_path / "t"):
        step(spark, orders, wide)


def test_delete_insert_replaces_the_rows_of_its_predicate_and_no_others(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    first = sales((1, "eu", 1), (1, "eu", 1), (2, "eu", None), (1, "us", 1), (2, None, 1))
    step(spark, table(path, DeleteInsert()), first)
    change = sales((1, "eu", 1), (2, "eu", None), (3, "eu", 3), (9, "us", 9), (9, None, 9))
    result = step(spark, table(path, EU), change)
    assert (numbers(result), result.rows_read) == ((1, 0, 1, 2), 3)
    now_there = Counter({(1, "eu", 1): 1, (2, "eu", None): 1, (3, "eu", 3): 1, (1, "us", 1): 1, (2, None, 1): 1})
    assert sold(path) == now_there
    with commits_nothing(path):
        assert numbers(step(spark, table(path, EU), change)) == (0, 0, 0, 3)
    assert numbers(step(spark, table(path, EU), sales((9, "us", 9)))) == (0, 0, 3, 0)
    assert sold(path) == Counter({(1, "us", 1): 1, (2, None, 1): 1})


def test_a_first_run_of_delete_insert_takes_the_rows_of_its_predicate(spark: SparkSession, tmp_path: Path) -> None:
    result = step(spark, table(tmp_path / "t", EU), sales((1, "eu", 1), (1, "us", 1), (1, None, 1)))
    assert (result.status, numbers(result)) == ("created", (1, 0, 0, 0))
    assert sold(tmp_path / "t") == Counter({(1, "eu", 1): 1})


@pytest.mark.parametrize("outside", [(1, "us", 1), (1, None, 1)], ids=["false", "NULL"])
def test_a_row_outside_the_predicate_of_a_query_that_owns_it_is_an_error(
    spark: SparkSession, tmp_path: Path, outside: tuple[int, str | None, int]
) -> None:
    path = tmp_path / "t"
    owning = table(path, EU, owns_window=True)
    step(spark, owning, sales((1, "eu", 1)))
    error = refused(path, lambda: step(spark, owning, sales((1, "eu", 1), outside)))
    assert str(error) == (
        "[delete_insert.outside] 1 row of the query lies outside region = 'eu', so the next run would not replace "
        "it. Make the query give only rows that match it. orders is unchanged."
    )


def test_a_row_before_the_window_of_a_query_that_owns_it_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    owning = table(path, DeleteInsert(), time="day", owns_window=True)
    step(spark, owning, sales((5, "eu", 1)))
    error = refused(path, lambda: step(spark, owning, sales((5, "eu", 2), (4, "eu", 1), (3, "eu", 1))))
    assert str(error) == (
        "[delete_insert.outside] 2 rows of the query lie outside (`day` >= DATE '2024-01-05' OR `day` IS NULL), so "
        "the next run would not replace them. Make the query give only rows that match it. orders is unchanged."
    )
    assert numbers(step(spark, owning, sales((5, "eu", 2), (6, "eu", 1)))) == (2, 0, 1, 0)


def test_delete_insert_by_its_window_replaces_corrected_and_removed_rows_within_the_lookback(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    orders = table(path, DeleteInsert(), time="day", back="2 days")
    step(spark, orders, sales((1, "eu", 1), (4, "eu", 1), (5, "eu", 1), (5, "eu", 2)))
    change = sales((1, "eu", 99), (4, "eu", 10), (5, "eu", 1), (6, None, None))
    assert numbers(step(spark, orders, change)) == (2, 0, 2, 1)
    assert sold(path) == bag((1, "eu", 1), (4, "eu", 10), (5, "eu", 1), (6, None, None))
    with commits_nothing(path):
        step(spark, orders, change)


@pytest.mark.parametrize(("null_time", "nulls"), [("include", 2), ("skip", 0)])
def test_rows_without_a_time_under_delete_insert(
    spark: SparkSession, tmp_path: Path, null_time: str, nulls: int
) -> None:
    path = tmp_path / "t"
    orders = table(path, DeleteInsert(), time="day", null_time=null_time)
    step(spark, orders, sales((1, "eu", 1), (None, "eu", 1)))
    change = sales((1, "eu", 1), (None, "eu", 2), (None, "eu", 3), (2, "eu", 1))
    step(spark, orders, change)
    with commits_nothing(path):
        step(spark, orders, change)
    rows = sold(path)
    assert (rows.total(), rows[None, "eu", 2] + rows[None, "eu", 3]) == (2 + nulls, nulls)


def test_rows_without_a_time_are_found_though_no_predicate_covers_them(spark: SparkSession, tmp_path: Path) -> None:
    path, since = tmp_path / "t", DeleteInsert("day >= DATE '2024-01-01'")
    error = refused(path, lambda: step(spark, table(path, since, time="day"), sales((1, "eu", 1), (None, "eu", 2))))
    assert error.code == "window.null_times"
    included = table(path, since, time="day", null_time="include")
    assert numbers(step(spark, included, sales((1, "eu", 1), (None, "eu", 2)))) == (2, 0, 0, 0)
    assert numbers(step(spark, included, sales((1, "eu", 1), (None, "eu", 3)))) == (1, 0, 1, 1)
    skipped = table(path, since, time="day", null_time="skip")
    assert numbers(step(spark, skipped, sales((1, "eu", 2), (None, "eu", 4)))) == (1, 0, 1, 0)
    assert sold(path) == bag((1, "eu", 2), (None, "eu", 3))


def test_a_predicate_and_a_window_together_delete_only_what_both_hold(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    orders = table(path, EU, time="day", back="1 day")
    step(spark, orders, sales((1, "eu", 1), (5, "eu", 1), (5, "us", 1)))
    change = sales((1, "eu", 1), (5, "eu", 2), (6, "eu", 1))
    assert numbers(step(spark, orders, change)) == (2, 0, 1, 0)
    assert sold(path) == bag((1, "eu", 1), (5, "eu", 2), (6, "eu", 1))
    with commits_nothing(path):
        step(spark, orders, change)


def test_a_predicate_that_is_no_condition_on_the_rows_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    error = refused(path, lambda: step(spark, table(path, DeleteInsert("regoin = 'eu'")), sales((1, "eu", 1))))
    assert isinstance(error, ArgumentError)
    assert error.code == "delete_insert.bad_predicate"
    assert "regoin" in error.problem
    assert error.remedy == "Its columns are: day, region, v."
