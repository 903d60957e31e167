"""A backup holds rows and progress, and a restore from it is one commit that can be taken back."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from support import events, events_table, feed, held, ids

import tidemill
from tidemill.api import moment_of
from tidemill.declare.strategies import Merge
from tidemill.run.restore import version_at
from tidemill.state.delta_log import DeltaLog

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

DAY_1 = events((1, 1, "a"), (2, 2, "b"))
DAY_2 = events((1, 1, "a"), (2, 2, "b"), (3, 30, "c"))
LATER = events((1, 1, "a"), (2, 2, "b"), (3, 30, "c"), (4, 60, "d"))
AFTER_DAY_1 = "since 2024-01-01 02:00:00 UTC"


def since(result) -> str:
    assert result.window is not None
    return result.window.reason


def test_rows_and_progress_come_back_from_a_backup_and_go_again(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "events"
    kept = {"delta.logRetentionDuration": "interval 40 days"}
    table = events_table(path, Merge(("id",)), back=None, properties=kept, partition_by=("value",))
    feed(spark, table, DAY_1)
    copied = tidemill.backup(path, spark=spark)
    assert copied.path.startswith(f"{path}__backup_20")
    assert (copied.version, copied.total, copied.watermark) == (0, 2, "2024-01-01 02:00:00 UTC")
    snapshot = DeltaLog(copied.path).snapshot()
    assert snapshot is not None
    assert (snapshot.rows, snapshot.partition_columns) == (2, ("value",))
    assert kept.items() <= snapshot.properties.items()
    feed(spark, table, DAY_2)

    back = tidemill.restore(path, backup=copied.path, spark=spark)
    assert (back.version, back.restored, back.backup, back.undo) == (2, None, copied.path, 1)
    assert (back.total, back.watermark) == (2, "2024-01-01 02:00:00 UTC")
    newest, before, _ = tidemill.history(path)
    assert newest.record is not None
    assert before.record is not None
    assert (newest.record.strategy, newest.record.restored_from) == ("restore", copied.path)
    assert newest.record.sequence == before.record.sequence + 1
    restored = DeltaLog(str(path)).snapshot()
    assert restored is not None
    assert (restored.rows, restored.partition_columns) == (2, ("value",))
    assert ids(held(spark, path)) == [1, 2]

    tidemill.restore(path, to=1, spark=spark)
    assert ids(held(spark, path)) == [1, 2, 3]
    tidemill.restore(path, backup=copied.path, spark=spark)
    again = feed(spark, table, LATER)
    assert (since(again), again.counts.inserted) == (AFTER_DAY_1, 2)

    shutil.rmtree(path)
    made = tidemill.restore(path, backup=copied.path, spark=spark)
    assert (made.version, made.undo) == (0, None)
    again = feed(spark, table, LATER)
    assert (since(again), again.first_run) == (AFTER_DAY_1, False)
    assert ids(held(spark, path)) == [1, 2, 3, 4]


def test_a_backup_made_by_others_is_taken_as_far_as_its_rows_go(spark: SparkSession, tmp_path: Path) -> None:
    path, backup = tmp_path / "events", tmp_path / "copy"
    table = events_table(path, Merge(("id",)), back=None)
    feed(spark, table, LATER)
    spark.read.format("delta").load(str(path)).where("id < 4").write.format("delta").save(str(backup))
    back = tidemill.restore(path, backup=backup, spark=spark)
    assert (back.total, back.watermark) == (3, None)
    again = feed(spark, table, LATER)
    assert since(again) == "since its highest at 2024-01-02 06:00:00 UTC"
    assert ids(held(spark, path)) == [1, 2, 3, 4]


def test_a_restore_while_a_run_is_under_way_makes_it_plan_again(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "events"
    table = events_table(path, Merge(("id",)), back=None)
    feed(spark, table, DAY_1)
    copied = tidemill.backup(path, tmp_path / "copy", spark=spark)
    feed(spark, table, DAY_2)
    feed(spark, table, LATER, meanwhile=lambda: tidemill.restore(path, backup=copied.path, spark=spark))
    assert ids(held(spark, path)) == [1, 2, 3, 4]
    with pytest.raises(tidemill.TidemillError) as caught:
        tidemill.backup(path, tmp_path / "copy", spark=spark)
    assert str(caught.value) == (
        f"[backup.exists] There is a table at {tmp_path}/copy already. Give the backup another name."
    )
    with pytest.raises(tidemill.TidemillError, match=rf"\[restore.no_backup\] There is no table at {tmp_path}/none."):
        tidemill.restore(path, backup=tmp_path / "none", spark=spark)
    first, last = (datetime.fromisoformat(tidemill.history(path)[n].at) for n in (-1, 0))
    log = DeltaLog(str(path))
    assert [version_at(log, moment) for moment in (first, last)] == [0, log.version()]
    assert tidemill.restore(path, at=first, spark=spark).restored == 0
    assert ids(held(spark, path)) == [1, 2]
    with pytest.raises(tidemill.TidemillError) as caught:
        tidemill.restore(path, at="2001-01-01T00:00:00Z", spark=spark)
    assert f"[restore.too_early] {path} has no version of 2001-01-01 00:00:00 UTC: its log begins at" in str(
        caught.value
    )


def test_a_restore_goes_back_to_one_thing() -> None:
    for ways in ({}, {"to": 1, "at": "2024-01-01"}, {"to": 0, "backup": "copy"}):
        with pytest.raises(tidemill.TidemillError, match=r"\[restore.one_way\] A restore goes back to one of three"):
            tidemill.restore("events", **ways)


def test_a_moment_is_by_the_clock_of_this_machine_unless_it_has_a_zone() -> None:
    assert moment_of("2026-02-04T06:00:00+02:00") == datetime(2026, 2, 4, 4, tzinfo=UTC)
    assert moment_of("2026-02-04 06:00") == datetime(2026, 2, 4, 6).astimezone()
    with pytest.raises(tidemill.TidemillError) as caught:
        moment_of("tomorrow")
    assert str(caught.value) == (
        "[restore.bad_time] 'tomorrow' is no moment. Write it as \"2026-02-04 06:00\" or 2026-02-04T06:00:00Z."
    )
