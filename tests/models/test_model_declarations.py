"""A query and its metadata become what a pipeline's statements become: a table with a strategy and a window."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from models.conftest import SIDECAR

from tidemill import Duration, MergeStrategy, SchemaPolicy, Table, typing
from tidemill.declarations import (
    Append,
    Condition,
    CurrentDate,
    DeleteInsert,
    Merge,
    NullTime,
    Query,
    Replace,
    StartVariable,
    Window,
)
from tidemill.errors import Origin
from tidemill.model.query import View

SAME_AS_JSON = """-- Orders that are still active.
-- metadata: {"materialization": "incremental",
--   "incremental": {"strategy": "merge",
--     "merge": {"unique_key": ["id"], "time_column": "updated_at", "start_date": "auto", "lookback": "3 hours"}}}
-- Inactive ones are of no use.
"""


def merging(more: str = "", top: str = "") -> str:
    section = '"unique_key": "id", "time_column": "updated_at"'
    return incremental("merge", f"{section}, {more}" if more else section, top)


def incremental(strategy: str, section: str, top: str = "") -> str:
    inside = f'"strategy": "{strategy}", "{strategy}": {{{section}}}'
    return f'{{"materialization": "incremental", "incremental": {{{inside}}}, {top}}}'


@pytest.mark.parametrize(
    ("name", "strategy", "window"),
    [
        ("append", Append(), Window("created_at", "2024-01-01", Duration(7, "day"))),
        ("merge", Merge(("id",)), Window("updated_at", None, Duration(3, "hour"))),
        (
            "delete_insert",
            DeleteInsert(condition=Condition(("updated_at >= ", ""), ("start_date",))),
            Window("updated_at", moving_start=StartVariable("start_date")),
        ),
    ],
)
def test_the_three_strategies_have_a_window_each(load, query, name, strategy, window):
    (table,) = load({"orders_active.sql": query, "orders_active.py": SIDECAR + name}).tables
    assert (table.strategy, table.window) == (strategy, window)


def test_a_model_is_a_table_by_the_name_of_its_folder_and_file(load, folder):
    files = {"orders.sql": "\nSELECT id, now() AS loaded_at FROM t_project.source_table; -- all of them\n"}
    (table,) = load(files).tables
    assert table == Table(
        name="my_schema.orders",
        path=str(folder / "warehouse/my_schema/orders"),
        strategy=Replace(),
        volatile=("loaded_at",),
        sql_hash=table.sql_hash,
        input="query",
        origin=Origin("models/my_schema/orders.sql", 2, 1),
        producer=Query(
            ("SELECT id, now() AS loaded_at FROM t_project.source_table",),
            origin=Origin("models/my_schema/orders.sql", 2, 1),
        ),
        inputs=("t_project.source_table",),
    )
    assert table.sql_hash is not None


def test_metadata_in_the_first_comment_is_the_same_as_beside_it(load, query):
    (beside,) = load({"orders.sql": query, "orders.py": SIDECAR + "merge"}).tables
    Path("models/my_schema/orders.py").unlink()
    (inside,) = load({"orders.sql": SAME_AS_JSON + query}).tables
    assert (inside.strategy, inside.window, inside.sql_hash) == (beside.strategy, beside.window, beside.sql_hash)
    assert (inside.config_hash, inside.producer.text) == (beside.config_hash, beside.producer.text)


def test_full_merge_is_a_strategy_and_a_merge_may_keep_rows_on_purpose(model):
    full = '"full_merge": {"unique_key": ["id"], "max_shrink": 0.5}'
    table = model(f'{{"materialization": "incremental", "incremental": {{"strategy": "full_merge", {full}}}}}')
    assert (table.strategy, table.window) == (Merge(("id",), MergeStrategy.FULL_MERGE, max_shrink=0.5), None)
    silent, intended = model(merging()), model(merging('"kept_rows": "intended"'))
    assert (silent.keeps_rows, intended.keeps_rows) == (False, True)
    assert silent.config_hash == intended.config_hash, "it decides nothing about rows"


def test_a_view_keeps_its_query_and_no_rows(model, query):
    view = model('{"materialization": "view", "tags": "daily", "description": "Active orders", "checks": ["id > 0"]}')
    assert isinstance(view, View)
    assert (view.query.text, view.inputs) == (query.strip(), ("t_project.source_table",))
    assert (view.tags, view.description, str(view.checks[0])) == (("daily",), "Active orders", "id > 0")


def test_all_other_keys_reach_the_table(model):
    table = model(
        merging(
            '"only_newer": True, "null_time": "skip"',
            '"description": "Orders", "tags": ["a", "b"], "partition_by": "status", "on_schema_change": "ignore", '
            '"volatile": ["status"], "reset_allowed": False, "reads": ["more", "other.db.table"]',
        )
    )
    assert (table.strategy.only_newer, table.window.null_time) == ("updated_at", NullTime.SKIP)
    assert (table.description, table.tags, table.partition_by) == ("Orders", ("a", "b"), ("status",))
    assert (table.schema_policy, table.volatile) == (SchemaPolicy.IGNORE, ("status",))
    assert table.reset_allowed is False
    assert table.inputs == ("t_project.source_table", "main.more", "other.db.table")


@pytest.fixture(autouse=True)
def more_tables(folder):
    (folder / "warehouse/main/more/_delta_log").mkdir(parents=True)


def test_a_key_may_stand_in_its_strategy_or_outside_of_it(model):
    inside = model(merging('"only_newer": "created_at", "dedup_order_by": ["created_at"], "null_time": "include"'))
    outside = model(merging(top='"only_newer": "created_at", "dedup_order_by": "created_at", "null_time": "include"'))
    assert inside.strategy == outside.strategy
    assert inside.strategy == Merge(("id",), MergeStrategy.DEDUPLICATE, ("created_at",), "created_at")
    assert inside.window == outside.window
    between = model(
        '{"materialization": "incremental", "incremental": {"strategy": "merge", '
        '"on_schema_change": "sync_all_columns", "merge": {"unique_key": "id"}}}'
    )
    assert between.schema_policy is SchemaPolicy.SYNC_ALL_COLUMNS


@pytest.mark.parametrize(
    ("start", "literal", "moving"),
    [
        ('"2024-01-01"', "2024-01-01", None),
        ('"2024-01-01T10:30:00Z"', "2024-01-01T10:30:00Z", None),
        ("100", "100", None),
        ('"auto"', None, None),
        ('"@day"', None, StartVariable("day")),
        ('"@START_DATE"', None, StartVariable("start_date")),
        ('"CURRENT_DATE"', None, CurrentDate()),
        ('"current_date()"', None, CurrentDate()),
    ],
)
def test_a_start_is_a_literal_or_known_when_the_run_begins(model, start, literal, moving):
    window = model(merging(f'"start_date": {start}')).window
    assert (window.start, window.moving_start) == (literal, moving)


def test_variables_know_where_they_are_asked_for_and_their_place_changes_no_table(model):
    section = '"where_condition": "status = @kind", "time_column": "updated_at", "start_date": "@day"'
    table = model(incremental("delete_insert", section))
    assert str(table.window.moving_start.origin).startswith("models/my_schema/orders.py:1:")
    assert str(table.strategy.condition.origin).startswith("models/my_schema/orders.py:1:")
    moved = model("\\\n" + incremental("delete_insert", section))
    assert str(moved.window.moving_start.origin).startswith("models/my_schema/orders.py:2:")
    assert moved.config_hash == table.config_hash


def test_a_condition_without_variables_is_a_predicate(model):
    assert model(incremental("delete_insert", '"where_condition": "status = \'@open\'"')).strategy == DeleteInsert(
        "status = '@open'"
    )
    assert model(incremental("delete_insert", '"time_column": "updated_at"')).strategy == DeleteInsert()


def test_a_merge_without_a_time_column_reads_all_rows(model):
    table = model(incremental("merge", '"unique_key": ["id", "status"]'))
    assert (table.strategy, table.window) == (Merge(("id", "status")), None)


def test_lists_may_be_tuples_and_numbers_may_look_back(model):
    table = model(incremental("merge", '"unique_key": ("id", "status"), "time_column": "id", "lookback": 100'))
    assert (table.strategy.keys, table.window.lookback) == (("id", "status"), 100)


def test_a_table_may_shrink_by_a_share_only(model):
    assert model('{"max_shrink": 0.1}').strategy == Replace(0.1)


def test_values_of_the_run_stand_in_the_query(model, query):
    table = model(None, query + "AND region = '${region}' AND kind = @kind", region="e'u")
    assert "region = 'e\\'u'" in table.producer.text
    assert table.producer.parameters == ("kind",)


def test_a_query_that_asks_for_the_start_takes_charge_of_its_window(model, query):
    asks = query.replace("active", "updated_at >= @start_dt")
    assert model(merging(), asks).owns_window
    assert not model(merging()).owns_window
    assert not model("{}", asks).owns_window


def test_columns_that_only_the_data_can_name_are_taken_on_trust(model):
    assert model(merging(), "SELECT * FROM t_project.source_table").strategy.keys == ("id",)


def test_what_an_editor_completes_is_what_counts():
    assert get_args(typing.OnSchemaChange) == tuple(SchemaPolicy)
    assert get_args(typing.NullTime) == tuple(NullTime)
