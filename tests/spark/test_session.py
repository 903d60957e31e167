"""The sessions of an engine: the caller's, and those of steps."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from tidemill.errors import EngineError
from tidemill.spark.jvm import CHECKPOINTS, log_file, statement_settings
from tidemill.spark.session import pace, session_for, settle, shared_view, statements, step_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_embedded_session_is_made_for_one_machine(spark: SparkSession):
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.databricks.delta.snapshotPartitions") == "1"
    assert int(spark.conf.get("spark.sql.shuffle.partitions") or 0) <= 8
    assert log_file() is not None


def test_the_session_given_is_used_as_it_is(spark: SparkSession):
    given = spark.newSession()
    before = given.conf.getAll
    assert session_for(given) is given
    assert given.conf.getAll == before


def test_without_one_given_the_embedded_session_is_used_from_every_thread(spark: SparkSession):
    found: list[SparkSession] = []
    thread = threading.Thread(target=lambda: found.append(session_for()))
    thread.start()
    thread.join()
    assert found == [spark]
    step_session(spark).sql("SELECT 1").collect()
    assert session_for() is spark


def test_a_session_without_delta_is_an_error_that_shows_the_two_settings(spark: SparkSession):
    plain = spark.newSession()
    plain.conf.set("spark.sql.catalog.spark_catalog", "org.example.Another")
    with pytest.raises(EngineError) as error:
        session_for(plain)
    assert error.value.code == "engine.no_delta"
    assert error.value.problem == "The Spark session has no Delta."
    assert error.value.remedy == (
        'Build the session with .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension") and '
        '.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog") and '
        "Delta's jars, and give it as spark=; or leave Spark to Tidemill in a process that has not started one."
    )


def test_a_step_session_has_the_settings_that_decide_what_a_query_gives(spark: SparkSession):
    caller = spark.newSession()
    settings = {
        "spark.sql.session.timeZone": "Asia/Tokyo",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.caseSensitive": "true",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
        "spark.databricks.delta.properties.defaults.appendOnly": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.csv.filterPushdown.enabled": "false",
        "fs.s3a.endpoint": "example",
    }
    for name, value in settings.items():
        caller.conf.set(name, value)
    own = step_session(caller)
    assert {name: own.conf.get(name) for name in settings} == settings


def test_a_step_sessions_commit_settings_touch_no_other_session(spark: SparkSession):
    record = "spark.databricks.delta.commitInfo.userMetadata"
    caller = spark.newSession()
    caller.conf.set(record, "the caller's")
    one, two = step_session(caller), step_session(caller)
    one.conf.set(record, "one")
    assert two.conf.get(record, None) is None
    assert caller.conf.get(record) == "the caller's"


def test_only_a_step_session_is_set_to_small_work(spark: SparkSession):
    caller = spark.newSession()
    caller.conf.set("spark.sql.adaptive.enabled", "true")
    own = step_session(caller)
    for session in (caller, own):
        pace(session, small=True)
    assert [session.conf.get("spark.sql.adaptive.enabled") for session in (caller, own)] == ["true", "false"]


def test_statements_run_under_settings_that_are_taken_back_and_leave_the_callers_session_alone(spark: SparkSession):
    caller = spark.newSession()
    caller.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    before, wanted = caller.conf.getAll, statement_settings()
    own = step_session(caller)
    for session in (caller, own):
        with statements(session, {"spark.databricks.delta.commitInfo.userMetadata": "ours"}) as found:
            assert (found is own) is (session is own)
            assert found.conf.get("spark.databricks.delta.commitInfo.userMetadata") == "ours"
            assert {name: found.conf.get(name) for name in wanted} == wanted
            assert caller.conf.getAll == before
    assert own.conf.get("spark.databricks.delta.commitInfo.userMetadata", None) is None
    assert own.conf.get("spark.sql.files.ignoreMissingFiles") == "true"


def test_rows_of_one_session_have_a_name_in_another_as_long_as_a_statement_needs_them(spark: SparkSession):
    rows, other = spark.newSession().range(3), step_session(spark)
    with shared_view(rows) as name:
        assert other.sql(f"SELECT count(*) FROM {name}").first()[0] == 3
    assert not other.catalog.tableExists(name)


def test_settled_rows_are_kept_as_a_setting_says(spark: SparkSession):
    session = spark.newSession()
    session.conf.set(CHECKPOINTS, "disk_only_2")
    assert settle(step_session(session).range(2)).count() == 2
    session.conf.set(CHECKPOINTS, "somewhere")
    with pytest.raises(EngineError, match="is somewhere, which is no storage level of Spark's"):
        settle(session.range(2))
