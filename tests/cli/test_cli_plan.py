"""`tidemill plan` foresees columns that a run will refuse, where they are known without Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HELD = pa.table({"id": pa.array([1], pa.int64()), "Amount": pa.array([10], pa.int64())})
MORE = pa.table({"ID": pa.array([1], pa.int64()), "region": ["eu"]})
LOAD = 'SOURCE s TYPE {} PARAMS {{ "path": "data/new"{} }};\nLOAD orders FROM s MODE MERGE ON id{};\n'
REFUSED = (
    "orders: this run will fail with schema.changed. The columns of the source are not those of orders: "
    "the source also has region; the source lacks Amount. Set on_schema_change (of a merge: schema_policy) to ignore, "
    "append_new_columns or sync_all_columns, or rebuild the table with a run that has -s orders --full-refresh. "
    "The table is unchanged."
)


def csv(path: Path) -> None:
    path.write_text("ID,region\n1,eu\n")


def tsv(path: Path) -> None:
    path.write_text("ID\tregion\n1\teu\n")


def headless(path: Path) -> None:
    path.write_text("1,eu\n")


def parquet(path: Path) -> None:
    path.mkdir()
    pq.write_table(MORE.select(["ID"]), path / "1.parquet")
    pq.write_table(MORE, path / "2.parquet")


def delta(path: Path) -> None:
    deltalake.write_deltalake(path, MORE)


KNOWN: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "a header": (csv, "CSV", ""),
    "a header with tabs": (tsv, "TSV", ""),
    "a schema": (headless, "CSV", ', "schema": "ID INT, region STRING", "header": false'),
    "footers": (parquet, "PARQUET", ""),
    "a log": (delta, "DELTA", ""),
}


@pytest.fixture
def plan(folder: Path, make_table, cli) -> Callable[..., list[str]]:
    """The notices of a plan for one table, which holds id and Amount."""
    make_table("main.orders", HELD, strategy="merge upsert on id", keys=("id",), sql_hash=None)
    (folder / "tidemill.toml").write_text('name = "shop"\n')
    (folder / "pipelines").mkdir()
    (folder / "data").mkdir()

    def noticed(pipeline: str, *args: str) -> list[str]:
        (folder / "pipelines/shop.sql").write_text(pipeline)
        told = cli("plan", "--format", "json", *args)
        assert told.exit_code == 0, told.output
        found: list[dict[str, Any]] = json.loads(told.stdout)["steps"]
        return [notice for step in found for notice in step["notices"]]

    return noticed


@pytest.mark.parametrize("case", KNOWN)
def test_columns_that_a_header_a_footer_or_a_log_tells_are_compared_with_the_tables(folder: Path, plan, case: str):
    write, kind, option = KNOWN[case]
    write(folder / "data/new")
    pipeline = LOAD.format(kind, option, "")
    assert plan(pipeline) == [REFUSED]
    assert plan(pipeline, "--full-refresh") == []


def test_a_schema_policy_takes_them_and_columns_that_fit_are_no_news(folder: Path, plan):
    csv(folder / "data/new")
    taken = LOAD.format("CSV", "", ' OPTIONS {"on_schema_change": "append_new_columns"}')
    assert plan(taken) == []
    (folder / "data/new").write_text("amount,Id\n10,1\n")
    assert plan(LOAD.format("CSV", "", "")) == []


def test_the_columns_of_a_query_are_known_too_unless_it_has_a_star(plan):
    query = "CREATE TABLE orders MODE FULL_MERGE ON id AS SELECT {} FROM VALUES (1, 'eu') AS t(id, region);"
    assert REFUSED in plan(query.format("id, region"))
    assert not any("schema.changed" in each for each in plan(query.format("*")))


SEVERAL = 'SOURCE r TYPE CSV PARAMS { "path": "data/more" };\nLOAD orders FROM r MODE MERGE ON id;\n'


@pytest.mark.parametrize("more", ["", SEVERAL], ids=["one LOAD", "several LOADs"])
def test_a_plan_that_foresees_columns_imports_no_spark(folder: Path, plan, more: str):
    csv(folder / "data/new")
    csv(folder / "data/more")
    plan(LOAD.format("CSV", "", "") + more)
    script = "import sys; from tidemill.cli.main import tidemill\ntry: tidemill.main(['plan'])\n"
    script += 'finally: sys.exit(f\'{sorted({"pyspark", "py4j"} & set(sys.modules))}\')'
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False)
    assert "schema.changed" in done.stdout
    assert done.stderr == "[]\n"
