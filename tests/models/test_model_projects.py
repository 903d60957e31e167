"""Models and pipelines fill one graph, and the commands that need no Spark show it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner
from pace import second

from tidemill.api.workspace import Workspace
from tidemill.cli.main import tidemill
from tidemill.errors import ArgumentError
from tidemill.execution import Silent
from tidemill.model.query import View

MERGE = """{"materialization": "incremental",
            "kept_rows": "intended",
            "incremental": {"strategy": "merge", "merge": {"unique_key": "id", "time_column": "updated_at"}}}"""


@pytest.fixture
def shop(load, query):
    """A source, a table of it, a view of that, and a pipeline that goes on with the view."""
    return load(
        {
            "orders_active.sql": query,
            "orders_active.py": f"metadata = {MERGE}\n",
            "open_orders.sql": '-- metadata: {"materialization": "view"}\nSELECT * FROM my_schema.Orders_Active\n',
            "pipelines/shop.sql": "CREATE TABLE daily AS SELECT count(*) AS n FROM my_schema.open_orders;\n"
            'EXPORT my_schema.orders_active TO "out/orders" TYPE CSV;\n',
        }
    )


def cli(*args: str):
    return CliRunner().invoke(tidemill, list(args))


def test_models_and_pipelines_fill_one_graph(shop):
    assert [node.name for node in shop.graph.in_order()] == [
        "my_schema.orders_active",
        "my_schema.open_orders",
        "main.daily",
        "out/orders",
    ]
    assert [view.name for view in shop.views] == ["my_schema.open_orders"]
    assert [table.name for table in shop.tables] == ["my_schema.orders_active", "main.daily"]


@pytest.mark.usefixtures("shop")
def test_list_and_validate_show_models():
    assert cli("list").stdout == (
        "  name                     strategy        reads                    declared in\n"
        "  my_schema.orders_active  merge upsert    t_project.source_table   models/my_schema/orders_active.sql:1:1\n"
        "  my_schema.open_orders    view            my_schema.orders_active  models/my_schema/open_orders.sql:2:1\n"
        "  daily                    replace         my_schema.open_orders    pipelines/shop.sql:1:1\n"
        "  out/orders               export replace  my_schema.orders_active  pipelines/shop.sql:2:1\n"
    )
    assert cli("validate").stdout.endswith("data/source.\n  ! no errors · 1 notice · 2 tables · 1 view · 1 export\n")
    found = json.loads(cli("validate", "--format", "json").stdout)
    assert (found["tables"], found["views"], found["exports"]) == (2, 1, 1)


def test_a_name_in_a_pipeline_and_in_a_model_is_an_error_with_both_places(errors, query):
    files = {"orders.sql": query, "pipelines/shop.sql": "\nCREATE TABLE my_schema.Orders AS SELECT 1 AS id;"}
    (found,) = errors(files)
    assert found == (
        "error[plan.duplicate_name] my_schema.orders is declared twice.\n"
        "  models/my_schema/orders.sql:1:1\n"
        "  The first is at pipelines/shop.sql:2:1. Rename one of them, or remove it."
    )


def test_a_model_that_differs_in_case_only_is_the_same_name(errors, query):
    (found,) = errors({"orders.sql": query, "Orders.sql": query})
    assert "The first is at models/my_schema/Orders.sql:1:1." in found


def test_models_that_read_each_other_are_an_error_that_prints_the_circle(errors):
    circle = {"a.sql": "b", "b.sql": "c", "c.sql": "a"}
    (found,) = errors({name: f"SELECT * FROM my_schema.{reads}" for name, reads in circle.items()})
    assert found == (
        "error[plan.cycle] Tables read each other in a circle: my_schema.a → my_schema.b → my_schema.c → my_schema.a.\n"
        "  models/my_schema/a.sql:1:1\n"
        "  Break it: one of them has to be made without the others."
    )


class Meeting(Silent):
    """Lets the steps of two models go on when both have begun."""

    def __init__(self, *names: str) -> None:
        self.names, self.both = names, threading.Barrier(2)

    def began(self, name: str) -> None:
        if name in self.names:
            self.both.wait(timeout=20)


def test_models_that_do_not_read_each_other_run_at_the_same_time_and_others_wait(load, query):
    shop = load({"a.sql": query, "b.sql": query, "c.sql": "SELECT * FROM my_schema.a"})
    runner = shop.engine().runner()
    runner.listener = Meeting("my_schema.a", "my_schema.b")
    outcomes = runner.run().outcomes  # there is no data, so that no step comes to ask for Spark
    assert [(each.name, each.waits_for) for each in outcomes] == [
        ("my_schema.a", None),
        ("my_schema.b", None),
        ("my_schema.c", "my_schema.a"),
    ]
    assert {each.error.code for each in outcomes if each.error} == {"source.missing"}


def test_a_table_that_nobody_knows_is_an_error_at_the_model(errors):
    (found,) = errors({"a.sql": "SELECT * FROM my_schema.bb", "b.sql": "SELECT 1 AS id"})
    assert found == (
        "error[plan.unknown_table] my_schema.a reads my_schema.bb, which nothing declares and the warehouse does not "
        "hold.\n  models/my_schema/a.sql:1:1\n  Did you mean my_schema.b? Declare it, or name outside data in "
        'tidemill.toml under [sources."my_schema.bb"].'
    )


def test_a_table_that_a_check_looks_at_comes_first(load):
    check = '{"checks": [{"relationships": {"column": "customer_id", "to": "my_schema.customers", "field": "id"}}]}'
    shop = load(
        {
            "a_orders.sql": "SELECT 1 AS customer_id",
            "a_orders.py": f"metadata = {check}",
            "customers.sql": "SELECT 1 AS id, 1 AS parent",
            "customers.py": "metadata = {'checks': [{'relationships': {"
            "'column': 'parent', 'to': 'my_schema.customers', 'field': 'id'}}]}",
        }
    )
    assert [table.name for table in shop.tables] == ["my_schema.customers", "my_schema.a_orders"]
    assert [table.inputs for table in shop.tables] == [(), ("my_schema.customers",)]


def test_a_pipeline_file_is_all_that_counts_when_it_is_named(shop):
    del shop
    with pytest.raises(ArgumentError) as failure:
        Workspace.load("pipelines/shop.sql")
    assert "error[language.unknown_table] no table is called my_schema.orders_active" in str(failure.value)


def test_a_model_alone_is_not_treated_as_a_pipeline(shop):
    del shop
    with pytest.raises(ArgumentError) as failure:
        Workspace.load("models/my_schema/orders_active.sql")
    assert str(failure.value) == (
        "[target.is_model] models/my_schema/orders_active.sql is a model of a project, and not a pipeline by itself. "
        "Name the project's folder, and the model with -s my_schema.orders_active."
    )


def test_errors_name_files_as_a_user_here_would(shop, folder, monkeypatch):
    del shop
    monkeypatch.chdir(folder / "models")
    view = Workspace.load(".").graph.nodes["my_schema.open_orders"]
    assert isinstance(view, View)
    assert str(view.origin) == "my_schema/open_orders.sql:2:1"


@pytest.mark.usefixtures("shop")
def test_a_project_is_named_by_its_folder_and_its_models_are_chosen(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    planned = cli("plan", f"./{folder.name}", "-s", "my_schema.*", "-e", "my_schema.open_orders")
    assert planned.stdout.splitlines()[1:] == ["  my_schema.orders_active  merge upsert on id  first run"]
    assert cli("validate", folder.name).stdout.endswith("  ! no errors · 1 notice · 2 tables · 1 view · 1 export\n")


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("command", ["validate", "list"])
def test_no_spark_is_imported_and_it_takes_less_than_a_second_of_work(command: str):
    code = (
        "import resource, sys; from tidemill.cli.main import tidemill\n"
        f"try: tidemill.main(['{command}'])\n"
        "finally:\n"
        "    used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "    found = sorted({'pyspark', 'py4j', 'pandas', 'rich'} & set(sys.modules))\n"
        f"    print(used.ru_utime + used.ru_stime < {second()}, found, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "True []\n"


def test_the_example_has_a_model_for_each_strategy_and_nothing_wrong():
    example = Path(__file__).parents[2] / "examples" / "models"
    shop = Workspace.load(example)
    assert {table.name: str(table.strategy) for table in shop.tables} == {
        "my_schema.orders_now": "merge upsert",
        "my_schema.orders_placed": "append",
        "my_schema.orders_reloaded": "delete_insert",
        "my_schema.report": "replace",
    }
    assert [view.name for view in shop.views] == ["my_schema.big_orders"]
    orders = (example / "data/source/orders.csv").read_text().splitlines()
    assert sum(",true," in order for order in orders) == 256
