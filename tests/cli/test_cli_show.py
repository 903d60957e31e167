"""`tidemill show`: the first rows of a table, without Spark wherever that is possible."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidemill
from tidemill.cli.tables import cell, plain
from tidemill.formats.parquet.folder import Entry

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

MOMENT = datetime(2024, 1, 31, 21, tzinfo=UTC)
NO_JAVA = {"JAVA_HOME": "/nowhere", "PATH": "/nowhere"}


@pytest.fixture
def shop(folder: Path) -> Path:
    """A project that declares two tables, of which one is there."""
    (folder / "tidemill.toml").write_text('name = "shop"\n[profiles.prod.warehouse]\npath = "lake"\n')
    (folder / "pipelines").mkdir()
    (folder / "pipelines" / "shop.sql").write_text(
        "CREATE TABLE orders AS SELECT 1 AS id;\nCREATE TABLE daily AS SELECT 1 AS id;\n"
    )
    rows = pa.table(
        {"id": [1, 20, 3], "at": pa.array([MOMENT, None, MOMENT], pa.timestamp("us", "UTC")), "name": ["Ada", "", None]}
    )
    deltalake.write_deltalake(folder / "warehouse" / "main" / "orders", rows)
    return folder


@pytest.mark.usefixtures("shop")
def test_rows_are_shown_in_columns(cli):
    shown = cli("show", "orders")
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert shown.stdout == (
        "  id  at                       name\n"
        "   1  2024-01-31 21:00:00 UTC  Ada\n"
        "  20  NULL                     ''\n"
        "   3  2024-01-31 21:00:00 UTC  NULL\n"
        "  3 rows\n"
    )
    assert cli("show", "main.orders", "--limit", "2").stdout.splitlines()[-1] == "  the first 2 rows"
    assert cli("show", "warehouse/main/orders", "-n", "1", "--quiet").stdout == ""


@pytest.mark.usefixtures("shop")
def test_rows_as_json_have_their_types(cli):
    assert json.loads(cli("show", "orders", "--limit", "2", "--format", "json").stdout) == {
        "table": "orders",
        "total": None,
        "rows": [
            {"id": 1, "at": "2024-01-31T21:00:00Z", "name": "Ada"},
            {"id": 20, "at": None, "name": ""},
        ],
    }


def test_a_dataset_has_the_columns_of_all_its_files(folder: Path, cli):
    for day, rows in {1: {"id": [1]}, 2: {"id": [2], "v": ["b"]}}.items():
        (folder / "data" / f"day={day}").mkdir(parents=True)
        pq.write_table(pa.table(rows), folder / "data" / f"day={day}" / "part.parquet")
    assert cli("show", "data").stdout == "  id  day  v\n   1    1  NULL\n   2    2  b\n  2 rows\n"
    assert cli("show", "data", "-n", "1").stdout.splitlines()[:2] == ["  id  day  v", "   1    1  NULL"]
    (folder / "data" / "day=1" / "part.parquet").write_bytes(b"PAR1 no PAR1")
    assert "part.parquet cannot be read as a Parquet file: " in cli("show", "data").stderr
    assert cli("show", "data").stderr.count("part.parquet") == 1


def test_a_table_without_rows_shows_its_columns(folder: Path, cli):
    deltalake.write_deltalake(
        folder / "empty", pa.table({"id": pa.array([], pa.int64()), "v": pa.array([], pa.string())})
    )
    assert cli("show", "empty").stdout == "  0 rows of id, v\n"
    log = folder / "emptied" / "_tidemill" / "log"
    log.mkdir(parents=True)
    columns = {"type": "struct", "fields": [{"name": name, "type": "long"} for name in ("Id", "v")]}
    (log / f"{1:020d}.json").write_text(Entry(1, "id", "attempt", "", "MERGE", schema=json.dumps(columns)).to_json())
    assert cli("show", "emptied").stdout == "  0 rows of Id, v\n"


def test_partitions_are_shown_as_they_are(folder: Path, cli):
    """All are NULL, or texts that only look like numbers, as the log knows."""
    for place in ("none/p=__HIVE_DEFAULT_PARTITION__", "zips/zip=007"):
        (folder / place).mkdir(parents=True)
        pq.write_table(pa.table({"id": [1]}), folder / place / "1.parquet")
    assert cli("show", "none").stdout == "  id  p\n   1  NULL\n  1 row\n"
    assert cli("show", "zips").stdout == "  id  zip\n   1    7\n  1 row\n"
    log = folder / "zips" / "_tidemill" / "log"
    log.mkdir(parents=True)
    columns = {"type": "struct", "fields": [{"name": "id", "type": "long"}, {"name": "zip", "type": "string"}]}
    entry = Entry(1, "id", "attempt", "", "MERGE", partition_by=("zip",), schema=json.dumps(columns))
    (log / f"{1:020d}.json").write_text(entry.to_json())
    assert cli("show", "zips").stdout == "  id  zip\n   1  007\n  1 row\n"


def test_files_of_a_dataset_may_differ_in_their_columns(folder: Path, cli):
    path = folder / "data" / "_day=2024-01-31"
    path.mkdir(parents=True)
    late = pa.array([datetime(9999, 12, 31, tzinfo=UTC).replace(tzinfo=None)], pa.timestamp("us"))
    pq.write_table(
        pa.table({"ID": [1], "v": pa.nulls(1), "at": late}), path / "1.parquet", use_deprecated_int96_timestamps=True
    )
    pq.write_table(pa.table({"id": [2], "v": ["b"], "more": [0.5]}), path / "2.parquet")
    shown = cli("show", "data")
    assert shown.exit_code == 0
    assert shown.stdout == (
        "  ID  v     at                   _day        more\n"
        "   1  NULL  9999-12-31 00:00:00  2024-01-31  NULL\n"
        "   2  b     NULL                 2024-01-31   0.5\n"
        "  2 rows\n"
    )


@pytest.mark.usefixtures("shop")
def test_a_misspelled_name_a_table_not_made_and_a_wrong_path_say_what_to_do(cli):
    wrong = cli("show", "ordres")
    assert (wrong.exit_code, wrong.stderr) == (
        2,
        "error[table.unknown] No table ordres is declared.\n  Did you mean orders?\n",
    )
    unmade = cli("show", "daily")
    assert (unmade.exit_code, unmade.stderr) == (
        2,
        "error[table.not_made] daily is declared, and not made yet.\n  Make it: tidemill run.\n",
    )
    assert "error[table.not_made]" in cli("show", "orders", "--profile", "prod").stderr
    assert (
        cli("show", "no/such").stderr == "error[table.missing] There is no table at no/such.\n"
        "  Give the path of a table.\n"
    )


@pytest.mark.usefixtures("shop")
def test_no_java_and_no_pyspark_is_needed(shell):
    result = shell("show", "orders", **NO_JAVA)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.endswith("  3 rows\n")


def test_rows_that_are_marked_as_deleted_are_not_shown(spark: SparkSession, folder: Path, shell):
    target = str(folder / "lake")
    before = pa.table({"id": [1, 2, 3], "a name": ["a", "b", "c"]})
    tidemill.merge(before, target, on="id", spark=spark)
    tidemill.merge(pa.table({"id": [2], "a name": ["B"]}), target, on="id", spark=spark)
    last = (folder / "lake" / "_delta_log" / f"{1:020d}.json").read_text()
    assert '"deletionVector"' in last
    found = json.loads(shell("show", "lake", "--format", "json", **NO_JAVA).stdout)
    assert sorted(found["rows"], key=lambda row: row["id"]) == [
        {"id": 1, "a name": "a"},
        {"id": 2, "a name": "B"},
        {"id": 3, "a name": "c"},
    ]
    assert found["total"] == 3
    assert shell("show", "lake", "-n", "2", **NO_JAVA).stdout.splitlines()[-1] == "  2 of 3 rows"


def test_a_table_that_only_spark_can_read_is_read_by_spark(spark: SparkSession, folder: Path, cli):
    path = folder / "wide"
    rows = spark.sql("SELECT 1 AS id, TIMESTAMP '2024-01-31 21:00:00' AS at")
    rows.write.format("delta").option("delta.enableTypeWidening", "true").save(str(path))
    spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN id TYPE BIGINT")
    result = cli("show", "wide")
    assert (result.exit_code, result.stdout) == (
        0,
        "  id  at\n   1  2024-01-31 21:00:00 UTC\n  1 row\n",
    )


@pytest.mark.parametrize(
    ("value", "in_a_cell", "in_json"),
    [
        (None, "NULL", None),
        ("", "''", ""),
        ("a\nb\tc", r"a\nb\tc", "a\nb\tc"),
        ("ö" * 70, "ö" * 59 + "…", "ö" * 70),
        (True, "true", True),
        (1.5, "1.5", 1.5),
        (float("nan"), "nan", "nan"),
        (float("-inf"), "-inf", "-inf"),
        (Decimal("1.50"), "1.50", "1.50"),
        (date(2024, 1, 31), "2024-01-31", "2024-01-31"),
        (MOMENT, "2024-01-31 21:00:00 UTC", "2024-01-31T21:00:00Z"),
        (MOMENT.replace(tzinfo=None, microsecond=5), "2024-01-31 21:00:00.000005", "2024-01-31T21:00:00.000005"),
        (b"\x00\xff", "00ff", "00ff"),
        ([1, None], "[1, null]", [1, None]),
        ({"a": MOMENT}, '{"a": "2024-01-31T21:00:00Z"}', {"a": "2024-01-31T21:00:00Z"}),
        ([("key", Decimal(1))], '[["key", "1"]]', [["key", "1"]]),
    ],
)
def test_every_value_is_one_cell_and_whole_in_json(value, in_a_cell, in_json):
    assert cell(value) == in_a_cell
    assert plain(value) == in_json
    json.dumps(plain(value), allow_nan=False)
