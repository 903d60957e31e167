"""Rows that are computed for some keys, and signed rows, turn into what has to be replaced; what is the same stays."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from tidemill.changes.apply import rows_after
from tidemill.changes.profile import profile
from tidemill.changes.replace_keys import change_contents, replace_keys
from tidemill.errors import StateError
from tidemill.formats.port import WEIGHT
from tidemill.model.record import Counts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

    from tidemill.formats.base import Compiled

Row: TypeAlias = tuple[Any, ...]
COLUMNS = "k bigint, v double, s string"
NAN, NULL = float("nan"), None


def bag(rows: Iterable[Row]) -> Counter[str]:
    """As text, since NaN is not itself; Spark takes -0.0 for 0.0."""
    return Counter(repr([0.0 if value == 0.0 else value for value in row]) for row in rows)


def replaced(spark: SparkSession, held: list[Row], new: list[Row], keys: list[Any], **more: Any) -> Compiled:
    """What has to be done, after it was checked that it leaves the new rows of the keys, and all others as they are."""
    stored, given = spark.createDataFrame(held, COLUMNS), spark.createDataFrame(new, COLUMNS)
    wanted = spark.createDataFrame([(key,) for key in keys], "k bigint")
    compiled = replace_keys(stored, given, wanted, ["k"], profile(wanted, keys=["k"]), **more)
    after = held if compiled.operation is None else rows_after(compiled.operation, stored).collect()
    if not more:
        assert bag(map(tuple, after)) == bag([*(row for row in held if row[0] not in keys), *new])
    return compiled


def gone(compiled: Compiled) -> list[Row]:
    assert compiled.operation is not None
    keys = compiled.operation.gone  # type: ignore[union-attr]
    return [] if keys is None else sorted(map(tuple, keys.collect()), key=repr)


def test_keys_whose_rows_are_the_same_are_left_alone(spark: SparkSession) -> None:
    held = [(1, 1.0, "a"), (1, 1.0, "a"), (2, NAN, NULL), (NULL, -0.0, "n"), (3, 3.0, "c")]
    same = [(NULL, 0.0, "n"), (2, NAN, NULL), (1, 1.0, "a"), (1, 1.0, "a")]
    compiled = replaced(spark, held, same, [1, 2, NULL])
    assert compiled.operation is None
    assert compiled.counts == Counts(unchanged=4)


def test_only_keys_that_differ_are_replaced_and_every_row_is_counted(spark: SparkSession) -> None:
    held = [(1, 1.0, "a"), (2, 2.0, "b"), (3, 3.0, "c"), (4, 4.0, "d"), (4, 4.0, "d"), (NULL, 0.0, "n"), (9, 9.0, "z")]
    new = [(1, 1.0, "a"), (2, 2.5, "b"), (4, 4.0, "d"), (4, 4.5, "d"), (5, 5.0, "e")]
    compiled = replaced(spark, held, new, [1, 2, 3, 4, 5, NULL])
    assert gone(compiled) == [(2,), (3,), (4,), (NULL,)]
    assert compiled.counts == Counts(inserted=2, updated=1, deleted=3, unchanged=2)
    assert compiled.operation is not None
    assert compiled.operation.rows.count() == 4


def test_one_row_less_or_more_of_equal_ones_is_a_difference(spark: SparkSession) -> None:
    assert replaced(spark, [(1, 1.0, "a")] * 3, [(1, 1.0, "a")] * 2, [1]).counts == Counts(deleted=1, unchanged=2)
    assert replaced(spark, [(1, 1.0, "a")], [(1, 1.0, "a")] * 2, [1]).counts == Counts(inserted=1, unchanged=1)


def test_rows_of_keys_that_are_new_are_only_added(spark: SparkSession) -> None:
    compiled = replaced(spark, [(1, 1.0, "a")], [(2, 2.0, "b"), (NULL, 2.0, "b")], [2, NULL])
    assert gone(compiled) == []
    assert compiled.counts == Counts(inserted=2)


def test_volatile_columns_take_no_part_in_the_comparison(spark: SparkSession) -> None:
    compiled = replaced(spark, [(1, 1.0, "then")], [(1, 1.0, "now")], [1], volatile=frozenset({"s"}))
    assert compiled.operation is None


def test_files_are_skipped_by_the_keys_unless_one_is_null(spark: SparkSession) -> None:
    held = [(1, 1.0, "a"), (NULL, 2.0, "b")]
    some = replaced(spark, held, [], [1]).operation
    every = replaced(spark, held, [], [1, NULL]).operation
    assert [len(operation.ranges) for operation in (some, every)] == [1, 0]  # type: ignore[union-attr]


@pytest.mark.parametrize("seed", range(6))
def test_any_rows_enter_and_leave_a_bag(spark: SparkSession, seed: int) -> None:
    draw = random.Random(seed)

    def some(count: int) -> list[Row]:
        values = [0.0, NAN, NULL] if seed % 2 else [0.0]
        return [(draw.choice([NULL, *range(9)]), draw.choice(values), draw.choice("ab")) for _ in range(count)]

    held, coming = some(40), some(draw.choice([0, 1, 9]))
    leaving = draw.sample(held, draw.choice([1, 3, 12]))
    signed = [*[(*row, -1) for row in leaving], *[(*row, 1) for row in coming]]
    for sure in (True, False):
        _, after = changed(spark, held, signed, is_sure=sure)
        assert bag(after) == bag(held) - bag(leaving) + bag(coming)


@pytest.mark.parametrize("seed", range(4))
def test_any_bag_is_replaced_by_any_other(spark: SparkSession, seed: int) -> None:
    draw = random.Random(seed)

    def some(count: int, keys: list[Any]) -> list[Row]:
        return [(draw.choice(keys), draw.choice([0.0, -0.0, NAN, NULL]), draw.choice("ab")) for _ in range(count)]

    every = [NULL, *range(12)]
    keys = draw.sample(every, 8)
    held = some(40, every)
    kept = [row for row in held if row[0] in keys[:4]]
    compiled = replaced(spark, held, [*kept, *some(12, keys[4:])], keys)
    assert compiled.counts.unchanged >= len(kept)


def changed(spark: SparkSession, held: list[Row], signed: list[Row], **more: Any) -> tuple[Compiled, list[Row]]:
    stored = spark.createDataFrame(held, COLUMNS)
    compiled = change_contents(stored, spark.createDataFrame(signed, f"{COLUMNS}, {WEIGHT} int"), "shop.sales", **more)
    after = held if compiled.operation is None else rows_after(compiled.operation, stored).collect()
    return compiled, [tuple(row) for row in after]


def test_signed_rows_enter_and_leave_as_often_as_they_add_up_to(spark: SparkSession) -> None:
    held = [(1, 1.0, "a"), (1, 1.0, "a"), (1, 1.0, "a"), (2, NAN, NULL), (NULL, NULL, NULL), (3, -0.0, "c")]
    signed = [
        (1, 1.0, "a", -1),
        (1, 1.0, "a", -1),
        (1, 1.0, "a", 1),
        (2, NAN, NULL, -1),
        (NULL, NULL, NULL, -1),
        (3, 0.0, "c", -1),
        (4, 4.0, "d", 1),
        (4, 4.0, "d", 1),
        (5, 5.0, "e", 1),
        (5, 5.0, "e", -1),
    ]
    compiled, after = changed(spark, held, signed)
    assert bag(after) == bag([(1, 1.0, "a"), (1, 1.0, "a"), (4, 4.0, "d"), (4, 4.0, "d")])
    assert compiled.counts == Counts(inserted=2, deleted=4)


def test_signed_rows_that_cancel_out_change_nothing(spark: SparkSession) -> None:
    compiled, _ = changed(spark, [(1, 1.0, "a")], [(2, 2.0, "b", 1), (2, 2.0, "b", -1)])
    assert (compiled.operation, compiled.counts) == (None, Counts())


def test_rows_that_only_enter_are_appended(spark: SparkSession) -> None:
    compiled, after = changed(spark, [(1, 1.0, "a")], [(1, 1.0, "a", 1), (1, 1.0, "a", 1)])
    assert type(compiled.operation).__name__ == "AppendRows"
    assert bag(after) == bag([(1, 1.0, "a")] * 3)


@pytest.mark.parametrize("sure", [True, False])
def test_contents_that_columns_tell_apart_are_replaced_by_these(spark: SparkSession, sure: bool) -> None:
    held = [(n, float(n), "a") for n in range(40)]
    signed = [(n, float(n), "a", -1) for n in range(9)] + [(n, n + 0.5, "a", 1) for n in range(9)]
    operation = changed(spark, held, signed, is_sure=sure)[0].operation
    assert operation is not None
    assert (operation.keys, operation.covered) == (("k",), True)  # type: ignore[union-attr]
    some_vanish = changed(spark, held, signed[:-1], is_sure=sure)[0].operation
    assert (some_vanish.keys, some_vanish.covered) == (("k", "s"), False)  # type: ignore[union-attr]
    strangers = changed(spark, [*held, (3, 9.0, "z")], signed, is_sure=sure)[0].operation
    assert (strangers.keys, strangers.covered) == (("k", "v", "s"), False)  # type: ignore[union-attr]


@pytest.mark.parametrize("held", [[], [(1, 1.0, "a")], [(1, 1.0, "b"), (1, 1.0, "b")]])
def test_a_row_that_leaves_and_is_not_there_is_an_error(spark: SparkSession, held: list[Row]) -> None:
    with pytest.raises(StateError, match=r"shop.sales is not what its record says.*--full-refresh") as error:
        changed(spark, held, [(1, 1.0, "a", -1), (1, 1.0, "a", -1)])
    assert error.value.code == "state.not_as_recorded"


def test_of_rows_equal_but_for_volatile_columns_any_leaves_and_the_others_stay_as_they_are(spark: SparkSession) -> None:
    held = [(1, 1.0, "then"), (1, 1.0, "then"), (2, 2.0, "then")]
    _, after = changed(spark, held, [(1, 1.0, "now", -1), (3, 3.0, "now", 1)], volatile=frozenset({"s"}))
    assert bag(after) == bag([(1, 1.0, "then"), (2, 2.0, "then"), (3, 3.0, "now")])


def test_contents_with_maps_are_compared_by_what_is_in_them(spark: SparkSession) -> None:
    def mapped(sql: str) -> DataFrame:
        return spark.sql(f"SELECT * FROM VALUES {sql}")

    held = mapped("(1, map('a', 1, 'b', 2)), (1, map('a', 1)) AS t(k, m)")
    signed = mapped(f"(1, map('b', 2, 'a', 1), -1), (1, map('c', 3), 1) AS t(k, m, {WEIGHT})")
    compiled = change_contents(held, signed, "t")
    assert compiled.operation is not None
    after = rows_after(compiled.operation, held).collect()
    assert sorted(str(row["m"]) for row in after) == ["{'a': 1}", "{'c': 3}"]
