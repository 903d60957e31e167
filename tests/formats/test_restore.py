"""Rows and progress go back together, and a run under way notices."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import deltalake
import pytest
from support import events, events_table, fed, feed, held, ids, together, version

import tidemill
from tidemill.declarations import Append, Merge
from tidemill.formats.delta.store import DeltaStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemill.model.strategy import Strategy

DAY_1 = events((1, 1, "a"), (2, 2, "b"))
DAY_2 = events((1, 1, "a"), (2, 2, "b"), (3, 30, "c"))
DAY_3 = events((1, 1, "a"), (2, 2, "b"), (3, 30, "c"), (4, 60, "d"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events"


def test_rows_and_watermark_go_back_together(spark: SparkSession, path: Path) -> None:
    table = events_table(path, back=None)
    fed(spark, table, DAY_1, DAY_2, DAY_3)
    result = tidemill.restore(path, to=0, spark=spark)
    assert (result.restored, result.total, result.watermark) == (0, 2, "2024-01-01 02:00:00 UTC")
    assert ids(held(path)) == [1, 2]
    again = feed(spark, table, DAY_3)
    assert again.window is not None
    assert again.window.reason == "since 2024-01-01 02:00:00 UTC"
    assert ids(held(path)) == [1, 2, 3, 4]


def test_a_restore_is_a_commit_with_a_record_and_can_be_undone(spark: SparkSession, path: Path) -> None:
    table = events_table(path, back=None)
    fed(spark, table, DAY_1, DAY_2)
    tidemill.restore(path, to=0, spark=spark)
    newest = tidemill.history(path)[0]
    assert newest.record is not None
    assert (newest.record.strategy, newest.record.restored_from) == ("restore", 0)
    result = tidemill.restore(path, to=1, spark=spark)
    assert result.watermark == "2024-01-02 06:00:00 UTC"
    assert ids(held(path)) == [1, 2, 3]


def test_a_version_that_is_not_there_is_an_error_that_says_which_are(spark: SparkSession, path: Path) -> None:
    feed(spark, events_table(path), DAY_1)
    with pytest.raises(tidemill.TidemillError) as caught:
        tidemill.restore(path, to=7, spark=spark)
    assert str(caught.value) == (
        f"[restore.no_version] {path} has no version 7: it is at 0, and its log goes back to 0. "
        "Choose a version that tidemill history shows."
    )


def test_a_version_whose_files_are_gone_is_an_error_that_says_so(spark: SparkSession, path: Path) -> None:
    fed(spark, events_table(path, back=None), DAY_1, DAY_2)
    old = deltalake.DeltaTable(path).file_uris()
    deltalake.write_deltalake(path, DAY_3, mode="overwrite")
    for file in old:
        Path(file).unlink()  # as a vacuum does
    theirs = spark.newSession()
    theirs.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    with pytest.raises(tidemill.TidemillError) as caught:
        tidemill.restore(path, to=1, spark=theirs)
    assert str(caught.value) == (
        f"[restore.files_gone] {path} cannot go back to version 1: a vacuum has removed files of it. "
        "Choose a later version, or a backup. Its rows are as they were."
    )
    assert (version(path), ids(held(path))) == (2, [1, 2, 3, 4])


@pytest.mark.parametrize("strategy", [Append(), Merge(("id",))], ids=str)
def test_a_restore_while_a_run_is_under_way_makes_it_plan_again(
    spark: SparkSession, path: Path, strategy: Strategy
) -> None:
    """The run planned to read since day 2; after the restore to day 1 it must read from there."""
    table = events_table(path, strategy, back=None)
    fed(spark, table, DAY_1, DAY_2)
    feed(spark, table, DAY_3, meanwhile=lambda: tidemill.restore(path, to=0, spark=spark))
    assert ids(held(path)) == [1, 2, 3, 4]


def test_a_restore_and_a_run_at_once_lose_nothing(spark: SparkSession, path: Path) -> None:
    table = events_table(path, back=None)
    fed(spark, table, DAY_1, DAY_2)
    failures = together(lambda: feed(spark, table, DAY_3), lambda: tidemill.restore(path, to=0, spark=spark))
    assert failures == []
    feed(spark, table, DAY_3)
    assert ids(held(path)) == [1, 2, 3, 4]


def test_a_restore_cut_short_after_its_rows_is_whole(spark: SparkSession, path: Path) -> None:
    """The restored rows and their record are one commit; the sequence number that follows only guards."""
    table = events_table(path, back=None)
    fed(spark, table, DAY_1, DAY_2)
    store = DeltaStore(str(path))
    snapshot, old = store.snapshot(), store.log.commit(0)
    assert snapshot is not None
    assert old is not None
    assert old.record is not None
    store.restore(spark, 0, old.record.with_(run_id="cut", sequence=snapshot.sequence + 2, restored_from=0))
    again = feed(spark, table, DAY_3)
    assert again.window is not None
    assert again.window.reason == "since 2024-01-01 02:00:00 UTC"
    assert ids(held(path)) == [1, 2, 3, 4]
