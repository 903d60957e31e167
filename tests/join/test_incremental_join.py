"""`tidemill.incremental_join` on two frames: the worked example, all kinds of times, names, and every error."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import tidemill
from tidemill.errors import ArgumentError, TidemillError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

BANK = pa.schema([("reference", pa.string()), ("process_date", pa.date32()), ("amount", pa.int32())])


def bank(spark: SparkSession, *rows: tuple[str | None, int, int]) -> DataFrame:
    """Rows of (reference, day of March 2024, amount)."""
    found = [{"reference": key, "process_date": date(2024, 3, day), "amount": amount} for key, day, amount in rows]
    return spark.createDataFrame(pa.Table.from_pylist(found, schema=BANK))


def joined(a: DataFrame, b: DataFrame, **more: Any) -> DataFrame:
    given = {"on": "reference", "a_time": "process_date", "b_time": "process_date", "how": "left"}
    given |= {"look_back": "6 days", "look_forward": "10 days", "start": "2024-03-01", "end": "2024-03-31"}
    return tidemill.incremental_join(a, b, **(given | more))


def found(rows: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in rows.select(*columns).collect()), key=repr)


def day(number: int) -> date:
    return date(2024, 3, number)


def test_the_worked_example(spark: SparkSession) -> None:
    a = bank(spark, ("early", 6, 1), ("late", 6, 2), ("never", 6, 3), ("same", 6, 4), (None, 6, 5))
    b = bank(spark, ("early", 2, 10), ("late", 10, 20), ("never", 17, 30), ("same", 6, 40), (None, 6, 50))
    columns = ("reference", "amount_b", "target_time", "join_status", "waited")
    history = [
        ("early", 10, day(6), "a_late", 4),
        ("late", 20, day(10), "b_late", 4),
        ("never", None, day(16), "outdated", None),
        ("same", 40, day(6), "same_time", 0),
        (None, None, day(16), "outdated", None),
    ]
    whole = joined(a, b)
    assert whole.columns == [
        *("reference", "process_date", "amount", "reference_b", "process_date_b", "amount_b"),
        *("target_time", "join_status", "waited"),
    ]
    assert found(whole, *columns) == history
    cuts = (datetime(2024, 3, 1, tzinfo=UTC), day(6), day(7), day(16), day(31))
    tiles = [joined(a, b, start=start, end=end, inclusive="left") for start, end in pairwise(cuts)]
    for tile in tiles[1:]:
        tiles[0] = tiles[0].unionByName(tile)
    assert found(tiles[0], *columns) == history
    waiting = joined(a, b, end="2024-03-15", include_waiting=True).where("join_status = 'waiting'")
    assert found(waiting, *columns) == [
        ("never", None, day(16), "waiting", None),
        (None, None, day(16), "waiting", None),
    ]


def test_every_type_of_join_and_the_columns_that_it_has(spark: SparkSession) -> None:
    a, b = bank(spark, ("both", 6, 1), ("a", 6, 2)), bank(spark, ("both", 7, 3), ("b", 7, 4))
    seen = {}
    for how in ("inner", "left", "right", "full", "left_anti", "right_anti"):
        rows = joined(a, b, how=how, start="2024-03-01", end="2024-03-16", look_back=6, look_forward=timedelta(days=10))
        other = ["reference_b"] if "anti" not in how else []
        seen[how] = found(rows, "reference", *other, "target_time")
    pair, alone_a, alone_b = ("both", "both", day(7)), ("a", None, day(16)), (None, "b", day(13))
    assert seen == {
        "inner": [pair],
        "left": [alone_a, pair],
        "right": [pair, alone_b],
        "full": [alone_a, pair, alone_b],
        "left_anti": [("a", day(16))],
        "right_anti": [("b", day(13))],
    }


@pytest.mark.parametrize(
    ("kind", "start", "end", "waits", "expected"),
    [
        ("date", date(2024, 3, 1), "2024-03-31", (2, 3), {("k", "b_late", 3), ("o", "outdated", None)}),
        ("timestamp", "2024-03-01", datetime(2024, 4, 1, tzinfo=UTC), ("48 hours", "3 days"), None),
        ("timestamp_ntz", "2024-03-01", "2024-04-01T00:00:00", ("48 hours", "4320 minutes"), None),
        ("bigint", 0, "40000", (2, 3), {("k", "b_late", 3), ("o", "outdated", None)}),
    ],
)
def test_times_of_every_type(
    spark: SparkSession, kind: str, start: Any, end: Any, waits: tuple[Any, Any], expected: set[Any] | None
) -> None:
    text = "unix_date(DATE '2024-03-05') + {0}" if kind == "bigint" else "DATE '2024-03-05' + {0}"
    micros = 3 * 86_400_000_000
    a = spark.sql("SELECT explode(array('k', 'o')) AS k").withColumn("t", F.expr(text.format(0)).cast(kind))
    b = spark.sql("SELECT 'k' AS k").withColumn("t", F.expr(text.format(3)).cast(kind))
    rows = tidemill.incremental_join(
        a, b, "k", "left", a_time="T", b_time="t", look_back=waits[0], look_forward=waits[1], start=start, end=end,
        inclusive="left", time="at", status="how_so",
    )  # fmt: skip
    assert rows.schema["at"].dataType.simpleString() == kind
    assert set(found(rows, "k", "how_so", "waited")) == (expected or {("k", "b_late", micros), ("o", "outdated", None)})
    assert [row[0] for row in rows.select((F.col("at") == F.expr(text.format(3)).cast(kind)).alias("x")).collect()] == [
        True,
        True,
    ]


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_a_day_as_a_bound_of_timestamps_is_the_whole_day_and_a_moment_is_a_moment(
    spark: SparkSession, kind: str
) -> None:
    rows = spark.sql(f"SELECT id AS k, CAST('2024-03-05 ' || (id * 8) || ':00:00' AS {kind}) AS t FROM range(3)")
    how: dict[str, Any] = {"a_time": "t", "b_time": "t", "look_back": "1 hour", "look_forward": "1 hour"}

    def keys(start: Any, end: Any, **more: Any) -> list[int]:
        pairs = tidemill.incremental_join(rows, rows, "k", "inner", start=start, end=end, **how, **more)
        return [key for (key,) in found(pairs, "k")]

    assert keys("2024-03-05", "2024-03-05") == [0, 1, 2]
    assert keys(date(2024, 3, 5), date(2024, 3, 5)) == [0, 1, 2]
    assert keys("2024-03-04", "2024-03-05T08:00") == [0, 1]
    assert keys("2024-03-04", datetime(2024, 3, 5)) == [0]  # noqa: DTZ001  as users write moments
    assert keys("2024-03-04", "2024-03-05", inclusive="left") == []
    assert keys("2024-03-05", "9999-12-31") == [0, 1, 2]


def test_a_look_forward_across_a_change_of_clocks_is_as_long_as_any_other(spark: SparkSession) -> None:
    zoned = spark.newSession()
    zoned.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    noon = "unix_micros(TIMESTAMP '2024-03-30T12:00:00Z')"
    a = zoned.sql(f"SELECT id AS k, timestamp_micros({noon}) AS t FROM range(1, 3)")
    b = zoned.sql(f"SELECT id AS k, timestamp_micros({noon} + 86400000000 + id - 1) AS t FROM range(1, 3)")
    rows = tidemill.incremental_join(
        a, b, "k", a_time="t", b_time="t", look_back=timedelta(0), look_forward="1 day", start="2024-03-30",
        end="2024-04-30",
    )  # fmt: skip
    shown = rows.selectExpr("k", "join_status", "unix_micros(target_time) - unix_micros(t)")
    assert sorted(tuple(row) for row in shown.collect()) == [
        (1, "b_late", 86_400_000_000),
        (2, "outdated", 86_400_000_000),
    ]


def test_a_condition_is_a_column_a_list_pairs_of_names_or_sql_and_columns_can_be_chosen(spark: SparkSession) -> None:
    a = spark.sql("SELECT * FROM VALUES (1, 'x', DATE '2024-03-06'), (2, 'y', DATE '2024-03-06') AS r(id, kind, t)")
    b = spark.sql("SELECT * FROM VALUES (1, 'x', DATE '2024-03-06'), (2, 'z', DATE '2024-03-06') AS r(id, Kind, at)")
    how = {"a_time": "t", "b_time": "at", "look_back": 0, "look_forward": 0, "start": day(1), "end": day(9)}
    same = F.col("a.id") == F.col("b.id")
    ways: list[tuple[Any, list[int]]] = [
        ("id", [1, 2]),
        (["ID", "kind"], [1]),
        ([("id", "id"), ("kind", "kind")], [1]),
        ("a.id = b.id and a.kind < b.kind", [2]),
        (same & F.col("b.kind").isin("z"), [2]),
    ]
    found = [tidemill.incremental_join(a, b, on, "inner", select=["target_time", "ID"], **how) for on, _ in ways]
    assert [rows.columns for rows in found] == [["target_time", "id"]] * len(ways)
    numbered = [rows.select(F.lit(number).alias("way"), "id") for number, rows in enumerate(found)]
    rows = reduce(lambda one, other: one.unionByName(other), numbered)
    expected = [(number, each) for number, (_, ids) in enumerate(ways) for each in ids]
    assert sorted(tuple(row) for row in rows.collect()) == expected
    rows = tidemill.incremental_join(a, b, "id", suffixes=("_left", "_right"), **how)
    assert rows.columns == [
        *("id_left", "kind_left", "t", "id_right", "Kind_right", "at", "target_time", "join_status", "waited")
    ]


def refused(call: Any) -> str:
    with pytest.raises(TidemillError) as caught:
        call()
    assert isinstance(caught.value, ValueError)
    return str(caught.value)


def test_what_is_wrong_is_reported_with_a_remedy(spark: SparkSession) -> None:
    a, b = bank(spark, ("x", 6, 1)), bank(spark, ("x", 6, 1))
    stamped = b.withColumn("process_date", F.col("process_date").cast("timestamp"))
    timeless = a.unionByName(a.withColumn("process_date", F.lit(None).cast("date")))
    told = {
        "how": refused(lambda: joined(a, b, how="cross")),
        "time": refused(lambda: joined(a, b, a_time="day")),
        "kind": refused(lambda: joined(a, b, b_time="reference")),
        "mixed": refused(lambda: joined(a, stamped)),
        "months": refused(lambda: joined(a, b, look_back="1 month")),
        "hours": refused(lambda: joined(a, b, look_forward="36 hours")),
        "number": refused(lambda: joined(stamped, stamped, look_forward=3)),
        "length": refused(lambda: joined(a, b, look_forward="ten days")),
        "negative": refused(lambda: joined(a, b, look_back=-1)),
        "inclusive": refused(lambda: joined(a, b, inclusive="right")),
        "empty": refused(lambda: joined(a, b, start="2024-03-02", end="2024-03-01")),
        "bound": refused(lambda: joined(a, b, start=datetime(2024, 3, 1, 12, tzinfo=UTC))),
        "text": refused(lambda: joined(a, b, start="march")),
        "key": refused(lambda: joined(a, b, on="ref")),
        "keys": refused(lambda: joined(a, b, on=[])),
        "pair": refused(lambda: joined(a, b, on=[("a", "b", "c")])),
        "condition": refused(lambda: joined(a, b, on="a.ref = b.reference")),
        "select": refused(lambda: joined(a, b, select=["amuont"])),
        "names": refused(lambda: joined(a, b, status="amount_b")),
        "no frame": refused(lambda: joined(a, "sepa")),  # type: ignore[arg-type]
        "no time": refused(lambda: joined(a, b, b_time=None)),
        "no key": refused(lambda: joined(a, b, on=None)),
        "suffix": refused(lambda: joined(a, b, suffixes=("_a",))),
        "nothing": refused(lambda: joined(a, b, select=[])),
        "nulls": refused(lambda: joined(a, timeless.unionByName(timeless))),
    }
    told["condition"] = re.sub(r"rows: .*? Write", "rows: … Write", told["condition"])
    assert told == ERRORS


ERRORS = {
    "how": "[join.unknown_type] 'cross' is no type of join. "
    "Use one of inner, left, right, full_outer, left_anti, right_anti.",
    "time": "[columns.missing] The time column 'day' is not a column of a. It has: reference, process_date, amount.",
    "kind": "[join.bad_time] b.reference (string) cannot be the time of a join. "
    "Use a DATE, a TIMESTAMP, a TIMESTAMP_NTZ or a whole number on both sides.",
    "mixed": "[join.mixed_times] a.process_date (date) and b.process_date (timestamp) are times of two types, which "
    "have no distance. Cast one of them to the type of the other.",
    "months": "[join.varying_length] look_back is 1 month, and a month has no fixed length. "
    'Write it in days, such as "31 days".',
    "hours": "[join.bad_length] look_forward is 36 hours, which is no length between times of type date. "
    'Give whole days, such as "6 days" or 6.',
    "number": "[join.bad_length] look_forward is 3, which is no length between times of type timestamp. "
    'Give a length of time, such as "90 minutes".',
    "length": "[window.bad_duration] 'ten days' is not a length of time. Write a whole number and a unit, such as "
    '"3 hours": seconds, minutes, hours, days, weeks, months, years.',
    "negative": "[join.negative_length] look_back is -1. Give zero or more.",
    "inclusive": '[join.bad_inclusive] inclusive is \'right\'. Say "both" or "left".',
    "empty": "[join.empty_window] Nothing lies between 2024-03-02 and 2024-03-01. Give a later end.",
    "bound": "[join.bad_bound] start is datetime.datetime(2024, 3, 1, 12, 0, tzinfo=datetime.timezone.utc), and the "
    "times are of type date. Give a bound of that type.",
    "text": "[window.bad_value] 'march' is not a date. Write a date as 2024-01-31.",
    "key": "[columns.missing] The key column 'ref' is not a column of a. It has: reference, process_date, amount.",
    "keys": '[join.no_keys] A join needs a condition, and `on` is empty. Name a column: on="id".',
    "pair": "[join.bad_keys] ('a', 'b', 'c') in `on` is neither a column nor a pair of columns. "
    'Write on=["id"], on=[("id", "order_id")], or a condition: on="a.id = b.order_id".',
    "condition": "[join.bad_condition] The condition of the join does not fit its rows: … Write it over columns of "
    "both sides: a has reference, process_date, amount; b has reference, process_date, amount.",
    "select": "[join.unknown_column] The join has no column amuont. Did you mean amount? Its columns are: reference, "
    "process_date, amount, reference_b, process_date_b, amount_b, target_time, join_status, waited.",
    "names": "[join.ambiguous_columns] The join would have two columns of the name amount_b: b.amount and the join's "
    "own amount_b. Rename one of them before, give other suffixes, or name the join's own by time= and status=.",
    "no frame": "[join.no_frame] b is a str, and no DataFrame. Read it first: tidemill.read(path_or_name).",
    "no time": "[join.no_time] b_time is None, and no column. Name the column that says when a row of b came.",
    "no key": "[join.bad_keys] `on` is None, which names no columns. "
    'Write on=["id"], on=[("id", "order_id")], or a condition: on="a.id = b.order_id".',
    "suffix": '[join.bad_suffixes] suffixes is (\'_a\',). Give two texts, one for each side: ("", "_b").',
    "nothing": "[join.no_columns] select names no column. Name some, or leave it out to have all.",
    "nulls": "[join.null_times] 2 rows of b have no process_date: nobody can say when they came, and so which window "
    "they are in. Give them a time, or leave them out (where process_date is not null).",
}


def test_only_the_days_of_the_scope_are_read(spark: SparkSession, tmp_path: Path, capsys: Any) -> None:
    """Two tables with a file for each day: partitioned by it, and not."""
    days = [pa.table({"reference": [n], "process_date": pa.array([day(n)], pa.date32())}) for n in range(10, 23)]
    deltalake.write_deltalake(tmp_path / "a", pa.concat_tables(days), partition_by="process_date")
    for rows in days:
        deltalake.write_deltalake(tmp_path / "b", rows, mode="append")
    a, b = (spark.read.format("delta").load(str(tmp_path / name)) for name in ("a", "b"))
    rows = joined(a, b, on="reference", start=day(20), end=day(20), look_back=2, look_forward=3)
    read = [file.rpartition("/")[0].rpartition("/")[2] for file in rows.inputFiles()]
    assert sorted(name for name in read if "=" in name) == [f"process_date=2024-03-{n}" for n in range(17, 21)]
    assert len([name for name in read if "=" not in name]) == 6  # from day 15 to day 20
    rows.explain("formatted")
    plan = capsys.readouterr().out
    assert "process_date#" in plan
    for bound in ("2024-03-17", "2024-03-15", "2024-03-21"):
        assert bound in plan
    assert rows.count() == 1


def test_wrong_arguments_are_found_before_anything_is_read(spark: SparkSession) -> None:
    """`a` fails when it is read."""
    a = bank(spark, ("x", 6, 1)).withColumn("amount", F.raise_error(F.lit("read")).cast("int"))
    with pytest.raises(ArgumentError, match="Nothing lies between"):
        joined(a, a, start="2024-03-02", end="2024-03-01")
