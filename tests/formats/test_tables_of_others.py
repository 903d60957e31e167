"""Merges into tables that Spark made: they run with the settings of their work, and no pass is made twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import deltalake
import numpy as np
import pyarrow as pa
import pytest
from delta_rows import delta_rows, delta_table
from support import Rows

import tidemill
from tidemill import MergeStrategy, Record, Table
from tidemill.declarations import Merge
from tidemill.errors import MergeError
from tidemill.execution.step import run_step
from tidemill.formats.base import COMING, HELD, UpsertRows
from tidemill.formats.delta.store import DeltaStore
from tidemill.spark.session import step_session

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

ADAPTIVE = "spark.sql.adaptive.enabled"
FEED = {"delta.enableChangeDataFeed": "true"}


def _made(spark: SparkSession, path: Path, **properties: str) -> None:
    rows = spark.range(0, 100, 1, 4).selectExpr("id AS k", "id AS v")
    rows.write.format("delta").options(**{"delta.enableDeletionVectors": "false", **properties}).save(str(path))


def _jobs(spark: SparkSession) -> int:
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


def test_a_merge_runs_with_the_settings_of_the_session_of_its_rows(spark: SparkSession, tmp_path: Path) -> None:
    """They are set to small or large work, whatever the engine was started for."""

    _made(spark, tmp_path / "t", **FEED)
    own, wanted = step_session(spark), spark.conf.get(ADAPTIVE) != "true"
    own.conf.set(ADAPTIVE, str(wanted).lower())
    change = own.range(5).selectExpr("id AS k", "-1L AS v").alias(COMING)
    same_key = f"{HELD}.k = {COMING}.k"
    operation = UpsertRows(change, same_key, "true", ("k", "v"), keys=("k",))
    store, before = DeltaStore(str(tmp_path / "t")), max(_plans(spark))
    record = Record(run_id="r", table="t", sequence=1, strategy="merge upsert", at="", rows=5)
    store.commit(spark, operation, record, store.snapshot())
    joins = [plan for number, plan in _plans(spark).items() if number > before and "Join" in plan]
    assert joins
    assert all(("AdaptiveSparkPlan" in plan) is wanted for plan in joins)


def _plans(spark: SparkSession) -> dict[int, str]:
    """Of the last queries, by their numbers."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    store = spark._jsparkSession.sharedState().statusStore()
    found = [store.executionsList().apply(n) for n in range(store.executionsList().size())]
    return {each.executionId(): each.physicalPlanDescription() for each in found}


def test_keys_that_a_table_holds_twice_are_counted_in_the_pass_that_looks_for_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A table whose keys are known to be unique takes as many jobs for it as one of which nothing is known."""
    change = spark.range(0, 200, 20).selectExpr("id AS k", "-id AS v").toArrow()
    _made(spark, tmp_path / "theirs", **{"delta.enableDeletionVectors": "true"})
    tidemill.merge(spark.range(0, 100, 1, 4).selectExpr("id AS k", "id AS v"), tmp_path / "ours", "k", spark=spark)
    theirs, ours = (_merged(spark, tmp_path / name, change) for name in ("theirs", "ours"))
    assert theirs == ours + 1  # its rows are counted, which the log of ours tells


def _merged(spark: SparkSession, path: Path, change: pa.Table) -> int:
    before = _jobs(spark)
    result = run_step(spark, Table(name="t", path=str(path), strategy=Merge(("k",))), Rows(change))
    assert (result.counts.inserted, result.counts.updated, result.counts.unchanged) == (5, 4, 1)
    return _jobs(spark) - before


@pytest.mark.parametrize("form", [MergeStrategy.UPSERT, MergeStrategy.INSERT, MergeStrategy.UPDATE])
def test_keys_that_a_table_holds_twice_are_an_error(spark: SparkSession, tmp_path: Path, form: MergeStrategy) -> None:
    _made(spark, tmp_path / "t")
    spark.sql("SELECT 7L AS k, 8L AS v").write.format("delta").mode("append").save(str(tmp_path / "t"))
    with pytest.raises(MergeError, match="holds 1 key of this change more than once: 7"):
        tidemill.merge(spark.range(5, 10).selectExpr("id AS k", "0L AS v"), tmp_path / "t", "k", form, spark=spark)


def test_a_table_without_deletion_vectors_gets_none(spark: SparkSession, tmp_path: Path) -> None:
    """Rows of the same keys are replaced there too: no MERGE, and only files that hold one are rewritten."""
    _made(spark, tmp_path / "t")
    change = spark.sql("SELECT explode(sequence(95L, 104L)) AS k, -1L AS v")
    result = tidemill.merge(change, tmp_path / "t", "k", spark=spark)
    assert (result.inserted, result.updated, result.files_rewritten, result.total) == (5, 5, 1, 105)
    table = deltalake.DeltaTable(tmp_path / "t")
    assert "deletionVectors" not in (table.protocol().writer_features or ())
    assert table.history(1)[0]["operation"] == "WRITE"
    assert sorted(delta_rows(tmp_path / "t"))[94:] == [(94, 94), *((k, -1) for k in range(95, 105))]


@pytest.mark.parametrize("properties", [{}, FEED, {"delta.columnMapping.mode": "name"}])
def test_a_large_change_that_meets_every_file_leaves_exactly_its_rows(
    spark: SparkSession, tmp_path: Path, properties: dict[str, str]
) -> None:
    """No file can stay: all of the table is written once, but where a change feed asks how rows came to be."""
    rows = spark.range(0, 1_000_000, 1, 4).selectExpr("id AS k", "id AS v")
    plain = {"delta.enableDeletionVectors": "false", **properties}
    rows.write.format("delta").options(**plain).save(str(tmp_path / "t"))
    change = spark.range(0, 1_250_000, 5, 2).selectExpr("id AS k", "IF(id % 2 = 0, id, -id) AS v")
    result = tidemill.merge(change, tmp_path / "t", "k", spark=spark)
    assert (result.inserted, result.updated, result.unchanged) == (50_000, 100_000, 100_000)
    assert (result.total, result.files_rewritten) == (1_050_000, 4)
    assert delta_table(tmp_path / "t").select(["k", "v"]).sort_by("k").equals(_after_the_large_change())
    commit = deltalake.DeltaTable(tmp_path / "t").history(1)[0]
    overwrites = commit["operation"] == "WRITE" and "replaceOn" not in str(commit["operationParameters"])
    assert overwrites is (properties != FEED)
    again = tidemill.merge(change, tmp_path / "t", "k", spark=spark)
    assert (again.unchanged, again.files_rewritten) == (250_000, 0)


def _after_the_large_change() -> pa.Table:
    keys = np.union1d(np.arange(1_000_000), np.arange(0, 1_250_000, 5))
    return pa.table({"k": keys, "v": np.where((keys % 5 == 0) & (keys % 2 == 1), -keys, keys)})
