"""Values are compared as values: whatever their type, however they are written, volatile ones not at all."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from given import UTC_MICROS, bag, commits_nothing, frame, held, refused, step, table

import tidemill
from tidemill import MergeStrategy
from tidemill.declarations import Append, DeleteInsert, Merge, Replace
from tidemill.errors import MergeError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tidemill.model.strategy import Strategy

BIG, TEXT = pa.int64(), pa.string()

# a value, the same value written in another way, and another value
VALUES = {
    "map": ("map('a', 1, 'b', 2)", "map('b', 2, 'a', 1)", "map('a', 1, 'b', 3)"),
    "map_null": ("CAST(NULL AS MAP<STRING, INT>)", "CAST(NULL AS MAP<STRING, INT>)", "CAST(map() AS MAP<STRING, INT>)"),
    "map_of_null": ("map('a', CAST(NULL AS INT))", "map('a', CAST(NULL AS INT))", "map('a', 0)"),
    "struct": ("named_struct('x', 1, 'y', 'a')", "named_struct('x', 1, 'y', 'a')", "named_struct('x', 1, 'y', 'b')"),
    "struct_of_null": (
        "named_struct('x', CAST(NULL AS INT))",
        "named_struct('x', CAST(NULL AS INT))",
        "CAST(NULL AS STRUCT<x: INT>)",
    ),
    "array": ("array(1, 2, 2)", "array(1, 2, 2)", "array(2, 1, 2)"),
    "array_of_maps": ("array(map(1, 'a', 2, 'b'))", "array(map(2, 'b', 1, 'a'))", "array(map(1, 'a'))"),
    "nested": (
        "named_struct('m', map('k', map(1, 'a', 2, 'b')), 'n', 1)",
        "named_struct('m', map('k', map(2, 'b', 1, 'a')), 'n', 1)",
        "named_struct('m', map('k', map(1, 'a', 2, 'c')), 'n', 1)",
    ),
    "nan": ("double('NaN')", "double('NaN')", "0.5D"),
    "zero": ("0.0D", "-0.0D", "1e-300D"),
    "float_zero": ("float('-0.0')", "float('0.0')", "float('1e-30')"),
    "nan_in_array": ("array(double('NaN'), -0.0D)", "array(double('NaN'), 0.0D)", "array(0.0D, double('NaN'))"),
    "nan_in_map": (
        "map('a', double('NaN'), 'z', 0.0D)",
        "map('z', -0.0D, 'a', double('NaN'))",
        "map('a', 0.5D, 'z', 0.0D)",
    ),
    "bytes": ("X'00FF'", "X'00FF'", "X'00FE'"),
    "decimal": ("1.50BD", "1.50BD", "1.51BD"),
    "variant": (
        """parse_json('{"a": 1, "b": [1, null]}')""",
        """parse_json('{ "b": [1, null], "a": 1 }')""",
        """parse_json('{"a": 1, "b": [null, 1]}')""",
    ),
}


def wide(spark: SparkSession, form: int, *, changed: bool = False) -> DataFrame:
    """A column for each kind of value, in one of its forms; if `changed`, row n has another value in the n-th."""
    columns = [
        f"IF({str(changed).lower()} AND id = {number}, {values[2]}, {values[form]}) AS {name}"
        for number, (name, values) in enumerate(VALUES.items())
    ]
    return spark.range(len(VALUES), numPartitions=1).selectExpr("id", *columns)


@pytest.mark.parametrize("strategy", [Merge(("id",)), Append(), Replace()], ids=str)
def test_values_of_every_type_are_found_equal_or_changed(
    spark: SparkSession, tmp_path: Path, strategy: Strategy
) -> None:
    appending = isinstance(strategy, Append)
    orders = table(tmp_path / "t", strategy, time="id" if appending else None, back=1000 if appending else None)
    step(spark, orders, wide(spark, 0))
    with commits_nothing(tmp_path / "t"):
        assert step(spark, orders, wide(spark, 1)).counts.unchanged == len(VALUES)
    counts = step(spark, orders, wide(spark, 1, changed=True)).counts
    assert counts.unchanged == 0
    assert (counts.updated if isinstance(strategy, Merge) else counts.inserted) == len(VALUES)


def test_copies_of_a_row_are_known_by_their_values(spark: SparkSession, tmp_path: Path) -> None:
    rows = wide(spark, 0).unionByName(wide(spark, 1))
    assert tidemill.merge(rows, tmp_path / "t", "id", spark=spark).total == len(VALUES)


def test_fields_of_structs_are_matched_by_name(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    inner, turned = pa.struct([("a", BIG), ("b c", BIG)]), pa.struct([("B C", pa.int32()), ("a", BIG)])
    both = ({"s": inner, "l": pa.list_(inner)}, {"s": turned, "l": pa.list_(turned)})
    given, other_order = ({"id": BIG, **types, "m": pa.map_(TEXT, types["s"])} for types in both)
    value, written = {"a": 1, "b c": 2}, {"B C": 2, "a": 1}
    tidemill.merge(frame(given, (1, value, [value], [("k", value)]), (2, None, None, None)), path, "id", spark=spark)
    same = frame(other_order, (1, written, [written], [("k", written)]), (2, None, None, None))
    with commits_nothing(path):
        assert tidemill.merge(same, path, "id", spark=spark).unchanged == 2
    changed = frame(other_order, (2, {"B C": 4, "a": 3}, [{"B C": 6, "a": 5}], [("k", {"B C": 8, "a": 7})]))
    assert tidemill.merge(changed, path, "id", spark=spark).updated == 1
    row = tidemill.read(path, spark=spark).where("id = 2").select("s.a", "s.`b c`", "l", "m").first()
    assert (row["a"], row["b c"], tuple(row["l"][0]), tuple(row["m"]["k"])) == (3, 4, (5, 6), (7, 8))


def at(hour: int) -> datetime:
    return datetime(2024, 1, 10, hour, tzinfo=UTC)


LOADED = {"id": BIG, "v": TEXT, "Loaded At": UTC_MICROS}


@pytest.mark.parametrize("form", [form for form in MergeStrategy if form is not MergeStrategy.INSERT])
def test_a_load_time_changes_only_with_its_row_under_merge(
    spark: SparkSession, tmp_path: Path, form: MergeStrategy
) -> None:
    path = tmp_path / "t"
    tidemill.merge(frame(LOADED, (1, "a", at(1)), (2, None, at(1))), path, "id", volatile="loaded at", spark=spark)
    with commits_nothing(path):
        again = frame(LOADED, (1, "a", at(2)), (2, None, at(2)))
        assert tidemill.merge(again, path, "id", form, volatile="loaded at", spark=spark).unchanged == 2
    change = frame(LOADED, (1, "changed", at(3)), (2, None, at(3)))
    result = tidemill.merge(change, path, "id", form, volatile="loaded at", spark=spark)
    assert (result.updated, result.unchanged) == (1, 1)
    hours = {
        row["id"]: row["h"]
        for row in tidemill.read(path, spark=spark).selectExpr("id", "hour(`Loaded At`) h").collect()
    }
    assert hours == {1: 3, 2: 1}


@pytest.mark.parametrize("strategy", [Append(), Replace(), DeleteInsert()], ids=str)
def test_a_rerun_with_another_load_time_commits_nothing(
    spark: SparkSession, tmp_path: Path, strategy: Strategy
) -> None:
    orders = table(tmp_path / "t", strategy, time="id", back=5, volatile=("Loaded At",))
    step(spark, orders, frame(LOADED, (1, "a", at(1)), (1, "a", at(1)), (2, None, at(1))))
    with commits_nothing(tmp_path / "t"):
        step(spark, orders, frame(LOADED, (1, "a", at(2)), (1, "a", at(2)), (2, None, at(2))))
    more = frame(LOADED, *[(1, "a", at(3))] * 3, (2, None, at(3)), (3, "c", at(3)))
    assert step(spark, orders, more).counts.inserted == 2


@pytest.mark.parametrize("keys", [("id",), ("id", "region")], ids=["key", "key and a partition that stays"])
def test_a_row_that_moves_to_another_partition_stays_one_row(
    spark: SparkSession, tmp_path: Path, keys: tuple[str, ...]
) -> None:
    types = {"id": BIG, "region": TEXT, "day": pa.date32(), "v": TEXT}
    orders = table(tmp_path / "t", Merge(keys), partition_by=("region", "day"))
    first, second = date(2024, 1, 1), date(2024, 1, 2)
    step(spark, orders, frame(types, (1, "eu", first, "a"), (2, "eu", first, "b"), (3, "us", second, "c")))
    counts = step(spark, orders, frame(types, (1, "eu", second, "a"), (4, "us", first, "d"))).counts
    assert (counts.inserted, counts.updated, counts.deleted) == (1, 1, 0)
    assert held(tmp_path / "t") == bag(
        (1, "eu", second, "a"), (2, "eu", first, "b"), (3, "us", second, "c"), (4, "us", first, "d")
    )


def test_rows_are_compared_as_the_table_stores_them(spark: SparkSession, tmp_path: Path) -> None:
    """A CHAR is padded, and Delta has no partition by the name of an empty text."""
    path, columns = tmp_path / "t", "id CHAR(5), v CHAR(3), day STRING"
    spark.sql(f"CREATE TABLE delta.`{path}` ({columns}) USING delta PARTITIONED BY (day)")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES ('a', '', '1'), ('b', NULL, '2')")  # its files have no spaces
    types = {"id": TEXT, "v": TEXT, "day": TEXT}
    rows = frame(types, ("a", "x", ""), ("b ", None, "2"), ("c", "xyz", None))
    assert tidemill.merge(rows.slice(0, 1), path, "id", spark=spark).updated == 1
    whole = tidemill.merge(rows, path, "id", "full_merge", spark=spark)
    assert (whole.inserted, whole.updated, whole.deleted, whole.unchanged) == (1, 0, 0, 2)
    with commits_nothing(path):
        assert step(spark, table(path, Replace()), rows).counts.unchanged == 3
    stored = bag(*map(tuple, spark.read.format("delta").load(str(path)).collect()))  # b has no spaces in its file
    assert stored == bag(("a    ", "x  ", None), ("b    ", None, "2"), ("c    ", "xyz", None))
    error = refused(path, lambda: tidemill.merge(rows, path, ["id", "day"], spark=spark))
    assert error.problem == "2 rows have no id or no day; keys cannot be NULL."


TIMED = {"id": BIG, "at": BIG, "v": TEXT}


@pytest.mark.parametrize("form", ["upsert", "update", "full_merge"])
def test_only_newer_keeps_a_stored_row_that_is_newer(spark: SparkSession, tmp_path: Path, form: str) -> None:
    path = tmp_path / "t"
    stored = [(1, 10, "a"), (2, 10, "b"), (3, 10, "c"), (4, None, "d"), (5, 10, "e")]
    tidemill.merge(frame(TIMED, *stored), path, "id", spark=spark)
    change = frame(TIMED, (1, 9, "older"), (2, 10, "tie"), (3, 11, "newer"), (4, 1, "was NULL"), (5, None, "is NULL"))
    result = tidemill.merge(change, path, "id", form, only_newer="AT", spark=spark)
    assert (result.updated, result.ignored, result.unchanged) == (3, 2, 0)
    assert held(path) == bag((1, 10, "a"), (2, 10, "tie"), (3, 11, "newer"), (4, 1, "was NULL"), (5, 10, "e"))
    with commits_nothing(path):
        tidemill.merge(change, path, "id", form, only_newer="at", spark=spark)


def test_deduplicate_keeps_the_highest_with_nulls_last_and_ties_by_all_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    types = {"id": BIG, "at": BIG, "v": TEXT, "m": pa.map_(TEXT, BIG)}
    rows = [
        (1, 1, "low", []),
        (1, 3, "tie a", [("x", 1)]),
        (1, 3, "tie b", [("x", 1)]),
        (1, 3, "tie b", [("x", 2)]),
        (1, None, "zzz", []),
        (2, None, "a", None),
        (2, None, None, None),
    ]
    for number, order in enumerate(itertools.islice(itertools.permutations(rows), 0, None, 2000)):
        path = tmp_path / str(number)
        source = spark.createDataFrame(frame(types, *order)).repartition(1 + number)
        result = tidemill.merge(source, path, "id", "deduplicate", dedup_order_by="AT", spark=spark)
        assert (result.inserted, result.notices) == (2, ("5 of 7 rows skipped: one row per key is kept",))
        kept = {row["id"]: (row["at"], row["v"], row["m"]) for row in tidemill.read(path, spark=spark).collect()}
        assert kept == {1: (3, "tie b", {"x": 2}), 2: (None, "a", None)}


TWICE = [(1, 1, "a"), (1, 2, "b"), (1, 2, "b"), (2, 1, "a"), (2, 1, "b"), (3, 1, "a"), (9, 1, "z"), (9, 1, "z")]
CHANGE = frame(TIMED, (1, 2, "b"), (2, 5, "new"), (3, 1, "a"), (4, 1, "d"))


def made_elsewhere(spark: SparkSession, path: Path) -> Path:
    spark.createDataFrame(frame(TIMED, *TWICE)).write.format("delta").save(str(path))
    return path


@pytest.mark.parametrize("form", ["upsert", "insert", "update"])
def test_keys_that_the_target_holds_twice_are_an_error_with_the_count(
    spark: SparkSession, tmp_path: Path, form: str
) -> None:
    path = made_elsewhere(spark, tmp_path / "t")
    error = refused(path, lambda: tidemill.merge(CHANGE, path, "id", form, spark=spark))
    assert (type(error), str(error)) == (
        MergeError,
        (
            f"[merge.target_duplicates] {path} holds 2 keys of this change more than once: 1, 2. "
            f"Use the strategy deduplicate, which leaves one row of each, or other keys. {path} is unchanged."
        ),
    )
    harmless = frame(TIMED, (3, 1, "a"), (4, 1, "d"))
    result = tidemill.merge(harmless, path, "id", form, spark=spark)
    assert result.total == len(TWICE) + (form != "update")


@pytest.mark.parametrize(("form", "deleted", "left"), [("deduplicate", 3, [(9, 1, "z")] * 2), ("full_merge", 5, [])])
def test_keys_that_the_target_holds_twice_collapse_to_the_row_of_the_source(
    spark: SparkSession, tmp_path: Path, form: str, deleted: int, left: list[tuple[Any, ...]]
) -> None:
    path = made_elsewhere(spark, tmp_path / "t")
    result = tidemill.merge(CHANGE, path, "id", form, spark=spark)
    assert (result.inserted, result.updated, result.deleted, result.unchanged) == (1, 1, deleted, 2)
    assert held(path) == bag((1, 2, "b"), (2, 5, "new"), (3, 1, "a"), (4, 1, "d"), *left)
    with commits_nothing(path):
        assert tidemill.merge(CHANGE, path, "id", form, spark=spark).unchanged == 4


@pytest.mark.parametrize("form", ["deduplicate", "full_merge"])
def test_a_collapse_keeps_what_the_table_holds_in_columns_that_the_source_lacks(
    spark: SparkSession, tmp_path: Path, form: str
) -> None:
    path = tmp_path / "t"
    stored = [(1, 1, "old"), (1, 1, "old"), (2, 2, "kept")]
    names = {"held": BIG, "at": BIG}  # a name that the counting may not have for itself
    spark.createDataFrame(frame({**names, "v": TEXT}, *stored)).write.format("delta").save(str(path))
    change = frame(names, (1, 5), (2, 2), (3, 3))
    result = tidemill.merge(change, path, "held", form, schema_policy="ignore", spark=spark)
    assert (result.inserted, result.updated, result.deleted, result.unchanged) == (1, 1, 1, 1)
    assert held(path) == bag((1, 5, "old"), (2, 2, "kept"), (3, 3, None))


def test_a_collapse_that_could_drop_a_newer_stored_row_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    path = made_elsewhere(spark, tmp_path / "t")

    def run() -> tidemill.MergeResult:
        return tidemill.merge(CHANGE, path, "id", "deduplicate", only_newer="at", spark=spark)

    assert refused(path, run).code == "merge.target_duplicates"
