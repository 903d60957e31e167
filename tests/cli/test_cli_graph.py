"""`tidemill graph`: what reads what, with watermarks, freshness and status, without Spark."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import deltalake
import pyarrow as pa
import pytest
from pace import second

from tidemill import Record
from tidemill.cli import render
from tidemill.formats.registry import keep_view
from tidemill.ledger import Ledger, Step, ledger_file
from tidemill.model.cursor import cursor

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
SOURCE orders TYPE CSV PARAMS { "path": "data/orders.csv" } INCREMENTAL BY at LOOKBACK 2 HOURS;
LOAD raw_orders FROM orders MODE MERGE ON id;
SOURCE customers TYPE CSV PARAMS { "path": "data/customers.csv" };
LOAD raw_customers FROM customers;
CREATE TABLE daily AS
SELECT o.id, p.price FROM raw_orders AS o JOIN raw_customers USING (id) JOIN erp.prices AS p USING (id);
EXPORT daily TO "out/daily.csv" TYPE CSV;
"""
PROJECT = 'name = "shop"\n[sources."erp.prices"]\ntype = "parquet"\npath = "data/prices"\n'
ROWS = pa.table({"id": [1, 2]})
WATERMARK = {"shop.orders": cursor("timestamp", "2024-01-31T21:00:00Z")}


def before(**length: int) -> str:
    return (datetime.now(UTC) - timedelta(**length)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def failed(folder: Path, table: str, at: str) -> None:
    """A step that the ledger has."""
    path = str(folder / "warehouse" / "main" / table)
    with Ledger(ledger_file(folder)).run("run") as run:
        run.add(Step(f"main.{table}", path, "replace", "incremental", "failed", at, error_code="source.unreadable"))


@pytest.fixture
def shop(folder: Path) -> Path:
    (folder / "tidemill.toml").write_text(PROJECT)
    (folder / "pipelines").mkdir()
    (folder / "pipelines" / "shop.sql").write_text(PIPELINE)
    (folder / "models" / "main").mkdir(parents=True)
    (folder / "models" / "main" / "cheap.sql").write_text(
        '-- metadata: {"materialization": "view"}\nSELECT id FROM main.daily WHERE price < 5'
    )
    return folder


@pytest.fixture
def status(shop: Path, cli):
    """The status of each table and view, as JSON has it."""
    del shop

    def found() -> dict[str, str | None]:
        nodes = json.loads(cli("graph", "--format", "json").stdout)["nodes"]
        return {node["name"]: node["status"] for node in nodes if node["shape"] in {"table", "view"}}

    return found


def test_the_graph_is_a_tree_with_what_is_known_of_each_table(shop: Path, cli, make_table):
    make_table("main.raw_orders", ROWS, progress=WATERMARK, at=before(hours=3))
    make_table("main.raw_customers", ROWS, at=before(minutes=5))
    failed(shop, "raw_customers", before(minutes=1))
    result = cli("graph")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        "  shop · ◇ 3 sources · ■ 3 tables · □ 1 view · ▷ 1 export\n"
        "  name                      strategy            watermark                changed    status       reads too\n"
        "  ◇ orders                  CSV\n"
        "  └─ ■ raw_orders           merge upsert on id  2024-01-31 21:00:00 UTC  3 h ago    ok\n"
        "     └─ ■ daily             replace                                                 not run yet"
        "  raw_customers, erp.prices\n"
        "        ├─ ▷ out/daily.csv  export replace\n"
        "        └─ □ cheap          view\n"
        "  ◇ customers               CSV\n"
        "  └─ ■ raw_customers        replace                                      5 min ago  failed\n"
        "  ◇ erp.prices              PARQUET\n"
    )
    assert cli("graph", "--quiet").output == ""


@pytest.mark.usefixtures("shop")
def test_json_has_nodes_and_edges(cli, make_table):
    at = before(days=3)
    make_table("main.raw_orders", ROWS, progress=WATERMARK, at=at)
    found = json.loads(cli("graph", "--format", "json").stdout)
    assert list(found) == ["project", "as_of", "nodes", "edges", "written"]
    assert found["nodes"][0] == {
        "id": "source shop.orders",
        "name": "orders",
        "shape": "source",
        "kind": "CSV",
        "watermark": None,
        "changed_at": None,
        "status": None,
        "origin": None,
    }
    assert found["nodes"][1] == {
        "id": "main.raw_orders",
        "name": "raw_orders",
        "shape": "table",
        "kind": "merge upsert on id",
        "watermark": "2024-01-31 21:00:00 UTC",
        "changed_at": at,
        "status": "ok",
        "origin": "pipelines/shop.sql:3:1",
    }
    assert [(edge["from"], edge["to"]) for edge in found["edges"]] == [
        ("source shop.orders", "main.raw_orders"),
        ("source shop.customers", "main.raw_customers"),
        ("main.raw_orders", "main.daily"),
        ("main.raw_customers", "main.daily"),
        ("source erp.prices", "main.daily"),
        ("main.daily", "out/daily.csv"),
        ("main.daily", "main.cheap"),
    ]


@pytest.mark.usefixtures("shop")
def test_it_is_written_as_svg_and_as_mermaid(folder: Path, cli):
    result = cli("graph", "--svg", "a b.svg", "--mermaid", "shop.mmd")
    assert result.stdout.splitlines()[-2:] == ["  ✓ a b.svg is written", "  ✓ shop.mmd is written"]
    picture = ET.fromstring((folder / "a b.svg").read_text())
    shapes = [element.get("class") for element in picture.iter() if element.get("class", "").startswith("box")]
    assert sorted(shapes) == [*["box export"], *["box source"] * 3, *["box table"] * 3, "box view"]
    flow = (folder / "shop.mmd").read_text()
    assert re.match(r"%% shop · as of \d{4}-\d\d-\d\d \d\d:\d\d UTC\nflowchart LR\n", flow)
    assert flow.count(" --> ") == 7
    found = json.loads(cli("graph", "--svg", "again.svg", "--format", "json").stdout)
    assert found["written"] == ["again.svg"]
    assert cli("graph", "--svg", "quiet.svg", "--quiet").output == ""
    assert (folder / "quiet.svg").exists()


@pytest.mark.usefixtures("shop")
def test_a_file_that_cannot_be_written_is_an_error_with_what_to_do(cli):
    result = cli("graph", "--svg", "nowhere/shop.svg")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "error[graph.unwritable] nowhere/shop.svg cannot be written: No such file or directory.\n"
        "  Name a file in a folder that is there and that you may write to.\n"
    )


def test_a_failure_counts_until_the_table_is_changed_again(shop: Path, status, make_table):
    assert set(status().values()) == {"not run yet", None}
    failed(shop, "raw_customers", before(minutes=9))
    assert status()["raw_customers"] == "failed"
    make_table("main.raw_customers", ROWS, at=before(minutes=5))
    assert status()["raw_customers"] == "ok"
    failed(shop, "raw_customers", before(minutes=1))
    assert status()["raw_customers"] == "failed"


def test_a_failure_of_a_view_counts_until_it_has_run_again(shop: Path, status):
    failed(shop, "cheap", before(minutes=9))
    assert status()["cheap"] == "failed"
    keep_view(str(shop / "warehouse" / "main" / "cheap"), Record("run", "main.cheap", 1, "view", before(minutes=5)))
    assert status()["cheap"] is None


def test_a_query_that_is_not_that_of_the_last_commit_is_reported(status, make_table):
    make_table("main.daily", ROWS, sql_hash="0123456789abcdef")
    assert status()["daily"] == "query changed"


def test_a_commit_of_others_makes_a_table_fresh_too(shop: Path, cli, make_table):
    path = make_table("main.raw_orders", ROWS, at=before(days=3))
    deltalake.write_deltalake(shop / "warehouse" / "main" / "raw_customers", ROWS)
    assert "3 days ago" in cli("graph").stdout
    deltalake.write_deltalake(path, ROWS, mode="append")
    lines = cli("graph").stdout.splitlines()
    assert [re.findall(r"\d+ s ago", line) != [] for line in lines if "■ raw_" in line] == [True, True]


def test_sources_of_one_name_and_a_table_of_that_name_are_boxes_of_their_own(folder: Path, cli):
    for name in ("one", "two"):
        source = f'SOURCE orders TYPE CSV PARAMS {{ "path": "{name}.csv" }};'
        (folder / "pipelines").mkdir(exist_ok=True)
        (folder / "pipelines" / f"{name}.sql").write_text(f"{source}\nLOAD {name} FROM orders;\n")
    (folder / "pipelines" / "three.sql").write_text("CREATE TABLE orders AS SELECT * FROM one;\n")
    (folder / "tidemill.toml").write_text('name = "shop"\n')
    found = json.loads(cli("graph", "--format", "json").stdout)["nodes"]
    assert [(node["id"], node["name"]) for node in found] == [
        ("source one.orders", "orders"),
        ("main.one", "one"),
        ("main.orders", "orders"),
        ("source two.orders", "orders"),
        ("main.two", "two"),
    ]


def test_a_project_that_declares_nothing_says_so(folder: Path, cli):
    (folder / "tidemill.toml").write_text('name = "shop"\n')
    how = "nothing is declared: write pipelines/*.sql or models/<schema>/*.sql (tidemill init makes an example)"
    assert cli("graph").stdout == f"  shop · {how}\n"
    assert cli("validate").stdout == f"  ✓ nothing is wrong · {how}\n"
    assert cli("run").stdout == f"  Tidemill 0.1 · shop · embedded Spark · 0 steps\n  {how}\n"
    for command in ("plan", "list", "status", "state", "verify"):
        assert cli(command).stdout == f"  {how}\n"
    assert cli("show", "orders").stderr == "error[table.unknown] No table orders is declared.\n  No table is.\n"


def test_secrets_are_in_no_form_of_it(shop: Path, cli, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SHOP_PLACE", "hidden-place-31")
    (shop / "pipelines" / "out.sql").write_text('EXPORT SELECT 1 AS id TO "${env:SHOP_PLACE}/x.csv" TYPE CSV;\n')
    result = cli("graph", "--svg", "shop.svg", "--mermaid", "shop.mmd")
    assert "▷ ***/x.csv" in result.stdout
    forms = [result.stdout, cli("graph", "--format", "json").stdout]
    forms += [(shop / name).read_text() for name in ("shop.svg", "shop.mmd")]
    assert not any("hidden-place" in form for form in forms)


def test_thirty_tables_take_less_than_a_second_of_work_and_no_spark(folder: Path, make_table):
    (folder / "tidemill.toml").write_text('name = "shop"\n')
    (folder / "pipelines").mkdir()
    tables = [f"CREATE TABLE t{n} AS SELECT * FROM t{n // 3};" for n in range(1, 30)]
    (folder / "pipelines" / "p.sql").write_text("\n".join(["CREATE TABLE t0 AS SELECT 1 AS id;", *tables]))
    for number in range(30):
        make_table(f"main.t{number}", ROWS)
    code = (
        "import resource, sys; from tidemill.cli.main import tidemill\n"
        "try: tidemill.main(['graph', '--svg', 'shop.svg'])\n"
        "finally:\n"
        "    used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "    found = sorted({'pyspark', 'py4j', 'pandas', 'rich'} & set(sys.modules))\n"
        f"    print(used.ru_utime + used.ru_stime < {second()}, found, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "True []\n"
    assert len(done.stdout.splitlines()) == 33


@pytest.mark.parametrize(
    ("length", "shown"),
    [
        ({"seconds": 0}, "0 s ago"),
        ({"seconds": 119}, "119 s ago"),
        ({"seconds": 120}, "2 min ago"),
        ({"minutes": 119}, "119 min ago"),
        ({"hours": 2}, "2 h ago"),
        ({"hours": 47}, "47 h ago"),
        ({"days": 2}, "2 days ago"),
        ({"days": 400}, "400 days ago"),
        ({"seconds": -5}, "0 s ago"),
    ],
)
def test_how_long_ago_is_shown_in_one_unit(length: dict[str, int], shown: str):
    now = datetime(2024, 2, 1, tzinfo=UTC)
    assert render.ago((now - timedelta(**length)).isoformat(), now) == shown
