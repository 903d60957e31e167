"""A backup holds rows and progress, and a restore from it is one commit that can be taken back."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import deltalake
import pytest
from support import events, events_table, feed, held, ids

import tidemill
from tidemill.api import moment_of
from tidemill.declarations import Merge
from tidemill.formats.delta.log import DeltaLog
from tidemill.maintenance.backup import version_at
from tidemill.model import RESET_ALLOWED

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tidemill import RestoreResult

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
    table = events_table(path, Merge(("id",)), back=None, properties=kept)
    feed(spark, table, DAY_1)
    copied = tidemill.backup(path, spark=spark)
    assert copied.path.startswith(f"{path}__backup_20")
    assert (copied.version, copied.total, copied.watermark) == (0, 2, "2024-01-01 02:00:00 UTC")
    snapshot = DeltaLog(copied.path).snapshot()
    assert snapshot is not None
    assert (snapshot.rows, snapshot.version) == (2, 0)
    assert kept.items() <= snapshot.properties.items()

    feed(spark, table, DAY_2)
    told: list[RestoreResult] = []
    again = feed(spark, table, LATER, lambda: told.append(tidemill.restore(path, backup=copied.path, spark=spark)))
    assert (since(again), again.counts.inserted) == (AFTER_DAY_1, 2), "a run under way plans again"
    (back,) = told
    assert (back.version, back.restored, back.backup, back.undo) == (2, None, copied.path, 1)
    assert (back.total, back.watermark) == (2, "2024-01-01 02:00:00 UTC")
    _, restored, before, first = tidemill.history(path)
    assert restored.record is not None
    assert before.record is not None
    assert (restored.record.strategy, restored.record.restored_from) == ("restore", copied.path)
    assert restored.record.sequence == before.record.sequence + 1
    assert again.total == 4, "the log knows how many rows the restored table held"

    log = DeltaLog(str(path))
    deltalake.DeltaTable(path).alter.set_table_properties({RESET_ALLOWED: "false"}, raise_if_not_exists=False)
    undone = tidemill.restore(path, at=before.at, spark=spark)
    assert (undone.restored, undone.undo) == (1, 4)
    snapshot = log.snapshot()
    assert snapshot is not None
    assert snapshot.resists_reset, "what was protected since stays so"
    assert ids(held(path)) == [1, 2, 3]
    assert version_at(log, datetime.fromisoformat(first.at)) == 0
    with pytest.raises(tidemill.TidemillError) as caught:
        version_at(log, datetime(2001, 1, 1, tzinfo=UTC))
    assert f"{path} has no version of 2001-01-01 00:00:00 UTC: its log begins at {first.at}" in caught.value.problem

    shutil.rmtree(path)
    made = tidemill.restore(path, backup=copied.path, spark=spark)
    assert (made.version, made.undo) == (0, None)
    again = feed(spark, table, LATER)
    assert (since(again), again.first_run) == (AFTER_DAY_1, False)
    assert ids(held(path)) == [1, 2, 3, 4]


def test_a_backup_made_by_others_is_taken_as_far_as_its_rows_go(spark: SparkSession, tmp_path: Path) -> None:
    path, backup = tmp_path / "events", tmp_path / "copy"
    table = events_table(path, Merge(("id",)), back=None)
    feed(spark, table, LATER)
    spark.read.format("delta").load(str(path)).where("id < 4").write.format("delta").save(str(backup))
    back = tidemill.restore(path, backup=backup, spark=spark)
    assert (back.total, back.watermark) == (3, None)
    again = feed(spark, table, LATER)
    assert since(again) == "since its highest at 2024-01-02 06:00:00 UTC"
    assert ids(held(path)) == [1, 2, 3, 4]


def test_what_is_there_is_not_replaced_by_a_backup_and_what_is_not_there_is_none(
    spark: SparkSession, tmp_path: Path
) -> None:
    for name in ("events", "copy"):
        deltalake.write_deltalake(tmp_path / name, DAY_1)
    with pytest.raises(tidemill.TidemillError) as caught:
        tidemill.backup(tmp_path / "events", tmp_path / "copy", spark=spark)
    assert str(caught.value) == (
        f"[backup.exists] There is a table at {tmp_path}/copy already. Give the backup another name."
    )
    with pytest.raises(tidemill.TidemillError) as caught:
        tidemill.restore(tmp_path / "events", backup=tmp_path / "none", spark=spark)
    assert str(caught.value) == (
        f"[restore.no_backup] There is no table at {tmp_path}/none. Give the name or the path of a backup."
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
