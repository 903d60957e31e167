"""Views: a query by a name, made when it is read, with a record; and tables that become views, and back."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from tidemill import Record
from tidemill.api.planning import catalog_of
from tidemill.api.workspace import Workspace
from tidemill.cli import Live, render
from tidemill.cli.main import tidemill
from tidemill.cli.run import Shown, run_data
from tidemill.declarations import RowCount
from tidemill.errors import ArgumentError, StateError
from tidemill.execution import Outcome, RunOutcome, StepKind, StepResult
from tidemill.execution.journal import log_run
from tidemill.execution.views import run_view
from tidemill.formats.delta.log import APP_ID
from tidemill.formats.registry import forget_view, keep_view, view_record
from tidemill.ledger import Run
from tidemill.model import FileErrors
from tidemill.model.record import Counts
from tidemill.results import Checked, Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemill.model.query import View

NOW = datetime(2024, 6, 1, 12, tzinfo=UTC)
AT = "2024-06-01T12:00:00.000Z"
VIEW = '-- metadata: {"materialization": "view"}\n'
ORDERS = "SELECT id, status, amount FROM t_project.source_table\n"
MODELS = {
    "orders.sql": ORDERS,
    "open_orders.sql": f"{VIEW}SELECT id, amount FROM my_schema.orders WHERE status = 'open'\n",
    "pricey.sql": f"{VIEW}SELECT * FROM my_schema.Open_Orders WHERE amount > 10\n",
    "report.sql": "SELECT count(*) AS n, sum(amount) AS amount FROM my_schema.pricey\n",
}


@pytest.fixture
def shop(load) -> Workspace:
    """A table of a source, a view of it, a view of that, and a table of that; nothing is run."""
    return load(MODELS)


def cli(*args: str):
    return CliRunner().invoke(tidemill, list(args))


def view(workspace: Workspace, name: str = "open_orders") -> View:
    found = workspace.view(f"my_schema.{name}")
    assert found is not None
    return found


def version(workspace: Workspace, name: str) -> str | None:
    """What a record says of a table or view that was read."""
    return catalog_of(workspace).version(f"my_schema.{name}")


def commit(name: str, mode: str = "error", **more: Any) -> Path:
    """A table of the warehouse with two rows more, as a run commits them."""
    path = Path("warehouse/my_schema") / name
    record = Record("run", f"my_schema.{name}", 1, "replace", AT, rows=2, remainder="inserted", held=0, **more)
    deltalake.write_deltalake(
        path,
        pa.table({"id": [1, 2], "status": ["open", "open"], "amount": [5, 50]}),
        mode=mode,
        commit_properties=deltalake.CommitProperties(
            {"userMetadata": record.to_json()}, app_transactions=[deltalake.Transaction(APP_ID, 1)]
        ),
    )
    return path


def has_property(table: Path, name: str, value: str) -> None:
    """Written by hand, because deltalake does not write properties that it does not know."""
    log = table / "_delta_log" / f"{0:020d}.json"
    log.write_text(log.read_text().replace('"configuration":{}', f'"configuration":{{"{name}":"{value}"}}'))


def was_run(each: View, **versions: str) -> None:
    """Leaves what a run of the view leaves."""
    record = Record(
        *("run", each.name, 1, "view", AT),
        sql_hash=each.sql_hash,
        config_hash=each.config_hash,
        input_versions={f"my_schema.{name}": version for name, version in versions.items()},
        columns=("id", "amount"),
    )
    keep_view(each.path, record)


def no_spark() -> SparkSession:
    pytest.fail("Spark was asked for")


# what is below a view


def test_a_version_looks_through_views_to_tables_and_queries(shop, load):
    assert version(shop, "pricey") is None
    commit("orders")
    before = version(shop, "pricey")
    assert before is not None
    assert version(shop, "pricey") == before
    commit("orders", "append")
    appended = version(shop, "pricey")
    other = load({"open_orders.sql": MODELS["open_orders.sql"].replace("open'", "late'")})
    assert len({before, appended, version(other, "pricey"), version(other, "open_orders")}) == 4


@pytest.mark.parametrize("what", ["WHERE day >= current_date()", "AS a, current_timestamp() AS seen FROM my_schema.a"])
def test_what_reads_a_view_over_the_clock_is_never_known_to_be_unchanged(load, what):
    query = f"SELECT * FROM my_schema.orders {what}" if what.startswith("WHERE") else f"SELECT 1 {what}"
    workspace = load({**MODELS, "a.sql": "SELECT 1 AS one", "open_orders.sql": f"{VIEW}{query}\n"})
    commit("orders")
    commit("a")
    assert version(workspace, "orders") is not None
    assert version(workspace, "open_orders") is version(workspace, "pricey") is None


def test_a_view_of_constants_is_what_its_query_is(load):
    workspace = load({"one.sql": f"{VIEW}SELECT 1 AS one"})
    assert version(workspace, "one") == version(workspace, "one") is not None


def test_a_table_waits_for_what_it_reads_through_a_view_that_is_not_selected(shop):
    chosen = shop.choose(["my_schema.report", "my_schema.orders"])
    assert [node.name for node in chosen.graph.in_order()] == ["my_schema.orders", "my_schema.report"]
    assert chosen.graph.upstream("my_schema.report") == ("my_schema.orders",)
    assert chosen.graph.downstream("my_schema.orders") == ("my_schema.report",)


def test_a_view_need_not_be_selected_but_what_it_reads_has_to_be_there(shop):
    for name in ("report", "open_orders"):
        with pytest.raises(ArgumentError) as failure:
            shop.choose([f"my_schema.{name}"])
        assert str(failure.value) == (
            f"[plan.not_made] my_schema.{name} reads my_schema.orders, which is not selected and has not been made "
            f"yet. Select what it reads too: --select +my_schema.{name}"
        )
    commit("orders")
    assert [node.name for node in shop.choose(["my_schema.report"]).graph.in_order()] == ["my_schema.report"]


# records


def test_a_record_is_kept_whole_and_may_be_taken_away(shop):
    each = view(shop)
    forget_view(each.path)
    assert view_record(each.path) is None
    was_run(each, orders="id@0")
    file = Path("warehouse/my_schema/_open_orders.view.json")
    assert json.loads(file.read_text())["tidemill"] == {
        "run_id": "run",
        "table": "my_schema.open_orders",
        "sequence": 1,
        "strategy": "view",
        "at": AT,
        "rows": 0,
        "remainder": "unchanged",
        "unique": False,
        "sql_hash": each.sql_hash,
        "columns": ["id", "amount"],
        "input_versions": {"my_schema.orders": "id@0"},
        "format": 1,
    }
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    for damaged in (file.read_text()[:40], '{"tidemill":{}}', "\N{GREEK SMALL LETTER ALPHA}"):
        file.write_text(damaged, encoding="utf-16")
        assert view_record(each.path) is None
        file.write_text(damaged, encoding="utf-8")
        assert view_record(each.path) is None
    forget_view(each.path)
    assert not file.exists()


def test_a_record_that_cannot_be_written_is_an_error(shop):
    Path("warehouse").write_text("not a folder")
    with pytest.raises(StateError, match=r"The record of my_schema\.open_orders cannot be written to ") as failure:
        was_run(view(shop))
    assert failure.value.code == "view.no_record"
    assert failure.value.remedy == "Make its folder one that can be written to, and run again."


def test_a_view_is_up_to_date_without_spark_while_query_and_inputs_are_what_they_were(shop, load):
    commit("orders")
    catalog = catalog_of(shop)
    was_run(view(shop), orders=catalog.version("my_schema.orders"))
    assert run_view(no_spark, view(shop), catalog, NOW) == viewed("open_orders", "up to date", "id", "amount")
    other = load({"open_orders.sql": MODELS["open_orders.sql"].replace("open'", "late'")})
    with pytest.raises(pytest.fail.Exception, match="Spark was asked for"):
        run_view(no_spark, view(other), catalog, NOW)
    commit("orders", "append")
    with pytest.raises(pytest.fail.Exception, match="Spark was asked for"):
        run_view(no_spark, view(shop), catalog, NOW)


def checked(condition: str) -> str:
    metadata = VIEW.replace("}", f', "checks": ["{condition}"]}}')
    return f"{metadata}SELECT id, amount FROM my_schema.orders\n"


def test_checks_of_a_view_are_run_again_when_they_change_wherever_they_stand(load):
    first = load({**MODELS, "open_orders.sql": checked("amount > 0")})
    assert view(first).config_hash is not None
    commit("orders")
    catalog = catalog_of(first)
    was_run(view(first), orders=catalog.version("my_schema.orders"))
    moved = load({"open_orders.sql": f"\n{checked('amount > 0')}"})
    assert run_view(no_spark, view(moved), catalog, NOW).status == "up to date"
    assert moved.plan()[1].reason == "its checks are run when what it reads has changed"
    other = load({"open_orders.sql": checked("amount > 1")})
    with pytest.raises(pytest.fail.Exception, match="Spark was asked for"):
        run_view(no_spark, view(other), catalog, NOW)
    assert other.plan()[1].reason == "its checks changed, and are run"


# what commands show


@pytest.mark.usefixtures("shop")
def test_a_plan_says_when_the_query_of_a_view_is_checked():
    workspace = Workspace.load()
    assert cli("plan").stdout == (
        "  table                  strategy  reads\n"
        "  my_schema.orders       replace   first run\n"
        "  my_schema.open_orders  view      first run\n"
        "  my_schema.pricey       view      first run\n"
        "  my_schema.report       replace   first run\n"
    )
    was_run(view(workspace))
    keep_view(view(workspace, "pricey").path, Record("run", "my_schema.pricey", 1, "view", AT, sql_hash="another"))
    planned = json.loads(cli("plan", "--format", "json").stdout)["steps"]
    assert {tuple(step) for step in planned} == {("table", "strategy", "reason", "notices")}
    assert [step["reason"] for step in planned[1:3]] == [
        "its query is checked when what it reads has changed",
        "its query changed, and is checked",
    ]


def test_a_plan_looks_through_views_for_what_a_run_would_change(load):
    source((1, "open", 5))
    models = {"seen.sql": f"{VIEW}SELECT id FROM t_project.source_table", "ids.sql": "SELECT id FROM my_schema.seen"}
    workspace = load({**MODELS, **models})
    commit("orders")
    for name, reads in (("ids", "seen"), ("report", "pricey")):
        table = workspace.graph.nodes[f"my_schema.{name}"]
        versions = {"query": json.dumps({f"my_schema.{reads}": version(workspace, reads)})}
        commit(name, sql_hash=table.sql_hash, config_hash=table.config_hash, input_versions=versions)
    seen = view(workspace, "seen")
    source_version = catalog_of(workspace).version("t_project.source_table")
    versions = {"t_project.source_table": source_version}
    keep_view(seen.path, Record("run", seen.name, 1, "view", AT, sql_hash=seen.sql_hash, input_versions=versions))
    was_run(view(workspace), orders=version(workspace, "orders"))
    idle = [step.table for step in workspace.plan() if step.reason == "up to date: its inputs are unchanged"]
    assert idle == ["my_schema.seen", "my_schema.ids"]  # orders will run, and the rest may find other rows then


def test_state_and_status_know_views(shop):
    each = view(shop)
    assert cli("state", "my_schema.open_orders").stdout.split()[-5:] == ["view", "view", "not", "run", "yet"]
    was_run(each)
    (found,) = json.loads(cli("state", "my_schema.open_orders", "--format", "json").stdout)["tables"]
    assert found == {
        "model_name": "my_schema.open_orders",
        "materialization": "view",
        "strategy": "view",
        "last_execution_timestamp": AT,
        "sql_hash": each.sql_hash,
        "config_hash": None,
        "last_processed_value": None,
        "rows": None,
        "version": None,
    }
    shown = cli("state").stdout.splitlines()
    assert shown[2].split() == ["my_schema.open_orders", "view", "view", *render.moment(AT).split(), each.sql_hash]
    assert [line.split()[0] for line in shown[1:]] == [node.name for node in shop.graph.in_order()]
    lines = cli("status").stdout.splitlines()
    assert lines[2].split() == ["my_schema.open_orders", "view", *render.moment(AT).split()]
    assert lines[3].split() == ["my_schema.pricey", "not", "run", "yet"]


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("command", ["plan", "state", "status"])
def test_nothing_of_spark_is_imported_to_report_views(command):
    commit("orders")
    was_run(view(Workspace.load()), orders=version(Workspace.load(), "orders") or "")
    code = (
        "import sys; from tidemill.cli.main import tidemill\n"
        f"try: tidemill.main(['{command}'])\n"
        "finally: print(sorted({'pyspark', 'py4j', 'pandas', 'rich'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
    assert "my_schema.open_orders" in done.stdout


def test_a_view_has_no_history_but_that_of_the_table_it_was(shop):
    was_run(view(shop))
    none = cli("history", "my_schema.open_orders")
    assert none.exit_code == 2
    assert none.stderr == (
        "error[table.is_view] my_schema.open_orders is a view: it has no commits.\n"
        "  See its record: tidemill state my_schema.open_orders\n"
    )
    commit("open_orders")
    shown = cli("history", "my_schema.open_orders").stdout.splitlines()
    assert shown[1].split()[0] == "0"
    assert shown[-1] == (
        "  notice  my_schema.open_orders is a view now; these commits are of the table that stays on disk"
    )


@pytest.mark.usefixtures("shop")
def test_a_view_cannot_be_verified_and_not_shown_before_what_it_reads_is_made():
    assert cli("verify", "my_schema.pricey").stderr == (
        "error[table.is_view] my_schema.pricey is a view: it keeps no rows of its own.\n"
        "  Name the tables that it reads, or those that read it.\n"
    )
    assert cli("show", "my_schema.pricey").stderr == (
        "error[table.not_made] my_schema.pricey reads my_schema.orders, which is declared and not made yet.\n"
        "  Make it: tidemill run.\n"
    )
    assert "Did you mean my_schema.pricey?" in cli("verify", "my_schema.price").stderr


def viewed(name: str, status: str, *columns: str, **facts: Any) -> StepResult:
    return StepResult(f"my_schema.{name}", status, "view", kind=StepKind.VIEW, columns=columns, **facts)


def results() -> tuple[Outcome, ...]:
    counted = Checked(RowCount(1), Place("my_schema.pricey", entering=False), 2)
    return (
        Outcome("my_schema.orders", StepResult("my_schema.orders", "up to date", "replace", 0, Counts(), 2, 0, 0.0)),
        Outcome(
            "my_schema.open_orders",
            viewed("open_orders", "created", "id", "amount", seconds=0.31, first_run=True, notices=("it was a table",)),
        ),
        Outcome("my_schema.pricey", viewed("pricey", "changed", "id", seconds=0.2, checks=(counted,))),
    )


def test_a_run_reports_views_like_other_steps(shop, capsys):
    commit("orders")
    shown = Shown(shop, Live("", quiet=True))
    for outcome in results():
        shown.ended(outcome)
    shown.close(RunOutcome(results(), 2.5))
    assert capsys.readouterr().out == (
        "  ✓ my_schema.orders       up to date                its inputs are unchanged   0.0 s\n"
        "  ✓ my_schema.open_orders  view          2 columns   its query is right   0.3 s\n"
        "  notice  it was a table\n"
        "  ✓ my_schema.pricey       view           1 column   its new query is right · 1 check passed   0.2 s\n"
        "  done in 2.5 s · 0 tables changed · 2 views checked\n"
    )
    steps = run_data(
        shop, RunOutcome(results(), 2.5), Run("r1", "run", "", "2026-02-04T06:00:00+00:00", write=lambda _: None)
    )["steps"]
    assert len({tuple(step) for step in steps}) == 1
    assert {key: value for key, value in steps[1].items() if value is not None} == {
        "table": "my_schema.open_orders",
        "status": "created",
        "strategy": "view",
        "first_run": True,
        "seconds": 0.31,
        "notices": ["it was a table"],
        "checks": [],
        "expectations": [],
    }
    assert [check["status"] for check in steps[2]["checks"]] == ["passed"]


def test_steps_of_views_are_in_the_ledger(shop, folder):
    failed = Outcome("my_schema.pricey", error=ArgumentError("view.bad_query", "wrong", "fix it"))
    with log_run(folder, shop.graph.in_order(), "run", shop.masking, shop.short) as kept:
        for outcome in (*results()[:2], failed):
            kept.ended(outcome)
    with closing(sqlite3.connect(folder / ".tidemill" / "ledger.db")) as ledger:
        kept = ledger.execute("SELECT table_name, strategy, mode, status, error_code FROM steps").fetchall()
    assert kept[1:] == [
        ("my_schema.open_orders", "view", "view", "created", None),
        ("my_schema.pricey", "view", "view", "failed", "view.bad_query"),
    ]


# tables that become views, and views that become tables


def behaves(behavior: str) -> Workspace:
    with Path("tidemill.toml").open("a", encoding="utf-8") as file:
        file.write(f'[profiles.{behavior}.flags]\nmaterialization_change_behavior = "{behavior}"\n')
    return Workspace.load(profile=behavior)


def notices(workspace: Workspace) -> dict[str, tuple[str, ...]]:
    return {step.table.removeprefix("my_schema."): step.notices for step in workspace.plan() if step.notices}


def test_a_table_that_becomes_a_view_is_reported_until_the_view_has_run(shop, folder):
    commit("open_orders")
    notice = (
        "my_schema.open_orders was a table, and is a view now: its rows are those of its query. The table stays on "
        f"disk with its history; drop it by deleting {folder}/warehouse/my_schema/open_orders"
    )
    assert notices(shop) == {"open_orders": (notice,)}
    assert notices(behaves("ignore")) == {}
    strict = behaves("error")
    for refused in (strict.plan, strict.run):
        with pytest.raises(ArgumentError) as failure:
            refused()
        assert str(failure.value) == (
            f"[plan.materialization_changed] {notice}. "
            'Declare it as it was, or let it change: materialization_change_behavior = "warn" in tidemill.toml, '
            "under [flags]."
        )
        assert str(failure.value.origin) == "models/my_schema/open_orders.sql:2:1"
    was_run(view(shop))
    assert notices(strict) == notices(shop) == {}


def test_a_view_that_becomes_a_table_is_reported_until_the_table_has_run(shop):
    orders, report = (table.path for table in shop.tables)
    for path in (orders, report):
        keep_view(path, Record("run", "it", 1, "view", AT))
    commit("orders")
    assert notices(shop) == {
        "orders": (
            "my_schema.orders was a view, and is a table now: the table that stayed on disk goes on from where it was",
        ),
        "report": ("my_schema.report was a view, and is a table now: this run makes it",),
    }
    assert notices(behaves("ignore")) == {}
    with pytest.raises(FileErrors) as failure:
        behaves("error").plan()
    assert [str(error.origin) for error in failure.value.errors] == [
        "models/my_schema/orders.sql:1:1",
        "models/my_schema/report.sql:1:1",
    ]


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("tidemill.reset_allowed", "run it once as a table with reset_allowed = true first"),
        (
            "pipelines.reset.allowed",
            "set the property pipelines.reset.allowed of {path} to true first",
        ),
    ],
)
@pytest.mark.usefixtures("shop")
def test_a_table_that_must_not_be_reset_does_not_become_a_view(folder, name, way):
    path = folder / commit("open_orders")
    has_property(path, name, "false")
    was_run(view(Workspace.load()))
    with pytest.raises(ArgumentError) as failure:
        behaves("ignore").run()
    error = failure.value
    assert (error.code, error.problem) == (
        "table.reset_refused",
        "my_schema.open_orders is a table with reset_allowed = false: as a view it would hide 2 rows of history.",
    )
    assert error.remedy == f"Declare it a table again. If a view is what you want, {way.format(path=path)}."
    assert str(error.origin) == "models/my_schema/open_orders.sql:2:1"


# on Spark


def source(*rows: tuple[int, str, int], part: int = 1) -> None:
    """Orders at the source."""
    Path("data/source").mkdir(parents=True, exist_ok=True)
    columns = dict(zip(("id", "status", "amount"), map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table(columns), f"data/source/{part}.parquet")


def statuses(spark: SparkSession, *select: str) -> dict[str, str]:
    workspace = Workspace.load()
    done = (workspace.choose(select) if select else workspace).run(spark)
    return {
        each.name.removeprefix("my_schema."): each.result.status if each.result else getattr(each.error, "code", "-")
        for each in done.outcomes
    }


def rows(name: str) -> list[tuple[Any, ...]]:
    found = json.loads(cli("show", f"my_schema.{name}", "--format", "json").stdout)["rows"]
    return sorted(tuple(row.values()) for row in found)


EXPORT = """
CREATE TABLE cheap AS SELECT o.id FROM my_schema.open_orders AS o LEFT ANTI JOIN my_schema.pricey AS p ON o.id = p.id;
EXPORT my_schema.pricey TO "out/pricey.csv" TYPE CSV;
"""
ALL = ("orders", "open_orders", "pricey", "report", "main.cheap", "out/pricey.csv")


def test_views_give_their_rows_to_queries_exports_verify_and_show(spark: SparkSession, load):
    source((1, "open", 5), (2, "open", 50), (3, "done", 70))
    workspace = load({**MODELS, "pipelines/shop.sql": EXPORT})
    assert statuses(spark) == dict(zip(ALL, [*["created"] * 5, "exported"], strict=True))
    assert rows("report") == [(1, 50)]
    assert (rows("open_orders"), rows("pricey")) == ([(1, 5), (2, 50)], [(2, 50)])
    assert Path("out/pricey.csv").read_text() == "id,amount\n2,50\n"
    assert [each.equal for each in workspace.verify(spark=spark)] == [True] * 3
    assert not spark.catalog.tableExists("my_schema.pricey")
    record = view_record(view(workspace, "pricey").path)
    assert record is not None
    assert (record.columns, list(record.input_versions)) == (("id", "amount"), ["my_schema.open_orders"])
    assert statuses(spark) == dict.fromkeys(ALL, "up to date")

    source((4, "open", 30), part=2)
    assert statuses(spark, "my_schema.orders", "my_schema.report") == {"orders": "changed", "report": "changed"}
    assert rows("report") == [(2, 80)]
    assert statuses(spark) == {
        **dict.fromkeys(("orders", "report"), "up to date"),
        **dict.fromkeys(("open_orders", "pricey"), "unchanged"),
        "main.cheap": "unchanged",
        "out/pricey.csv": "exported",
    }


def test_a_changed_view_changes_what_reads_it_and_a_wrong_one_stops_it(spark: SparkSession, load):
    source((1, "open", 5), (2, "open", 50))
    load(MODELS)
    statuses(spark)
    load({"open_orders.sql": MODELS["open_orders.sql"].replace("amount FROM", "amount * 2 AS amount FROM")})
    assert statuses(spark) == {
        "orders": "up to date",
        "open_orders": "changed",
        "pricey": "unchanged",
        "report": "changed",
    }
    assert rows("report") == [(1, 100)]
    load({"open_orders.sql": f"{VIEW}\nSELECT id, amuont AS amount FROM my_schema.orders"})
    done = cli("run")
    assert done.exit_code == 1
    assert "✗ my_schema.open_orders  error[view.bad_query] The query of the view my_schema.open_orders cannot be" in (
        done.stdout
    )
    assert "amuont" in done.stdout
    assert "\n    models/my_schema/open_orders.sql:3:1\n    Fix it, or what it reads, and run again.\n" in done.stdout
    assert "- my_schema.report       not run: it reads my_schema.pricey, which this run could not make" in done.stdout
    alone = Workspace.load().choose(["my_schema.report"]).run(spark).outcomes[0].error
    assert alone is not None
    assert (alone.code, str(alone.origin)) == ("view.bad_query", "models/my_schema/open_orders.sql:3:1")
    assert cli("show", "my_schema.pricey").stderr.startswith("error[view.bad_query]")
    assert rows("report") == [(1, 100)]


def test_a_table_becomes_a_view_and_a_table_again(spark: SparkSession, load):
    source((1, "open", 5), (2, "done", 50))
    load({"orders.sql": ORDERS, "seen.sql": "SELECT id FROM my_schema.orders"})
    statuses(spark)
    load({"orders.sql": f"{VIEW}{ORDERS.strip()} WHERE status = 'open'"})
    told = [step["notices"] for step in json.loads(cli("run", "--format", "json").stdout)["steps"]]
    assert (len(told[0]), told[1]) == (1, [])
    assert rows("seen") == [(1,)]
    assert deltalake.DeltaTable("warehouse/my_schema/orders").version() == 0
    assert statuses(spark) == {"orders": "up to date", "seen": "up to date"}
    load({"orders.sql": ORDERS})
    source((3, "done", 7), part=2)
    assert statuses(spark) == {"orders": "changed", "seen": "changed"}
    assert rows("seen") == [(1,), (2,), (3,)]
    assert not list(Path("warehouse/my_schema").glob("*.json"))
    assert notices(Workspace.load()) == {}


def test_a_view_becomes_a_table_by_a_first_run(spark: SparkSession, load):
    source((1, "open", 5))
    load(MODELS)
    statuses(spark)
    load({"open_orders.sql": MODELS["open_orders.sql"].removeprefix(VIEW)})
    (result,) = [each.result for each in Workspace.load().choose(["my_schema.open_orders"]).run(spark).outcomes]
    assert isinstance(result, StepResult)
    assert result.first_run
    assert result.notices == ("my_schema.open_orders was a view, and is a table now: this run makes it",)


def test_a_view_of_the_sessions_own_is_neither_replaced_nor_dropped(spark: SparkSession, load):
    source((1, "open", 5))
    load(MODELS)
    spark.sql("CREATE SCHEMA IF NOT EXISTS my_schema")
    spark.sql("CREATE VIEW my_schema.pricey AS SELECT 7 AS seven")
    try:
        done = Workspace.load().run(spark)
        error = done.outcomes[2].error
        assert error is not None
        assert (error.code, error.problem) == (
            "view.name_taken",
            "The Spark session has a table or view my_schema.pricey of its own, which is not the view declared.",
        )
        assert str(error.origin) == "models/my_schema/pricey.sql:2:1"
        assert spark.table("my_schema.pricey").collect()[0][0] == 7
    finally:
        spark.sql("DROP VIEW my_schema.pricey")


def test_names_that_a_killed_run_has_left_make_room(spark: SparkSession, load, folder):
    """As in a lasting metastore: a table that is a view by now, and a view that is a table by now."""
    load({"was_table.sql": f"{VIEW}SELECT 1 AS one", "was_view.sql": "SELECT 2 AS two"})
    load({"both.sql": "SELECT one, two FROM my_schema.was_table, my_schema.was_view"})
    path = folder / commit("was_table")
    spark.sql("CREATE SCHEMA IF NOT EXISTS my_schema")
    spark.sql(f"CREATE TABLE my_schema.was_table USING delta LOCATION '{path}'")
    spark.sql("CREATE VIEW my_schema.was_view COMMENT 'a view of a Tidemill run' AS SELECT 7 AS two")
    assert statuses(spark) == dict.fromkeys(("was_table", "was_view", "both"), "created")
    assert rows("both") == [(1, 2)]
    assert deltalake.DeltaTable(path).version() == 0


def test_a_run_notes_on_a_table_that_it_must_not_be_reset(spark: SparkSession, load):
    source((1, "open", 5))
    kept = {"orders.sql": ORDERS, "orders.py": "metadata = {'reset_allowed': False}"}
    load(kept)
    statuses(spark)
    Path("models/my_schema/orders.py").unlink()
    hidden = load({"orders.sql": f"{VIEW}{ORDERS}"})
    with pytest.raises(ArgumentError, match=r"table\.reset_refused"):
        hidden.run(spark)
    load({**kept, "orders.py": "metadata = {'reset_allowed': True}"})
    assert statuses(spark) == {"orders": "up to date"}
    Path("models/my_schema/orders.py").unlink()
    load({"orders.sql": f"{VIEW}{ORDERS}"})
    assert statuses(spark) == {"orders": "created"}
