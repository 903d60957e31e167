"""`tidemill state`: what the record of a table's last commit says."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import deltalake
import pyarrow as pa
import pytest

from tidemill import Record
from tidemill.api.workspace import Workspace
from tidemill.cli import render
from tidemill.formats.delta.log import APP_ID
from tidemill.model.cursor import cursor

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
SOURCE orders TYPE CSV PARAMS { "path": "data/orders.csv" } INCREMENTAL BY at LOOKBACK 2 HOURS;
LOAD raw_orders FROM orders MODE MERGE ON id;
CREATE TABLE daily AS SELECT date(at) AS day, count(*) AS n FROM raw_orders GROUP BY 1;
CREATE MATERIALIZED VIEW ids AS SELECT id FROM raw_orders;
"""
AT = "2024-02-01T06:00:00.000Z"
KEYS = [
    *("model_name", "materialization", "strategy", "last_execution_timestamp", "sql_hash", "config_hash"),
    *("last_processed_value", "rows", "version"),
]


@pytest.fixture
def shop(folder: Path) -> Path:
    """A project of two tables, of which one has a commit of Tidemill's."""
    (folder / "tidemill.toml").write_text('name = "shop"\n')
    (folder / "pipelines").mkdir()
    (folder / "pipelines" / "shop.sql").write_text(PIPELINE)
    record = Record(
        run_id="run-0",
        table="main.raw_orders",
        sequence=1,
        strategy="merge upsert",
        at=AT,
        rows=2,
        remainder="inserted",
        keys=("id",),
        progress={"shop.orders": cursor("timestamp", "2024-01-31T21:00:00Z")},
        sql_hash="0123456789abcdef",
        config_hash="fedcba9876543210",
        held=0,
    )
    mark = deltalake.CommitProperties(
        {"userMetadata": record.to_json()}, app_transactions=[deltalake.Transaction(APP_ID, 1)]
    )
    path = folder / "warehouse" / "main" / "raw_orders"
    deltalake.write_deltalake(path, pa.table({"id": [1, 2]}), commit_properties=mark)
    return folder


@pytest.mark.usefixtures("shop")
def test_the_state_of_every_table_is_in_columns(cli):
    result = cli("state")
    assert (result.exit_code, result.stderr) == (0, "")
    heading, made, unmade, view = [line.split() for line in result.stdout.splitlines()]
    assert heading == KEYS
    assert made == [
        *("raw_orders", "incremental", "merge", "upsert", *render.moment(AT).split(), "0123456789abcdef"),
        *("fedcba9876543210", "2024-01-31T21:00:00.000000Z", "2", "0"),
    ]
    assert unmade == ["daily", "table", "replace", "not", "run", "yet"]
    assert view == ["ids", "materialized_view", "materialized_view", "not", "run", "yet"]
    assert cli("state", "--quiet").output == ""


@pytest.mark.usefixtures("shop")
def test_the_state_of_one_table_as_json_has_every_key(cli):
    assert json.loads(cli("state", "raw_orders", "--format", "json").stdout) == {
        "project": "shop",
        "tables": [
            {
                "model_name": "raw_orders",
                "materialization": "incremental",
                "strategy": "merge upsert",
                "last_execution_timestamp": AT,
                "sql_hash": "0123456789abcdef",
                "config_hash": "fedcba9876543210",
                "last_processed_value": "2024-01-31T21:00:00.000000Z",
                "rows": 2,
                "version": 0,
            }
        ],
    }
    (unmade,) = json.loads(cli("state", "main.daily", "--format", "json").stdout)["tables"]
    assert list(unmade) == KEYS
    assert [unmade[key] for key in KEYS[3:]] == [None] * 6


def test_one_pipeline_file_is_a_target_too(shop: Path, cli):
    (shop / "pipelines" / "more.sql").write_text("CREATE TABLE more AS SELECT 1 AS one;")
    found = json.loads(cli("state", "pipelines/more.sql", "--format", "json").stdout)["tables"]
    assert [each["model_name"] for each in found] == ["more"]


@pytest.mark.usefixtures("shop")
def test_a_misspelled_table_is_an_error_with_the_right_one(cli):
    result = cli("state", "raw_order")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "error[table.unknown] No table raw_order is declared.\n  Did you mean raw_orders?\n"


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("command", [("state",), ("show", "raw_orders")])
def test_nothing_of_spark_is_imported(command: tuple[str, ...]):
    code = (
        "import sys; from tidemill.cli.main import tidemill\n"
        f"try: tidemill.main({list(command)})\n"
        "finally: print(sorted({'pyspark', 'py4j', 'pandas', 'rich'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


@pytest.mark.usefixtures("spark")
def test_after_a_run_it_is_what_the_run_left(shop: Path, cli, write_csv):
    (shop / "warehouse" / "main" / "raw_orders").rename(shop / "away")
    write_csv(shop / "data/orders.csv", "1,2024-01-01 10:00:00", "2,2024-01-02 11:00:00", header="id,at")
    assert cli("run").exit_code == 0
    raw, daily, _ = json.loads(cli("state", "--format", "json").stdout)["tables"]
    declared = {table.name: table for table in Workspace.load().tables}
    assert (raw["rows"], raw["version"], raw["last_processed_value"]) == (2, 0, "2024-01-02T11:00:00.000000Z")
    assert raw["config_hash"] == declared["main.raw_orders"].config_hash
    assert daily["sql_hash"] == declared["main.daily"].sql_hash
    assert (raw["sql_hash"], daily["last_processed_value"], daily["rows"]) == (None, None, 2)
