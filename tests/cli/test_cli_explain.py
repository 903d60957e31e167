"""`tidemill explain`: how tables are brought up to date, by which rules, and what prevents it; without Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest
from terminal import on_terminal

from tidemill.api.workspace import Workspace
from tidemill.formats.registry import log_at

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PIPELINE = """
CREATE MATERIALIZED VIEW revenue OPTIONS {"refresh": "incremental"} AS
SELECT o.order_id, sum(l.price) AS price, count(*) AS lines
FROM orders AS o JOIN lines AS l ON o.order_id = l.order_id
WHERE o.amount <= (SELECT max(amount) AS amount FROM limits)
GROUP BY o.order_id;
CREATE MATERIALIZED VIEW largest AS
SELECT order_id, amount
FROM orders ORDER BY amount DESC LIMIT 10;
CREATE MATERIALIZED VIEW by_customer AS SELECT customer_id, count(*) AS orders FROM paid GROUP BY customer_id;
CREATE TABLE daily AS SELECT order_id FROM orders;
"""
PAID = '-- metadata: {"materialization": "view"}\nSELECT * FROM main.orders WHERE amount > 0'
ORDERS = pa.table({"order_id": [1, 2, 3], "customer_id": [7, 7, 8], "amount": [10, 20, 30]})
LINES = pa.table({"order_id": [1, 1, 2, 3], "price": [5, 5, 20, 30]})
CUSTOMERS = pa.table({"customer_id": [7, 8]})
LIMITS = pa.table({"amount": [100]})
FED = {"delta.enableChangeDataFeed": "true"}
WIDTHS = (80, 120)
DRIVERS = "finally: print(sorted({'pyspark', 'py4j', 'pandas', 'rich'} & set(sys.modules)), file=sys.stderr)"


def write(folder: Path, name: str, rows: pa.Table, **how: Any) -> None:
    """A table of the warehouse that somebody else maintains."""
    deltalake.write_deltalake(folder / "warehouse" / "main" / name, rows, **how)


@pytest.fixture
def shop(folder: Path) -> Path:
    """A project over three tables, of which one has a change data feed."""
    (folder / "tidemill.toml").write_text('name = "shop"\n')
    (folder / "pipelines").mkdir()
    (folder / "pipelines" / "shop.sql").write_text(PIPELINE)
    (folder / "models" / "main").mkdir(parents=True)
    (folder / "models" / "main" / "paid.sql").write_text(PAID)
    write(folder, "orders", ORDERS)
    write(folder, "lines", LINES, configuration=FED)
    write(folder, "customers", CUSTOMERS)
    write(folder, "limits", LIMITS)
    return folder


@pytest.fixture
def refreshed(shop: Path, make_table: Callable[..., Path]) -> Callable[[str], None]:
    """Lets a view be as a run has left it that read its inputs as they are."""

    def refresh(name: str, rows: pa.Table = ORDERS) -> None:
        workspace = Workspace.load(shop)
        table = next(each for each in workspace.tables if each.name == f"main.{name}")
        views = {each: view.sql_hash for each, view in workspace.all_views.items() if each in table.inputs}
        read = ("orders",) if views else [each.removeprefix("main.") for each in table.inputs]
        contents = {f"main.{each}": log_at(str(shop / "warehouse" / "main" / each)).snapshot().content for each in read}
        versions = {table.input: json.dumps({**contents, **views}, sort_keys=True)}
        hashes = {"sql_hash": table.sql_hash, "config_hash": table.config_hash, "input_versions": versions}
        make_table(table.name, rows, strategy="materialized_view", **hashes)

    return refresh


@pytest.fixture
def explained(cli) -> Callable[..., dict[str, Any]]:
    """What JSON has of one table, or of a query."""

    def found(*args: str) -> dict[str, Any]:
        told = cli("explain", *args, "--format", "json")
        assert told.exit_code == 0, told.output
        document: dict[str, Any] = json.loads(told.stdout)
        return document["tables"][0] if "tables" in document else document

    return found


def append_orders(folder: Path) -> None:
    write(folder, "orders", ORDERS.slice(0, 2), mode="append")


REVENUE = {
    80: """\
  revenue  materialized_view · refresh = incremental · pipelines/shop.sql:2:1
  next run  incremental: at most 2 changed rows of orders · by order_id
  rule      local: the query falls into independent pieces by order_id
  input   recorded  now  changes                      if it changes
  orders         0    1  at most 2 added, 0 removed   local by order_id
                         · by file actions
  lines          0    0  none · by change data feed   local by order_id
  limits         0    0  none · by file actions       full refresh: groups need
                                                      more than their changed
                                                      rows ·
                                                      pipelines/shop.sql:6:10
  query
  aggregate       by order_id
  ├─ ■ orders
  ├─ ■ lines
  └─ aggregate    in one row
     └─ ■ limits
""",
    120: """\
  revenue  materialized_view · refresh = incremental · pipelines/shop.sql:2:1
  next run  incremental: at most 2 changed rows of orders · by order_id
  rule      local: the query falls into independent pieces by order_id
  input   recorded  now  changes                                       if it changes
  orders         0    1  at most 2 added, 0 removed · by file actions  local by order_id
  lines          0    0  none · by change data feed                    local by order_id
  limits         0    0  none · by file actions                        full refresh: groups need more than their changed
                                                                       rows · pipelines/shop.sql:6:10
  query
  aggregate       by order_id
  ├─ ■ orders
  ├─ ■ lines
  └─ aggregate    in one row
     └─ ■ limits
""",
}


@pytest.mark.parametrize("columns", WIDTHS)
def test_a_view_is_explained_with_its_inputs_and_the_blocks_of_its_query(shop: Path, refreshed, columns: int):
    refreshed("revenue")
    append_orders(shop)
    seen = on_terminal(shop, "explain", "revenue", columns=columns)
    assert (seen.code, seen.text) == (0, REVENUE[columns])


LARGEST = {
    80: """\
  largest  materialized_view · refresh = auto · pipelines/shop.sql:7:1
  next run  full refresh: LIMIT keeps only some of the rows ·
            pipelines/shop.sql:9:40
  input   recorded  now  changes
  orders         0    1  at most 2 added, 0 removed · by file actions

  daily  replace · pipelines/shop.sql:11:1
  next run  first run
""",
    120: """\
  largest  materialized_view · refresh = auto · pipelines/shop.sql:7:1
  next run  full refresh: LIMIT keeps only some of the rows · pipelines/shop.sql:9:40
  input   recorded  now  changes
  orders         0    1  at most 2 added, 0 removed · by file actions

  daily  replace · pipelines/shop.sql:11:1
  next run  first run
""",
}


@pytest.mark.parametrize("columns", WIDTHS)
def test_what_prevents_it_is_a_sentence_with_its_place(shop: Path, refreshed, columns: int):
    refreshed("largest")
    append_orders(shop)
    seen = on_terminal(shop, "explain", "largest", "daily", columns=columns)
    assert (seen.code, seen.text) == (0, LARGEST[columns])


QUERY = """\
  refresh   incremental
  input      now  changes          if it changes
  customers    0  by file actions  linear
  orders       0  by file actions  local by customer_id
  query
  join            customer_id = customer_id
  ├─ ■ customers
  └─ ■ orders
"""
MEDIAN = "SELECT median(amount) AS amount FROM orders"
ASKED = "SELECT c.customer_id, o.amount FROM customers AS c LEFT JOIN orders AS o ON o.customer_id = c.customer_id"


@pytest.mark.parametrize("columns", WIDTHS)
def test_a_query_that_is_in_no_file_is_explained(shop: Path, columns: int):
    seen = on_terminal(shop, "explain", "--query", ASKED, columns=columns)
    assert (seen.code, seen.text) == (0, QUERY)


def test_json_has_the_same_facts(shop: Path, refreshed, explained):
    refreshed("revenue")
    append_orders(shop)
    found = explained("revenue")
    assert {name: found[name] for name in found if name not in {"inputs", "query"}} == {
        "table": "revenue",
        "strategy": "materialized_view",
        "origin": "pipelines/shop.sql:2:1",
        "next_run": "incremental",
        "reason": "incremental: at most 2 changed rows of orders · by order_id",
        "refresh": "incremental",
        "rule": LOCAL,
        "prevented": None,
        "notices": [],
    }
    orders, lines, limits = found["inputs"]
    assert orders == {
        "table": "orders",
        "recorded": 0,
        "version": 1,
        "rows": None,
        "size": orders["size"],
        "changed": True,
        "pending": False,
        "added": 2,
        "removed": 0,
        "read_by": "file actions",
        "refusal": None,
        "rules": [LOCAL, GROUPED],
        "prevented": None,
    }
    assert orders["size"] > 0
    assert (lines["changed"], lines["read_by"]) == (False, "change data feed")
    assert limits["rules"] == []
    assert limits["prevented"] == {
        "reason": "groups need more than their changed rows",
        "origin": "pipelines/shop.sql:6:10",
    }
    assert found["query"] == {
        "kind": "aggregate",
        "text": "by order_id",
        "tables": ["orders", "lines"],
        "children": [{"kind": "aggregate", "text": "in one row", "tables": ["limits"], "children": []}],
    }


LOCAL = {
    "name": "local",
    "key": "order_id",
    "columns": ["order_id"],
    "why": "the query falls into independent pieces by order_id",
}


GROUPED = {
    "name": "grouped",
    "key": "order_id",
    "columns": ["order_id"],
    "why": "only groups of order_id with changed rows are computed again",
}


def test_how_the_next_run_goes_is_one_word_for_programs(shop: Path, refreshed, explained):
    assert explained("revenue")["next_run"] == "first run"
    refreshed("revenue")
    assert explained("revenue")["next_run"] == "up to date"
    append_orders(shop)
    assert explained("revenue")["next_run"] == "incremental"
    write(shop, "limits", LIMITS, mode="append")
    assert explained("revenue")["next_run"] == "fails"
    refreshed("by_customer")
    append_orders(shop)
    assert explained("by_customer")["next_run"] == "full"
    assert explained("paid")["next_run"] is None


def test_a_run_that_its_declaration_does_not_allow_is_foreseen(shop: Path, refreshed, cli):
    refreshed("revenue")
    write(shop, "limits", LIMITS, mode="append")
    why = "groups need more than their changed rows, and refresh = incremental allows no full refresh"
    assert cli("explain", "revenue").stdout.splitlines()[1] == (f"  next run  fails: {why} · pipelines/shop.sql:6:10")
    assert f"  revenue      materialized_view  fails: {why} · pipelines/shop.sql:6:10\n" in cli("plan").stdout


def test_what_will_prevent_later_runs_is_said_before(shop: Path, refreshed, cli):
    said = "  later     full refresh: LIMIT keeps only some of the rows · pipelines/shop.sql:9:40"
    assert cli("explain", "largest").stdout.splitlines()[1:3] == ["  next run  first run", said]
    refreshed("largest")
    now = "  next run  up to date: its inputs are unchanged"
    assert cli("explain", "largest").stdout.splitlines()[1:3] == [now, said]
    append_orders(shop)
    assert "later" not in cli("explain", "largest").stdout


def test_that_all_later_runs_will_fail_is_said_before_the_first(shop: Path, cli):
    pipeline = shop / "pipelines" / "shop.sql"
    pipeline.write_text(
        'CREATE MATERIALIZED VIEW first OPTIONS {"refresh": "incremental"} AS\nSELECT order_id FROM paid LIMIT 3;\n'
        'CREATE MATERIALIZED VIEW kept OPTIONS {"refresh": "incremental", "reset_allowed": false} AS\n'
        "SELECT order_id FROM paid;\n"
        'CREATE MATERIALIZED VIEW fine OPTIONS {"refresh": "incremental"} AS SELECT order_id FROM paid;\n'
    )
    fails, again = "runs after the first one will fail", "change the query, or leave refresh = incremental out"
    kept = "its history is protected (reset_allowed = false), which only a whole result can keep"
    notices = [
        f"first: {fails}: LIMIT keeps only some of the rows · pipelines/shop.sql:2:33; {again}",
        f"kept: {fails}: {kept} · pipelines/shop.sql:3:1; {again}",
    ]
    assert json.loads(cli("validate", "--format", "json").stdout)["notices"] == notices
    assert [line for line in cli("plan").stdout.splitlines() if "notice" in line] == [f"  notice  {n}" for n in notices]
    said = "  later     fails: LIMIT keeps only some of the rows · pipelines/shop.sql:2:33"
    assert cli("explain", "first").stdout.splitlines()[2] == said


def test_changes_that_cannot_be_read_are_a_full_refresh_with_the_reason(shop: Path, refreshed, cli, explained):
    refreshed("by_customer")
    gone = next((shop / "warehouse/main/orders").glob("*.parquet"))
    write(shop, "orders", ORDERS.slice(1), mode="overwrite")
    gone.unlink()
    why = "version 0 is no longer there (kept for 7 days); set delta.deletedFileRetentionDuration, or run more often"
    told = cli("explain", "by_customer").stdout
    assert f"  next run  full refresh: main.orders: {why}\n" in told
    assert f"cannot be read: {why}" in told
    found = explained("by_customer")
    assert (found["inputs"][0]["refusal"], found["inputs"][0]["read_by"]) == (why, None)
    assert found["prevented"] == {"reason": f"main.orders: {why}", "origin": None}


def test_small_inputs_are_read_whole_and_the_plan_says_so(shop: Path, refreshed, cli):
    refreshed("by_customer")
    append_orders(shop)
    told = cli("plan").stdout
    assert "  by_customer  materialized_view  full refresh: its inputs are small (" in told
    assert "), so that reading them whole is faster\n" in told


def test_views_are_explained_as_the_queries_that_they_are(refreshed, explained):
    refreshed("by_customer")
    found = explained("by_customer")
    assert [each["table"] for each in found["inputs"]] == ["orders"]
    assert {rule["key"] for rule in found["inputs"][0]["rules"]} == {"customer_id"}
    assert found["query"]["children"] == [
        {"kind": "select", "text": "amount > 0", "tables": ["orders"], "children": []}
    ]


def test_inputs_that_the_same_run_changes_are_pending(shop: Path, make_table, explained, cli):
    """What they will have to say is not known yet; the rule is."""
    (shop / "data").mkdir()
    (shop / "data" / "stock.csv").write_text("item,count\n1,5\n")
    (shop / "pipelines" / "stock.sql").write_text(STOCK)
    stock = pa.table({"item": [1], "count": [5]})
    make_table("main.stock", stock, strategy="merge upsert on item", keys=("item",))
    workspace = Workspace.load(shop)
    table = next(each for each in workspace.tables if each.name == "main.items")
    content = log_at(str(shop / "warehouse/main/stock")).snapshot().content
    versions = {table.input: json.dumps({"main.stock": content})}
    hashes = {"sql_hash": table.sql_hash, "config_hash": table.config_hash, "input_versions": versions}
    make_table("main.items", stock, strategy="materialized_view", **hashes)
    found = explained("items")
    assert (found["next_run"], found["reason"]) == (
        "incremental",
        "incremental: what this run changes in stock · linear",
    )
    assert (found["inputs"][0]["pending"], found["inputs"][0]["added"]) == (True, None)
    assert "updated by this run · by file actions" in cli("explain", "items").stdout


STOCK = """
SOURCE stock_csv TYPE CSV PARAMS { "path": "data/stock.csv" };
LOAD stock FROM stock_csv MODE MERGE ON item;
CREATE MATERIALIZED VIEW items OPTIONS {"refresh": "incremental"} AS SELECT item, count FROM stock;
"""


@pytest.mark.usefixtures("shop")
def test_all_tables_are_explained_where_none_is_named(cli, explained):
    told = cli("explain", "--format", "json").stdout
    names = ["revenue", "largest", "paid", "by_customer", "daily"]
    assert [each["table"] for each in json.loads(told)["tables"]] == names
    assert (explained("daily")["next_run"], explained("daily")["inputs"]) == ("first run", [])
    assert cli("explain", "--quiet").output == ""


def test_a_query_that_cannot_follow_its_inputs_says_why_at_its_place(cli, explained, shop: Path):
    del shop
    asked = "SELECT order_id\nFROM orders\nWHERE day >= current_date()"
    assert cli("explain", "--query", asked).stdout.splitlines()[0] == (
        "  refresh   full refresh: current_date differs from run to run · query:3:14"
    )
    found = explained("--query", MEDIAN)
    assert (found["table"], found["prevented"], found["next_run"]) == (None, None, None)
    assert found["inputs"][0]["prevented"]["origin"] == "query:1:8"
    assert "refresh   full refresh, whichever input changes" in cli("explain", "--query", MEDIAN).stdout


@pytest.mark.usefixtures("shop")
def test_a_query_that_cannot_be_parsed_is_shown_with_its_place(cli):
    result = cli("explain", "--query", "SELECT order_id\nFROM orders WHERE (amount > 5")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "error[query.syntax] The query cannot be parsed: ) is missing before 5.\n"
        "  query:2:29\n"
        "    2 │ FROM orders WHERE (amount > 5\n"
        "      │                             ^ correct the query\n"
    )


@pytest.mark.usefixtures("shop")
def test_a_column_that_no_table_has_is_an_error_at_its_place(cli):
    result = cli("explain", "--query", "SELECT o.order_id\nFROM orders o JOIN lines l ON l.order_id = o.ordr_id")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "error[query.unknown_column] No table of the query has a column ordr_id.\n"
        "  query:2:46\n"
        "    2 │ FROM orders o JOIN lines l ON l.order_id = o.ordr_id\n"
        "      │                                              ^^^^^^^ did you mean order_id?\n"
    )


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("asked", ["DROP TABLE orders", "SELECT 1; SELECT 2", "INSERT INTO orders SELECT 1"])
def test_what_is_not_one_select_is_an_error(cli, asked: str):
    result = cli("explain", "--query", asked)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "error[query.not_one] This is not one SELECT.\n  Give the query that a table would have.\n"
    )


@pytest.mark.usefixtures("shop")
def test_a_wrong_name_is_an_error_with_the_one_that_was_meant(cli):
    result = cli("explain", "revenu")
    assert (result.exit_code, result.stderr) == (
        2,
        "error[table.unknown] No table revenu is declared.\n  Did you mean revenue?\n",
    )
    result = cli("explain", "--query", "SELECT * FROM dialy")
    assert (result.exit_code, result.stderr) == (
        2,
        "error[table.unknown] No table dialy is declared.\n  Did you mean daily?\n",
    )
    result = cli("explain", "daily", "--query", "SELECT 1")
    assert (result.exit_code, result.stderr) == (
        2,
        "error[explain.two] Tables and --query are both given.\n  Ask for one of them.\n",
    )


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("asked", [["revenue"], ["--query", "SELECT order_id FROM orders"]])
def test_it_imports_no_spark(folder: Path, asked: list[str]):
    script = f"import sys; from tidemill.cli.main import tidemill\ntry: tidemill.main(['explain', *{asked}])\n{DRIVERS}"
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout
    assert done.stderr == "[]\n"
