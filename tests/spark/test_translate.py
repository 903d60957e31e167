from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest
from delta.exceptions import ConcurrentWriteException
from pyspark.sql.functions import udf

from tidemill.errors import ArgumentError, EngineError, TableError
from tidemill.spark.errors import as_tidemill, condition_of, is_conflict, one_line, translated
from tidemill.spark.jvm import log_file
from tidemill.spark.session import step_session

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


class Slow:
    """Rows that a write waits for, so that somebody else can commit between its start and its end."""

    def __init__(self, folder: Path) -> None:
        self.started, self.go = folder / "started", folder / "go"

    def rows(self, spark: SparkSession) -> DataFrame:
        started, go = str(self.started), str(self.go)

        def wait(value):
            from pathlib import Path as Here  # noqa: PLC0415 - runs on a worker

            Here(started).touch()
            deadline = time.monotonic() + 60
            while not Here(go).exists() and time.monotonic() < deadline:
                time.sleep(0.02)
            return value

        return spark.range(1, 3, 1, 1).select(udf(wait, "bigint")("id").alias("id"))


def conflict(slow: Slow, ours: Callable[[], object], theirs: Callable[[], object]) -> BaseException:
    """What our write raises when theirs commits while it is under way."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            ours()
        except Exception as error:  # noqa: BLE001 - it is what the test looks at
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    while not slow.started.exists() and thread.is_alive():
        time.sleep(0.02)
    try:
        theirs()
    finally:
        slow.go.touch()
        thread.join()
    assert raised
    return raised[0]


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> str:
    path = tmp_path / "table"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT) USING delta TBLPROPERTIES ('delta.isolationLevel' = 'Serializable')"
    )
    spark.range(10).coalesce(1).write.format("delta").mode("append").save(str(path))
    return str(path)


def merge(spark: SparkSession, rows: DataFrame, table: str) -> None:
    rows.createOrReplaceTempView("slow_rows")
    spark.sql(
        f"MERGE INTO delta.`{table}` t USING slow_rows s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET id = s.id + 100 WHEN NOT MATCHED THEN INSERT *"
    )


def append(rows: DataFrame, table: str, sequence: int = 0) -> None:
    writer = rows.write.format("delta").mode("append")
    if sequence:
        writer = writer.option("txnAppId", "test").option("txnVersion", sequence)
    writer.save(table)


def test_a_foreign_append_during_a_merge_is_a_conflict(spark: SparkSession, table: str, tmp_path: Path):
    slow, own = Slow(tmp_path), step_session(spark)
    error = conflict(slow, lambda: merge(own, slow.rows(own), table), lambda: append(spark.range(3), table))
    assert is_conflict(error)
    assert "oncurrentAppend" in repr(type(error)) + str(error)


def test_a_foreign_delete_during_a_merge_is_a_conflict(spark: SparkSession, table: str, tmp_path: Path):
    slow, own = Slow(tmp_path), step_session(spark)
    error = conflict(
        slow,
        lambda: merge(own, slow.rows(own), table),
        lambda: spark.sql(f"DELETE FROM delta.`{table}` WHERE id >= 0"),
    )
    assert is_conflict(error)
    assert "oncurrentDelete" in repr(type(error)) + str(error)


def test_the_same_sequence_number_twice_is_a_conflict(spark: SparkSession, table: str, tmp_path: Path):
    slow = Slow(tmp_path)
    error = conflict(
        slow,
        lambda: append(slow.rows(spark), table, sequence=7),
        lambda: append(spark.range(3), table, sequence=7),
    )
    assert is_conflict(error)
    assert "oncurrentTransaction" in repr(type(error)) + str(error)


def test_a_foreign_change_of_the_columns_is_a_conflict(spark: SparkSession, table: str, tmp_path: Path):
    slow = Slow(tmp_path)
    error = conflict(
        slow,
        lambda: append(slow.rows(spark), table),
        lambda: spark.sql(f"ALTER TABLE delta.`{table}` ADD COLUMN other INT"),
    )
    assert is_conflict(error)
    assert "etadataChanged" in repr(type(error)) + str(error)


def test_a_foreign_change_of_the_properties_is_a_conflict(spark: SparkSession, table: str, tmp_path: Path):
    slow = Slow(tmp_path)
    change = f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('delta.appendOnly' = 'true')"
    error = conflict(slow, lambda: append(slow.rows(spark), table), lambda: spark.sql(change))
    assert is_conflict(error)
    assert "etadataChanged" in repr(type(error)) + str(error)


def test_two_that_make_the_same_table_are_a_conflict(spark: SparkSession, tmp_path: Path):
    slow, path = Slow(tmp_path), str(tmp_path / "new")
    error = conflict(
        slow,
        lambda: append(slow.rows(spark), path),
        lambda: append(spark.range(3), path),
    )
    assert is_conflict(error)


def test_a_conflict_is_known_by_deltas_python_class_and_as_a_cause():
    error = RuntimeError("wrapped")
    error.__cause__ = ConcurrentWriteException(message="somebody wrote")
    assert is_conflict(error)
    assert not is_conflict(RuntimeError("ConcurrentAppendException is only a word here"))


@pytest.mark.parametrize(
    ("query", "condition", "problem"),
    [
        (
            "SELECT * FROM nowhere",
            "TABLE_OR_VIEW_NOT_FOUND",
            (
                "The table or view `nowhere` cannot be found. "
                "Verify the spelling and correctness of the schema and catalog."
            ),
        ),
        ("SELEC 1", "PARSE_SYNTAX_ERROR", "Syntax error at or near 'SELEC'."),
        ("SELECT raise_error('boo') FROM range(9)", "USER_RAISED_EXCEPTION", "boo"),
    ],
)
def test_sparks_error_becomes_one_line(spark: SparkSession, query: str, condition: str, problem: str):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - Spark has many classes
        spark.sql(query).collect()
    error = as_tidemill(caught.value, doing="reading orders")
    assert isinstance(error, EngineError)
    assert error.code == "engine.spark_failed"
    assert error.problem == f"reading orders failed: {problem}"
    assert error.remedy == f"Spark's own words are in {log_file()}."
    assert condition_of(caught.value) == condition
    assert not is_conflict(caught.value)


def test_a_file_that_cannot_be_read_is_named_with_what_is_wrong_with_it(spark: SparkSession, tmp_path: Path):
    (tmp_path / "orders.parquet").write_text("this is no Parquet file")
    with pytest.raises(EngineError) as error, translated("reading orders"):
        spark.read.schema("id INT").parquet(str(tmp_path)).collect()
    assert error.value.problem.startswith("reading orders failed: Encountered error while reading file file:///")
    assert "/orders.parquet. " in error.value.problem
    assert "is not a Parquet file" in error.value.problem


def test_an_error_in_a_users_function_is_that_error(spark: SparkSession):
    def divide(value):
        return value / 0

    with pytest.raises(EngineError) as error, translated("reading orders"):
        spark.range(1).select(udf(divide)("id")).collect()
    assert error.value.problem == "reading orders failed: ZeroDivisionError: division by zero"


def test_what_a_table_refuses_is_reported_with_the_values():
    told = "[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK constraint pos (v > 0) violated by row with values:\n - v : -5"
    error = as_tidemill(RuntimeError(f"{told}\n - w : 1"), doing="Merging into orders")
    assert isinstance(error, TableError)
    assert str(error) == (
        "[table.refuses] Merging into orders failed: CHECK constraint pos (v > 0) violated by row with values: "
        "v : -5, w : 1. The table has this rule: correct the rows in the source, or change the table. It is unchanged."
    )
    told = "[UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE] The a.B@3ba3 datasource doesn't support `v`. SQLSTATE: 0A000"
    error = as_tidemill(RuntimeError(told), doing="Merging")
    assert error.problem == "Merging failed: The table's format doesn't support `v`."


def test_files_whose_schemas_cannot_be_merged_are_reported_with_the_columns():
    told = (
        "[CANNOT_MERGE_SCHEMAS] Failed merging schemas:\nInitial schema:\n"
        '"STRUCT<id: BIGINT, v: STRING, at: DATE, x: DECIMAL(9,2)>"\n'
        "Schema that cannot be merged with the initial schema:\n"
        '"STRUCT<v: INT, id: BIGINT, more: INT, at: TIMESTAMP>". SQLSTATE: 42KD9'
    )
    problem = "Files have columns of unlike types: v is STRING and INT, at is DATE and TIMESTAMP."
    assert one_line(RuntimeError(told)) == problem


def test_the_whole_error_is_kept_in_the_log(spark: SparkSession):
    with pytest.raises(EngineError), translated("reading orders"):
        spark.sql("SELECT a_column_of_its_own FROM range(3)")
    log = log_file()
    assert log is not None
    assert "a_column_of_its_own" in log.read_text()


def test_an_error_of_ours_stays_as_it_is():
    error = ArgumentError("a.code", "What happened.", "What to do.")
    assert as_tidemill(error, doing="anything") is error
