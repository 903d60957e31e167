"""`tidemill merge`, in this process on the shared Spark: what it prints, and what it keeps in the ledger."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from delta_rows import delta_rows

import tidemill

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("spark")


def without_seconds(text: str) -> str:
    """The text up to the seconds, which stand last."""
    return "\n".join(line.rpartition("   ")[0] if line.endswith(" s") else line for line in text.splitlines())


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "orders"
    rows = pa.table({"order_id": [1, 2], "region": ["eu", "us"], "amount": [10.5, 20.0]})
    tidemill.merge(rows, path, on="order_id", spark=spark)
    return path


@pytest.fixture
def orders(made: Path, folder: Path, write_csv) -> Path:
    """A table with two orders, and the file that they came from."""
    write_csv(folder / "orders.csv", "1,eu,10.5", "2,us,20.0")
    return shutil.copytree(made, folder / "lake" / "orders")


def test_a_first_run_a_change_and_the_same_again(folder: Path, cli, write_csv):
    write_csv(folder / "orders.csv", "1,eu,10.5", "2,us,20.0")
    first = cli("merge", "orders.csv", "lake/orders", "--on", "order_id")
    write_csv(folder / "more.csv", "2,us,21.0", "3,us,7.0", "1,eu,10.5")
    second = cli("merge", "more.csv", "lake/orders", "--on", "order_id")
    third = cli("merge", "more.csv", "lake/orders", "--on", "order_id")
    assert [first.exit_code, second.exit_code, third.exit_code] == [0, 0, 0]
    assert without_seconds(first.output) == (
        "  ✓ orders  first run · merged 2 rows on order_id · 2 inserted · 2 rows in all"
    )
    assert without_seconds(second.output) == (
        "  ✓ orders  merged 3 rows on order_id · 1 inserted · 1 updated · 1 unchanged · 3 rows in all"
    )
    assert without_seconds(third.output) == (
        "  ✓ orders  unchanged · compared 3 rows on order_id · nothing written · 3 rows in all"
    )
    steps = ledger_rows(folder, "SELECT status, mode, rows_read, inserted, updated, unchanged, version FROM steps")
    assert steps == [
        ("created", "first", 2, 2, 0, 0, 0),
        ("changed", "incremental", 3, 1, 1, 1, 1),
        ("unchanged", "incremental", 3, 0, 0, 3, 1),
    ]
    assert ledger_rows(folder, "SELECT command, ok FROM runs") == [
        ("merge orders.csv lake/orders", 1),
        ("merge more.csv lake/orders", 1),
        ("merge more.csv lake/orders", 1),
    ]
    (state,) = ledger_rows(folder, "SELECT model_name, strategy, version, rows_read, rows_written FROM model_state")
    assert state == ("lake/orders", "merge upsert", 1, 3, 0)


def ledger_rows(folder: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(folder / "state" / "tidemill" / "ledger.db")) as ledger:
        return ledger.execute(sql).fetchall()


def test_json_is_one_document_with_stable_keys(orders: Path, cli, write_csv):
    write_csv(Path("more.csv"), "2,us,21.0", "3,us,7.0")
    result = cli("merge", "more.csv", "lake/orders", "--on", "order_id", "--format", "json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found.pop("seconds") > 0
    assert found == {
        "table": "lake/orders",
        "path": str(orders),
        "strategy": "merge upsert",
        "keys": ["order_id"],
        "status": "changed",
        "first_run": False,
        "rows": 2,
        "inserted": 1,
        "updated": 1,
        "deleted": 0,
        "unchanged": 0,
        "ignored": 0,
        "total": 3,
        "version": 1,
        "files_rewritten": found["files_rewritten"],
        "files_kept": found["files_kept"],
        "notices": [],
    }


def test_rows_that_are_skipped_are_a_notice(folder: Path, cli, write_csv):
    write_csv(folder / "orders.csv", "1,eu,10.5", "1,eu,11.5", "2,us,20.0")
    args = ("--strategy", "deduplicate", "--dedup-order-by", "amount")
    result = cli("merge", "orders.csv", "lake/orders", "--on", "order_id, region", *args)
    assert without_seconds(result.output) == (
        "  ✓ orders  first run · merged 2 rows on order_id, region · 2 inserted · 2 rows in all\n"
        "  notice  1 of 3 rows skipped: one row per key is kept"
    )


@pytest.mark.usefixtures("orders")
def test_ignored_rows_are_counted_and_partitions_kept_when_nothing_is_written(folder: Path, cli, write_csv):
    write_csv(folder / "more.csv", "2,us,99.0")
    args = ("--on", "order_id", "--strategy", "insert", "--partition-by", "region")
    result = cli("merge", "more.csv", "lake/orders", *args)
    assert without_seconds(result.output) == (
        "  ✓ orders  unchanged · compared 1 row on order_id · 1 ignored · nothing written · 2 rows in all\n"
        "  notice  lake/orders stays without partitions: --partition-by is for new tables"
    )


def test_files_of_other_habits_are_read_by_options(folder: Path, cli):
    (folder / "excel.csv").write_bytes('id;city\n1;Köln\n2;"a;b\nc"\n'.encode("latin-1"))
    options = ("--option", "sep=;", "--option", "encoding=ISO-8859-1")
    result = cli("merge", "excel.csv", "lake/cities", "--on", "id", *options)
    assert without_seconds(result.output) == (
        "  ✓ cities  first run · merged 2 rows on id · 2 inserted · 2 rows in all"
    )
    assert delta_rows(folder / "lake" / "cities") == [(1, "Köln"), (2, "a;b\nc")]


@pytest.mark.usefixtures("orders")
def test_quiet_prints_nothing_also_of_a_pattern(cli):
    result = cli("merge", "ord*.csv", "lake/orders", "--on", "order_id", "--quiet")
    assert (result.exit_code, result.output) == (0, "")


@pytest.mark.usefixtures("orders")
def test_verbose_says_on_stderr_what_is_done(cli):
    result = cli("merge", "orders.csv", "lake/orders", "--on", "order_id", "--verbose")
    assert "info  lake/orders: merge upsert, everything is read, and only what differs is written" in result.stderr
    assert "info" not in result.stdout


@pytest.mark.usefixtures("orders")
def test_a_failed_step_ends_with_1_and_is_in_the_ledger(folder: Path, cli, write_csv):
    write_csv(folder / "bad.csv", ",eu,1.5", "3,us,7.0")
    result = cli("merge", "bad.csv", "lake/orders", "--on", "order_id")
    assert result.exit_code == 1
    assert result.stderr == (
        "error[merge.null_keys] 1 row has no order_id; keys cannot be NULL.\n"
        "  Leave such rows out, or choose other keys. lake/orders is unchanged.\n"
    )
    assert ledger_rows(folder, "SELECT status, error_code, version FROM steps ORDER BY step_id DESC LIMIT 1") == [
        ("failed", "merge.null_keys", None)
    ]
    assert ledger_rows(folder, "SELECT ok FROM runs ORDER BY started DESC LIMIT 1") == [(0,)]
    assert ledger_rows(folder, "SELECT status FROM model_state") == []


def test_an_empty_source_is_not_the_whole_disk(cli):
    result = cli("merge", "", "lake/orders", "--on", "order_id")
    assert result.exit_code == 2
    assert result.stderr == (
        "error[table.no_path] '' is no path.\n  Give the path of a table, or of the files that are read.\n"
    )


def test_a_source_that_is_not_there_is_found_before_spark_starts(folder: Path, shell):
    result = shell("merge", "nowhere.csv", "lake/orders", "--on", "order_id", JAVA_HOME="/nowhere", PATH="/nowhere")
    assert result.returncode == 2
    assert result.stderr == (
        f"error[source.missing] There is nothing at {folder}/nowhere.csv.\n"
        "  Give the path of a file, a folder or a Delta table.\n"
    )


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (("--max-shrink", "0.1"), "merge.max_shrink"),
        (("--table-format", "excel"), "table.unknown_format"),
        (("--option", "sep"), "variables.bad_pair"),
        (("--option", "seperator=;"), "source.unknown_option"),
        (("--on", "ORDER_ID"), "merge.repeated_key"),
    ],
)
def test_wrong_flags_end_with_2_and_leave_no_trace(folder: Path, cli, write_csv, flags, code):
    write_csv(folder / "orders.csv", "1,eu,10.5")
    result = cli("merge", "orders.csv", "lake/orders", "--on", "order_id", *flags)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error[{code}] ")
    assert not (folder / "state").exists()


def test_a_ledger_that_cannot_be_written_is_a_warning(folder: Path, cli, write_csv):
    (folder / "state").write_text("a file where a folder should be")
    write_csv(folder / "orders.csv", "1,eu,10.5")
    result = cli("merge", "orders.csv", "lake/orders", "--on", "order_id")
    assert result.exit_code == 0
    assert "1 inserted" in result.stdout
    assert "warning  This run is not in the ledger" in result.stderr
    assert "Tables and their progress do not depend on it" in result.stderr


def test_a_project_has_its_own_ledger(folder: Path, cli, write_csv):
    (folder / "tidemill.toml").write_text('name = "shop"\n')
    write_csv(folder / "orders.csv", "1,eu,10.5")
    assert cli("merge", "orders.csv", "lake/orders", "--on", "order_id").exit_code == 0
    assert (folder / ".tidemill" / "ledger.db").is_file()
    assert not (folder / "state").exists()
