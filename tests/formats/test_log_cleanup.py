"""Delta deletes old log files; what a table has processed survives that."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support import events, events_table, fed, feed, held, ids, keyed

from tidemill.formats.delta.store import DeltaStore
from tidemill.model.record import without_parts

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

FORGETFUL = {
    "delta.logRetentionDuration": "interval 0 days",
    "delta.deletedFileRetentionDuration": "interval 0 days",
    "delta.checkpointInterval": "1",
}
DAY_1 = events((1, 1, "a"), (2, 2, "b"))
DAY_2 = events((1, 1, "a"), (2, 2, "b"), (3, 30, "c"))
DAY_3 = events((1, 1, "a"), (2, 2, "b"), (3, 30, "c"), (4, 60, "d"))
DAYS_AGO = 3 * 24 * 3600


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events"


def age_and_clean(spark: SparkSession, path: Path) -> set[int]:
    """Makes the log old, then a foreign commit with a checkpoint and a VACUUM; the versions that are left as JSON."""
    then = time.time() - DAYS_AGO
    for file in (path / "_delta_log").iterdir():
        os.utime(file, (then, then))
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('touched' = 'yes')")
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('touched' = 'again')")
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    spark.sql(f"VACUUM delta.`{path}` RETAIN 0 HOURS")
    return {int(file.stem) for file in (path / "_delta_log").glob("*.json")}


def test_the_watermark_survives_a_log_and_files_that_are_kept_for_no_time(spark: SparkSession, path: Path) -> None:
    table = events_table(path, back=None, properties=FORGETFUL)
    fed(spark, table, DAY_1, DAY_2)
    ours = DeltaStore(str(path)).snapshot()
    assert ours is not None
    left = age_and_clean(spark, path)
    assert ours.record_version not in left
    result = feed(spark, table, DAY_3)
    assert result.window is not None
    assert result.window.reason == "since 2024-01-02 06:00:00 UTC"
    assert ids(held(path)) == [1, 2, 3, 4]


def test_a_rerun_writes_no_second_copy_of_the_record(spark: SparkSession, path: Path) -> None:
    table = events_table(path, back=None, properties=FORGETFUL)
    fed(spark, table, DAY_1)
    before = DeltaStore(str(path)).snapshot()
    feed(spark, table, DAY_1)
    after = DeltaStore(str(path)).snapshot()
    assert before is not None
    assert after is not None
    assert before.version == after.version


def test_without_a_copy_the_highest_time_of_the_rows_is_the_watermark(spark: SparkSession, path: Path) -> None:
    table = events_table(path, back=None, properties=FORGETFUL)
    fed(spark, table, DAY_2)
    spark.sql(f"ALTER TABLE delta.`{path}` UNSET TBLPROPERTIES ('tidemill.record', 'tidemill.record.version')")
    age_and_clean(spark, path)
    result = feed(spark, table, DAY_3)
    assert result.window is not None
    assert result.window.reason == "adopted: since its highest at 2024-01-02 06:00:00 UTC"
    assert ids(held(path)) == [1, 2, 3, 4]


@pytest.mark.slow
def test_a_merge_goes_on_as_before_after_the_log_was_cleaned_up(spark: SparkSession, path: Path) -> None:
    table = replace(keyed(path), properties=FORGETFUL)
    fed(spark, table, DAY_1, DAY_2)
    age_and_clean(spark, path)
    result = feed(spark, table, events((3, 30, "C"), (4, 60, "d")))
    assert (result.counts.inserted, result.counts.updated) == (1, 1)
    assert held(path)[-2:] == [(3, 30.0, "C"), (4, 60.0, "d")]


@pytest.mark.slow
def test_rows_removed_by_somebody_in_the_part_of_the_log_that_is_gone_come_back(
    spark: SparkSession, path: Path
) -> None:
    table = events_table(path, back=None, properties=FORGETFUL)
    fed(spark, table, DAY_2)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id > 1")
    age_and_clean(spark, path)
    feed(spark, table, DAY_3)
    assert ids(held(path)) == [1, 2, 3, 4]


def test_the_commit_that_keeps_the_copy_is_not_shown_as_somebody_elses(spark: SparkSession, path: Path) -> None:
    feed(spark, events_table(path, back=None, properties=FORGETFUL), DAY_1)
    commits = list(DeltaStore(str(path)).commits())
    assert [commit.operation for commit in commits if commit.prepares] == ["SET TBLPROPERTIES"]
    assert [commit.record is not None for commit in without_parts(commits)] == [True]
