"""When the columns of a change are not the table's, the schema policy says what happens."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from delta.tables import DeltaTable, IdentityGenerator
from given import commits_nothing, frame, held, refused, step, table

import tidemill
from tidemill.declarations import Append, DeleteInsert, Merge
from tidemill.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tidemill import Table

TYPES = {"id": pa.int64(), "v": pa.string(), "old": pa.string(), "new": pa.int32()}
HELD = {1: {"id": 1, "v": "a", "old": "x"}, 2: {"id": 2, "v": "b", "old": None}}
SHAPES = {"added": ("v", "new", "id", "old"), "missing": ("v", "id"), "both": ("new", "v", "id")}
CHANGE = {n: {"id": n, "v": "changed", "old": "o", "new": n} for n in (2, 3)}
# the keys, and so the rows of the change, that each strategy takes
STRATEGIES = {"merge": (Merge(("id",)), (2, 3)), "append": (Append(), (3,)), "delete_insert": (DeleteInsert(), (2, 3))}


def given(columns: tuple[str, ...], *rows: dict[str, Any]) -> pa.Table:
    return frame({c: TYPES[c] for c in columns}, *[tuple(row.get(c) for c in columns) for row in rows])


def declared(path: Path, strategy: str, policy: str) -> Table:
    """Append and delete_insert read from the highest id on, which is 2."""
    time = None if strategy == "merge" else "id"
    return table(path, STRATEGIES[strategy][0], time=time, policy=policy)


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Path], Path]:
    """The table that each strategy starts from, made once and copied."""
    folder = tmp_path_factory.mktemp("held")
    for strategy in STRATEGIES:
        step(spark, declared(folder / strategy, strategy, "fail"), given(("id", "v", "old"), *HELD.values()))

    def copy(strategy: str, to: Path) -> Path:
        return shutil.copytree(folder / strategy, to)

    return copy


def expected(strategy: str, policy: str, shape: str) -> tuple[list[str], Counter[tuple[Any, ...]]]:
    """Columns and rows afterwards, computed by plain Python."""
    seen = SHAPES[shape]
    columns = [c for c in ("id", "v", "old") if c in seen or policy != "sync_all_columns"]
    if "new" in seen and policy != "ignore":
        columns.append("new")
    rows = {key: dict(row) for key, row in HELD.items()}
    for key in STRATEGIES[strategy][1]:
        before = rows.get(key, {}) if strategy == "merge" else {}
        rows[key] = {**before, **{c: CHANGE[key][c] for c in seen}}
    return columns, Counter(tuple(row.get(c) for c in columns) for row in rows.values())


@pytest.mark.parametrize("policy", ["ignore", "append_new_columns", "sync_all_columns"])
@pytest.mark.parametrize(
    ("strategy", "shape"),
    [("merge", "added"), ("merge", "missing"), ("merge", "both"), ("append", "both"), ("delete_insert", "both")],
)
def test_a_policy_gives_the_columns_and_rows_that_it_says(
    spark: SparkSession, tmp_path: Path, made: Callable[[str, Path], Path], strategy: str, policy: str, shape: str
) -> None:
    path = made(strategy, tmp_path / "t")
    orders, change = declared(path, strategy, policy), given(SHAPES[shape], *CHANGE.values())
    result = step(spark, orders, change)
    columns, rows = expected(strategy, policy, shape)
    assert result.status == "changed"
    assert ("old dropped from orders: its source does not have it" in result.notices) is ("old" not in columns)
    assert spark.read.format("delta").load(str(path)).columns == columns
    assert held(path) == rows
    with commits_nothing(path):
        step(spark, orders, change)


TOLD = {
    "added": "the source also has new (int)",
    "missing": "the source lacks old",
    "both": "the source also has new (int); the source lacks old",
}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_policy_fail_tells_which_columns_differ(
    spark: SparkSession, tmp_path: Path, made: Callable[[str, Path], Path], strategy: str, shape: str
) -> None:
    path = made(strategy, tmp_path / "t")
    change = given(SHAPES[shape], *CHANGE.values())
    error = refused(path, lambda: step(spark, declared(path, strategy, "fail"), change))
    assert (type(error), str(error)) == (
        SchemaError,
        (
            f"[schema.changed] The columns of the source are not those of orders: {TOLD[shape]}. "
            "Set on_schema_change (of a merge: schema_policy) to ignore, append_new_columns or sync_all_columns, "
            "or rebuild the table with a run that has -s orders --full-refresh. The table is unchanged."
        ),
    )


def test_a_new_column_without_a_value_is_no_update(
    spark: SparkSession, tmp_path: Path, made: Callable[[str, Path], Path]
) -> None:
    path = made("merge", tmp_path / "t")
    same = given(("id", "v", "old", "new"), *HELD.values())
    with commits_nothing(path):
        assert step(spark, declared(path, "merge", "append_new_columns"), same).counts.unchanged == 2


def test_columns_that_the_table_fills_itself_are_left_to_it(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    made = DeltaTable.create(spark).location(str(path)).addColumn("id", "BIGINT").addColumn("v", "STRING")
    made = made.addColumn("number", "BIGINT", generatedAlwaysAs=IdentityGenerator())
    made.addColumn("size", "INT", generatedAlwaysAs="length(v)").execute()
    orders, types = declared(path, "merge", "ignore"), {c: TYPES[c] for c in ("id", "v")}
    assert step(spark, orders, frame(types, (1, "a"), (9, "b"))).counts.inserted == 2
    counts = step(spark, orders, frame(types, (1, "changed"), (5, "c"))).counts
    assert (counts.inserted, counts.updated) == (1, 1)
    assert held(path, "id", "v", "size") == Counter([(1, "changed", 7), (9, "b", 1), (5, "c", 1)])
    assert len(held(path, "number")) == 3
    assert tidemill.restore(path, to=1, spark=spark).total == 2


def test_rows_that_are_appended_or_replaced_leave_to_the_table_what_it_fills_itself(
    spark: SparkSession, tmp_path: Path
) -> None:
    path, types = tmp_path / "t", {c: TYPES[c] for c in ("id", "v")}
    filled = "size INT GENERATED ALWAYS AS (length(v)), d INT DEFAULT 7, at TIMESTAMP DEFAULT current_timestamp()"
    supported = "'delta.feature.allowColumnDefaults' = 'supported'"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT, v STRING, {filled}, e INT) USING delta TBLPROPERTIES ({supported})"
    )
    appended, replaced = (declared(path, name, "ignore") for name in ("append", "delete_insert"))
    assert step(spark, appended, frame(types, (1, "a"), (2, "bb"))).counts.inserted == 2
    counts = step(spark, replaced, frame(types, (2, "new"), (3, "c"))).counts
    assert (counts.inserted, counts.deleted) == (2, 1)
    for orders in (appended, replaced):
        with commits_nothing(path):
            assert step(spark, orders, frame(types, (3, "c"))).counts.unchanged == 1
    assert held(path, "id", "v", "size", "d", "e") == Counter(
        [(1, "a", 1, 7, None), (2, "new", 3, 7, None), (3, "c", 1, 7, None)]
    )
    assert (None,) not in held(path, "at")


def test_dropping_columns_of_a_table_made_elsewhere_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    spark.createDataFrame(given(("id", "v", "old"), *HELD.values())).write.format("delta").save(str(path))
    change = given(SHAPES["missing"], *CHANGE.values())
    error = refused(path, lambda: step(spark, declared(path, "merge", "sync_all_columns"), change))
    assert (type(error), str(error)) == (
        SchemaError,
        (
            "[schema.cannot_drop] orders was made elsewhere, and dropping old would change its protocol. "
            "Drop the columns yourself, or use append_new_columns. The table is unchanged."
        ),
    )


def test_a_merge_that_is_refused_drops_no_columns_and_one_that_only_drops_some_says_so(
    spark: SparkSession, tmp_path: Path, made: Callable[[str, Path], Path]
) -> None:
    path = made("merge", tmp_path / "t")
    fewer = {"on": "id", "strategy": "full_merge", "schema_policy": "sync_all_columns", "spark": spark}
    one = given(("id", "v"), HELD[1])
    error = refused(path, lambda: tidemill.merge(one, path, max_shrink=0.1, **fewer))
    assert error.code == "table.max_shrink"
    result = tidemill.merge(given(("id",), *HELD.values()), path, **fewer)
    assert (result.status, result.unchanged, held(path)) == ("changed", 2, Counter([(1,), (2,)]))
    assert result.notices == (f"v, old dropped from {path}: its source does not have them",)


def test_a_new_column_whose_name_the_files_cannot_hold_is_an_error(
    spark: SparkSession, tmp_path: Path, made: Callable[[str, Path], Path]
) -> None:
    path = made("merge", tmp_path / "t")
    inside = pa.struct([("c d", pa.int32())])
    odd = {**{c: TYPES[c] for c in ("id", "v", "old")}, "a b": pa.int32(), "new": inside}
    change = frame(odd, (3, "c", "o", 1, {"c d": 1}))
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES (delta.columnMapping.mode = 'none')")  # as it is anyway
    error = refused(path, lambda: step(spark, declared(path, "merge", "append_new_columns"), change))
    assert (type(error), str(error)) == (
        SchemaError,
        (
            "[schema.needs_mapping] orders cannot take a column named 'a b', 'c d': its files hold plain names only. "
            "Rename it in the source, or set the table's property delta.columnMapping.mode to name. "
            "The table is unchanged."
        ),
    )
