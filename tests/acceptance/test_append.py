"""An append takes each new row once: ties, late rows within the lookback, and rows that come again."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from given import NOW, UTC_MICROS, bag, commits_nothing, frame, held, refused, step, table
from pyspark.sql import functions as F

from tidemill.declarations import Append, Query
from tidemill.errors import ArgumentError, Origin

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

DAYS = {"day": pa.date32(), "v": pa.string()}
NULL_TIMES = (
    "[window.null_times] 2 rows have no day, which orders orders in time. "
    'Say null_time = "include" or "skip". orders is unchanged.'
)


def day(number: int) -> date:
    return date(2024, 1, number)


def days(*rows: tuple[int | None, str | None]) -> pa.Table:
    return frame(DAYS, *[(None if number is None else day(number), value) for number, value in rows])


def moments(tz: Any) -> list[datetime]:
    """Late but within three hours of the second, the watermark, and later; exact to the microsecond."""
    first = datetime(2024, 1, 10, 23, 59, 59, 999_999, tzinfo=tz)
    return [first - timedelta(hours=3), first, first + timedelta(microseconds=1)]


CURSORS = {
    "date": (pa.date32(), "3 days", [day(7), day(10), day(11)]),
    "timestamp": (UTC_MICROS, "3 hours", moments(UTC)),
    "timestamp_ntz": (pa.timestamp("us"), "180 minutes", moments(None)),
    "int": (pa.int32(), 3, [-5, -2, 2**31 - 1]),
    "bigint": (pa.int64(), 3, [2**40 - 3, 2**40, 2**63 - 1]),
    "decimal": (pa.decimal128(20, 6), 3, [Decimal("-2.500000"), Decimal("0.500000"), Decimal("0.500001")]),
    "string": (pa.string(), None, ["2024-01-10", "2024-01-10", "it's \\ ${env:HOME} ü"]),
}


def typed(spark: SparkSession, cursor: str, rows: pa.Table) -> DataFrame:
    """The rows with the cursor's own type: Spark reads Arrow's times without a zone as times of its session."""
    return spark.createDataFrame(rows).withColumn(
        "at", F.col("at").cast(cursor if cursor != "decimal" else "decimal(20,6)")
    )


@pytest.mark.parametrize("cursor", CURSORS)
def test_ties_and_late_rows_within_the_lookback_enter_once(spark: SparkSession, tmp_path: Path, cursor: str) -> None:
    kind, back, (late, mark, later) = CURSORS[cursor]
    orders = table(tmp_path / "t", Append(), time="at", back=back)
    types = {"at": kind, "v": pa.string()}
    first = [(mark, "first"), (mark, None)]
    assert step(spark, orders, typed(spark, cursor, frame(types, *first))).counts.inserted == 2
    arrived = [*first, (mark, "tie"), (late, "late"), (later, "later"), (later, "later too")]
    rows = typed(spark, cursor, frame(types, *arrived))
    result = step(spark, orders, rows)
    assert (result.counts.inserted, result.counts.unchanged) == (4, 2)
    assert held(tmp_path / "t", "v") == Counter((value,) for _, value in arrived)
    with commits_nothing(tmp_path / "t"):
        again = step(spark, orders, rows)
    assert (again.status, again.counts.inserted, again.watermark.value) == ("unchanged", 0, later)


def test_a_lookback_on_a_string_cursor_is_refused_before_a_table_is_made(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    orders = table(path, Append(), time="at", back="3 hours")
    error = refused(path, lambda: step(spark, orders, frame({"at": pa.string()}, ("2024-01-10",))))
    assert isinstance(error, ValueError)
    assert str(error) == (
        "[window.bad_lookback] A lookback of 3 hours cannot be taken off a string cursor (at). "
        'Use a length of time ("3 hours") on dates and timestamps, a whole number on numbers, and none on strings.'
    )
    assert not path.exists()


@pytest.mark.parametrize(
    ("kind", "value", "back"),
    [(pa.int64(), 1, "3 hours"), (pa.date32(), day(1), 3)],
    ids=["time off number", "number off date"],
)
def test_a_lookback_of_the_wrong_kind_is_refused(
    spark: SparkSession, tmp_path: Path, kind: pa.DataType, value: Any, back: str | int
) -> None:
    orders = table(tmp_path / "t", Append(), time="at", back=back)
    error = refused(tmp_path / "t", lambda: step(spark, orders, frame({"at": kind}, (value,))))
    assert error.code == "window.bad_lookback"


def test_a_time_column_is_found_whatever_its_case(spark: SparkSession, tmp_path: Path) -> None:
    orders = table(tmp_path / "t", Append(), time="DAY", back="1 day")
    step(spark, orders, days((1, "a")))
    assert step(spark, orders, days((1, "a"), (1, "tie"), (2, "b"))).counts.inserted == 2
    assert held(tmp_path / "t") == bag((day(1), "a"), (day(1), "tie"), (day(2), "b"))


def test_rows_equal_in_all_columns_stay_as_often_as_the_source_has_them(spark: SparkSession, tmp_path: Path) -> None:
    orders = table(tmp_path / "t", Append(), time="day", back="2 days")
    step(spark, orders, days((5, "x"), (5, "x"), (5, None), (4, "y")))
    result = step(spark, orders, days(*[(5, "x")] * 4, *[(5, None)] * 2, (4, "y"), *[(6, "z")] * 2))
    assert (result.counts.inserted, result.counts.unchanged) == (5, 4)
    assert held(tmp_path / "t") == Counter({(day(5), "x"): 4, (day(5), None): 2, (day(4), "y"): 1, (day(6), "z"): 2})


def test_a_row_later_than_the_lookback_is_not_read_and_a_literal_start_bounds_every_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    orders = table(tmp_path / "t", Append(), time="day", back="2 days", start="2024-01-03")
    first = days((2, "before the start"), (3, "a"), (4, "b"))
    assert step(spark, orders, first).counts.inserted == 2
    second = days((2, "before the start"), (3, "a"), (4, "b"), (10, "c"))
    assert step(spark, orders, second).counts.inserted == 1
    late = days((7, "too late"), (8, "just late enough"), (10, "c"))
    result = step(spark, orders, late)
    assert (result.counts.inserted, result.rows_read) == (1, 2)
    assert result.window.reason == "since 2024-01-10, lookback 2 days"


def test_without_a_time_column_every_row_is_appended(spark: SparkSession, tmp_path: Path) -> None:
    orders = table(tmp_path / "t", Append())
    for run in range(2):
        assert step(spark, orders, days((1, "a"), (None, None))).counts.inserted == 2, run
    assert held(tmp_path / "t") == Counter({(day(1), "a"): 2, (None, None): 2})
    with commits_nothing(tmp_path / "t"):
        assert step(spark, orders, days()).status == "unchanged"


def test_an_empty_change_commits_nothing_and_an_empty_first_run_makes_a_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    orders = table(tmp_path / "t", Append(), time="day", back="2 days")
    assert (step(spark, orders, days()).status, held(tmp_path / "t")) == ("created", bag())
    assert step(spark, orders, days((1, "a"))).counts.inserted == 1
    with commits_nothing(tmp_path / "t"):
        assert step(spark, orders, days()).rows_read == 0


@pytest.mark.parametrize("far", [date(2099, 12, 31), date(9999, 12, 31)], ids=str)
def test_a_row_from_the_far_future_does_not_hide_what_follows(spark: SparkSession, tmp_path: Path, far: date) -> None:
    orders = table(tmp_path / "t", Append(), time="day", back="2 days")
    first = [(day(18), "a"), (far, "future")]
    assert step(spark, orders, frame(DAYS, *first)).watermark.value == NOW.date()
    second = [*first, (day(19), "late"), (day(25), "b"), (far, "future too")]
    later = NOW + timedelta(days=5)
    assert step(spark, orders, frame(DAYS, *second), now=later).counts.inserted == 3
    with commits_nothing(tmp_path / "t"):
        step(spark, orders, frame(DAYS, *second), now=later + timedelta(days=1))
    assert held(tmp_path / "t") == bag(*second)


def test_a_row_from_a_year_that_python_cannot_hold_enters_once(spark: SparkSession, tmp_path: Path) -> None:
    orders = table(tmp_path / "t", Append(), time="at")
    rows = spark.sql(
        "SELECT * FROM VALUES (TIMESTAMP '+12024-01-01 00:00:00', 1), (TIMESTAMP '2024-01-01', 2) t(at, n)"
    )
    assert step(spark, orders, rows).counts.inserted == 2
    with commits_nothing(tmp_path / "t"):
        step(spark, orders, rows)
    more = rows.unionByName(spark.sql("SELECT TIMESTAMP '+12025-01-01 00:00:00' AS at, 3 AS n"))
    assert step(spark, orders, more).counts.inserted == 1


def test_rows_without_a_time_are_an_error_with_the_count(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    orders = table(path, Append(), time="day", back="2 days")
    bad = days((1, "a"), (None, "b"), (None, "c"))
    assert str(refused(path, lambda: step(spark, orders, bad))) == NULL_TIMES
    step(spark, orders, days((1, "a")))
    assert str(refused(path, lambda: step(spark, orders, bad))) == NULL_TIMES


def test_rows_without_a_time_enter_once_when_they_are_included(spark: SparkSession, tmp_path: Path) -> None:
    orders = table(tmp_path / "t", Append(), time="day", null_time="include")
    step(spark, orders, days((1, "a"), (None, "b"), (None, "b")))
    second = [(1, "a"), (None, "b"), (None, "b"), (None, "b"), (None, "c"), (2, "d")]
    assert step(spark, orders, days(*second)).counts.inserted == 3
    with commits_nothing(tmp_path / "t"):
        step(spark, orders, days(*second))
    assert held(tmp_path / "t", "v") == Counter((v,) for _, v in second)


def test_rows_without_a_time_stay_out_when_they_are_skipped(spark: SparkSession, tmp_path: Path) -> None:
    orders = table(tmp_path / "t", Append(), time="day", null_time="skip")
    assert step(spark, orders, days((1, "a"), (None, "b"))).counts.inserted == 1
    assert step(spark, orders, days((1, "a"), (None, "b"), (2, "c"))).counts.inserted == 1
    assert held(tmp_path / "t") == bag((day(1), "a"), (day(2), "c"))


def notice(up_to: str) -> tuple[str]:
    return (
        (
            f"its query or its columns changed: rows up to {up_to} stay as the old query made them, "
            "and late rows from before are not taken; a backfill with --start reads them"
        ),
    )


def test_a_changed_query_doubles_nothing_within_the_lookback_and_says_so(spark: SparkSession, tmp_path: Path) -> None:
    old, new = (table(tmp_path / "t", Append(), time="day", back="3 days", sql_hash=name) for name in ("old", "new"))
    step(spark, old, days((4, "a"), (5, "b")))
    with commits_nothing(tmp_path / "t"):  # the new query writes every value in another way
        assert step(spark, new, days((4, "A"), (5, "B"))).notices == notice("2024-01-05")
    result = step(spark, new, days((4, "A"), (5, "B"), (6, "C")))
    assert (result.counts.inserted, result.notices) == (1, notice("2024-01-05"))
    second = step(spark, new, days((4, "A"), (5, "B"), (6, "C"), (6, "tie"), (7, "D")))
    assert (second.counts.inserted, second.notices) == (2, ())
    with commits_nothing(tmp_path / "t"):
        step(spark, new, days((4, "A"), (5, "B"), (6, "C"), (6, "tie"), (7, "D")))
    assert held(tmp_path / "t", "v") == bag(("a",), ("b",), ("C",), ("tie",), ("D",))


def test_an_added_column_doubles_nothing_within_the_lookback_and_says_so(spark: SparkSession, tmp_path: Path) -> None:
    orders = table(tmp_path / "t", Append(), time="day", back="3 days", policy="append_new_columns")
    step(spark, orders, days((4, "a"), (5, "b")))
    wide = {**DAYS, "extra": pa.int64()}
    rows = [(day(4), "a", 1), (day(5), "b", 2), (day(6), "c", 3)]
    result = step(spark, orders, frame(wide, *rows))
    assert (result.counts.inserted, result.notices) == (1, notice("2024-01-05"))
    with commits_nothing(tmp_path / "t"):
        step(spark, orders, frame(wide, *rows))
    assert held(tmp_path / "t") == bag((day(4), "a", None), (day(5), "b", None), (day(6), "c", 3))


def query(**more: Any) -> Query:
    return Query(("SELECT …",), (), Origin("orders.sql", 3), **more)


def test_a_query_whose_values_differ_from_run_to_run_is_refused_where_it_is_declared(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError) as caught:
        table(tmp_path, Append(), time="day", producer=query(unrepeatable="collect_list"))
    assert str(caught.value.origin) == "orders.sql:3"
    assert str(caught.value) == (
        "[append.unrepeatable] orders appends what is new of a query with collect_list, whose value may differ from "
        "run to run: a row that is here already would look new. Use one that does not depend on the order of rows "
        "(min, max, max_by, sort_array(collect_list(…))), or merge on the keys instead."
    )
    assert table(tmp_path, Append(), producer=query(unrepeatable="collect_list")).window is None  # nothing is compared


def test_sums_of_floats_are_refused_before_anything_is_written(spark: SparkSession, tmp_path: Path) -> None:
    orders = table(tmp_path / "t", Append(), time="day", volatile=("v",), producer=query(sums=("total", "n", "v")))
    types = {"day": pa.date32(), "Total": pa.float64(), "n": pa.int64(), "v": pa.float32(), "price": pa.float64()}
    error = refused(tmp_path / "t", lambda: step(spark, orders, frame(types, (day(1), 0.3, 1, 0.3, 0.1))))
    assert str(error.origin) == "orders.sql:3"
    assert str(error) == (
        "[append.float_sums] orders appends what is new of a query with sums or averages of floats (Total), which "
        "differ from run to run in their last digits: a row that is here already would look new. "
        "Sum decimals (sum(cast(x AS decimal(18, 2)))), or merge on the keys instead. orders is unchanged."
    )
