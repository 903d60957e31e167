"""`Project.explain` and `Project.explain_query`: what the command shows, as data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import deltalake
import pyarrow as pa
import pytest

import tidemill
from tidemill.errors import ArgumentError, Origin
from tidemill.results import ExplainedRule, NextRun, Prevented, RowsBy

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """CREATE MATERIALIZED VIEW paid AS SELECT order_id, amount FROM main.orders WHERE region <> ${region};
CREATE MATERIALIZED VIEW some AS SELECT order_id FROM paid LIMIT 2;
CREATE TABLE daily AS SELECT order_id FROM paid;
"""
ORDERS = pa.table({"order_id": [1, 2], "amount": [10, 20], "region": ["eu", "us"]})


@pytest.fixture
def project(tmp_path: Path) -> tidemill.Project:
    (tmp_path / "tidemill.toml").write_text('name = "shop"\n')
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "shop.sql").write_text(PIPELINE.replace("${region}", "'asia'"))
    deltalake.write_deltalake(tmp_path / "warehouse" / "main" / "orders", ORDERS)
    return tidemill.Project.load(tmp_path)


def test_tables_are_explained_in_the_order_of_a_run(project: tidemill.Project):
    assert [each.table for each in project.explain()] == ["paid", "some", "daily"]
    assert [each.table for each in project.explain(["daily", "paid"])] == ["paid", "daily"]
    daily = project.explain("daily")[0]
    assert repr(daily).startswith("Explanation(table='daily', strategy='replace', origin=Origin(file=")
    assert repr(daily).endswith("line=3, column=1), next_run=<NextRun.FIRST: 'first run'>, reason='first run')")


def test_a_view_has_its_inputs_the_rules_for_each_and_the_blocks_of_its_query(project: tidemill.Project):
    found = project.explain("paid")[0]
    assert (found.next_run, found.refresh, found.prevented) == (NextRun.FIRST, tidemill.Refresh.AUTO, None)
    orders = found.inputs[0]
    assert (orders.table, orders.version, orders.recorded, orders.changed) == ("orders", 0, None, None)
    assert (orders.read_by, orders.refusal) == (RowsBy.FILES, None)
    assert orders.rules[0] == ExplainedRule("linear", None, (), "every row comes from one row of main.orders at most")
    assert found.query is not None
    assert (found.query.kind, found.query.tables) == ("select", ("orders",))


def test_sums_are_a_rule_of_their_own(project: tidemill.Project):
    rules = project.explain_query("SELECT region, sum(amount) AS amount FROM orders GROUP BY region").inputs[0].rules
    assert rules[0] == ExplainedRule("summed", "region", ("region",), "sums and counts are added up")
    rules = project.explain_query("SELECT count(*) AS n FROM orders").inputs[0].rules
    assert rules == (ExplainedRule("summed", None, (), "sums and counts are added up"),)


def test_what_prevents_it_has_its_place(project: tidemill.Project):
    found = project.explain_query("SELECT order_id\nFROM orders LIMIT 3")
    assert found.prevented == Prevented("LIMIT keeps only some of the rows", Origin("query", 2, 19))
    assert (found.table, found.query, found.inputs[0].rules) == (None, None, ())


def test_tables_that_are_not_there_yet_are_no_reason_against_it(project: tidemill.Project):
    """What its query alone shows is one."""
    found = project.explain("some")[0]
    assert (found.next_run, found.query) == (NextRun.FIRST, None)
    assert found.prevented is not None
    assert found.prevented.reason == "LIMIT keeps only some of the rows"
    assert (found.inputs[0].version, found.inputs[0].pending, found.inputs[0].refusal) == (None, True, None)
    with pytest.raises(ArgumentError, match=r"explain.not_made.*--select \+paid"):
        project.explain_query("SELECT order_id FROM paid")


def test_wrong_names_and_wrong_queries_are_errors_of_ours(project: tidemill.Project):
    with pytest.raises(ArgumentError, match=r"table.unknown.*Did you mean daily"):
        project.explain("dialy")
    with pytest.raises(ArgumentError, match=r"query.syntax") as failure:
        project.explain_query("SELECT FROM WHERE")
    assert str(failure.value.origin) == "query:1:13"
    with pytest.raises(ArgumentError, match=r"query.not_one"):
        project.explain_query("DROP TABLE orders")
