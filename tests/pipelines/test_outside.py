"""Queries and exports read outside data by its name, whatever keeps it."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidemill.errors import TidemillError

if TYPE_CHECKING:
    from pathlib import Path

    from pipelines.conftest import Shop

ALL_KINDS = """
[sources."lake.events"]
type = "parquet"
path = "data/events"
[sources."lake.parts"]
type = "parquet"
path = "data/parts/*.parquet"
[sources."lake.customers"]
type = "delta"
path = "data/customers"
[sources."files.regions"]
type = "csv"
path = "data/regions.csv"
[sources."files.Notes"]
type = "json"
path = "data/notes.json"
columns = ["id", "note"]
[sources.rates]
type = "python"
function = "rates.py:today"
"""
JOINED = """
CREATE TABLE joined AS
SELECT e.id, e.day, p.part, c.name, g.region, n.note, r.rate
FROM lake.events AS e
JOIN Lake.Parts AS p ON p.id = e.id
JOIN `lake`.`customers` AS c ON c.id = e.id
JOIN files.regions AS g ON g.id = e.id
JOIN files.notes AS n ON n.id = e.id
CROSS JOIN rates AS r;
EXPORT lake.events TO "out/events.csv" TYPE CSV;
"""
RATES = """
from pathlib import Path

def today():
    calls = Path(__file__).with_name("calls")
    calls.write_text(calls.read_text() + "x" if calls.exists() else "x")
    return [{"currency": "EUR", "rate": 1.0}]
"""


def parquet(path: Path, **columns: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


@pytest.fixture
def outside(shop: Shop) -> Shop:
    """A project that declares outside data of many kinds."""
    (shop.folder / "tidemill.toml").write_text(ALL_KINDS)
    (shop.folder / "rates.py").write_text(RATES)
    data = shop.folder / "data"
    parquet(data / "events" / "day=2024-01-01" / "1.parquet", id=[1])
    parquet(data / "events" / "day=2024-01-02" / "2.parquet", id=[2])
    parquet(data / "parts" / "1.parquet", id=[1, 2])
    parquet(data / "parts" / "2.parquet", id=[3], part=["new column"])
    deltalake.write_deltalake(data / "customers", pa.table({"id": [1, 2], "name": ["Ada", "Bo"]}))
    shop.data("regions.csv", "id region", (1, "eu"), (2, "us"))
    (data / "notes.json").write_text('{"id": 1, "note": "x", "more": 1}\n{"id": 2, "note": "y", "more": 2}\n')
    return shop.says(JOINED)


def test_a_query_reads_files_tables_and_functions_as_it_is_written(outside: Shop) -> None:
    outcomes = outside.run()
    assert [outcome.error for outcome in outcomes.values()] == [None, None]
    assert [(str(row[1]), *row[2:]) for row in outside.rows("joined")] == [
        ("2024-01-01", None, "Ada", "eu", "x", 1.0),
        ("2024-01-02", None, "Bo", "us", "y", 1.0),
    ]
    assert sorted((outside.folder / "out/events.csv").read_text().split()) == ["1,2024-01-01", "2,2024-01-02", "id,day"]


def test_a_step_is_up_to_date_until_outside_data_changes(outside: Shop) -> None:
    outside.says("CREATE TABLE ids AS SELECT id FROM lake.events UNION ALL SELECT id FROM lake.customers;")
    assert outside.step("ids").counts.inserted == 4
    assert outside.step("ids").status == "up to date"
    parquet(outside.folder / "data/events/day=2024-01-03/3.parquet", id=[3])
    assert outside.step("ids").counts.inserted == 1
    deltalake.write_deltalake(outside.folder / "data/customers", pa.table({"id": [9], "name": ["Cleo"]}), mode="append")
    assert outside.step("ids").counts.inserted == 1
    assert outside.rows("ids") == [(1,), (1,), (2,), (2,), (3,), (9,)]


def test_what_cannot_tell_whether_it_changed_is_read_once_in_every_run(outside: Shop) -> None:
    outside.says("CREATE TABLE a AS SELECT * FROM rates;\nCREATE TABLE b AS SELECT rate FROM main.rates;")
    calls = outside.folder / "calls"
    outside.run()
    assert calls.read_text() == "x"
    outside.run()
    assert calls.read_text() == "xx"
    assert not outside.spark.catalog.tableExists("main.rates")


def test_a_verified_query_reads_outside_data_too(outside: Shop) -> None:
    outside.says("CREATE TABLE all_regions AS SELECT * FROM files.regions;")
    outside.run()
    assert [result.equal for result in outside.load().verify(spark=outside.spark)] == [True]
    outside.data("regions.csv", "id region", (1, "eu"), (2, "us"), (3, "eu"))
    (result,) = outside.load().verify(spark=outside.spark)
    assert (result.equal, result.missing.count) == (False, 1)
    assert not outside.spark.catalog.tableExists("files.regions")


def failure(shop: Shop, table: str) -> TidemillError:
    error = shop.run()[table].error
    assert isinstance(error, TidemillError)
    return error


def test_an_error_names_the_source_and_its_line(outside: Shop) -> None:
    outside.says("CREATE TABLE t AS SELECT * FROM files.regions;")
    (outside.folder / "data/regions.csv").unlink()
    error = failure(outside, "t")
    assert error.problem == (
        f"The source files.regions could not be read: There is nothing at {outside.folder}/data/regions.csv."
    )
    assert str(error.origin) == f"{outside.folder / 'tidemill.toml'}:11:2"


def test_a_table_of_the_sessions_own_is_neither_read_nor_dropped(outside: Shop) -> None:
    outside.says("CREATE TABLE t AS SELECT * FROM files.regions;")
    outside.spark.sql("CREATE SCHEMA IF NOT EXISTS files")
    outside.spark.sql("CREATE TABLE files.regions USING parquet AS SELECT 7 AS seven")
    try:
        error = failure(outside, "t")
        assert error.code == "source.name_taken"
        assert error.problem == (
            "The Spark session has a table files.regions of its own, which is not the one declared."
        )
        assert outside.spark.table("files.regions").collect()[0][0] == 7
    finally:
        outside.spark.sql("DROP TABLE files.regions")


def test_secrets_of_outside_data_are_in_no_record(outside: Shop) -> None:
    (outside.folder / ".env").write_text("PLACE=hidden-place\n")
    (outside.folder / "tidemill.toml").write_text(
        '[sources."files.regions"]\ntype = "csv"\npath = "data/${env:PLACE}.csv"\n'
    )
    outside.says("CREATE TABLE t AS SELECT * FROM files.regions;")
    assert "data/***.csv" in failure(outside, "t").problem
    outside.data("hidden-place.csv", "id region", (1, "eu"))
    outside.run()
    log = outside.path("t") / "_delta_log" / f"{0:020d}.json"
    record = next(json.loads(line)["commitInfo"] for line in log.read_text().splitlines() if "commitInfo" in line)
    assert "files.regions" in record["userMetadata"]
    assert "hidden-place" not in record["userMetadata"]


def test_an_input_that_was_deleted_and_created_again_up_to_the_same_version_is_read(shop: Shop) -> None:
    """Its number is the one that was recorded, and its rows are others."""
    (shop.folder / "tidemill.toml").write_text('[sources."lake.customers"]\ntype = "delta"\npath = "data/customers"\n')
    customers = shop.folder / "data" / "customers"
    deltalake.write_deltalake(customers, pa.table({"id": [1, 2], "name": ["Ada", "Bo"]}))
    shop.says("CREATE TABLE names AS SELECT id, name FROM lake.customers;\nCREATE TABLE copies AS SELECT * FROM names;")
    assert shop.step("copies").total == 2
    assert {each.result.status for each in shop.run().values() if each.result} == {"up to date"}
    for table in (customers, shop.folder / "warehouse" / "main" / "names"):
        shutil.rmtree(table)
    deltalake.write_deltalake(customers, pa.table({"id": [3], "name": ["Cy"]}))
    assert deltalake.DeltaTable(customers).version() == 0
    assert shop.step("copies").total == 1
    assert shop.rows("copies") == [(3, "Cy")]
