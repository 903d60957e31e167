"""A session of the caller's may have any settings: rows and counts are right, or it is an error."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from support import events, fed, feed, held, keyed, version

import tidemill
from tidemill.declarations import Replace
from tidemill.errors import EngineError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

MARKS = "spark.databricks.delta.properties.defaults.enableDeletionVectors"
BACKSLASHES = "spark.sql.parser.escapedStringLiterals"
METRICS = "spark.databricks.delta.history.metricsEnabled"


@pytest.fixture
def theirs(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    session.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    session.conf.set("spark.databricks.delta.stats.collect", "false")
    return session


def test_settings_of_a_session_change_neither_rows_nor_counts(
    spark: SparkSession, theirs: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "events"
    table = replace(keyed(path), partition_by=("value",))
    fed(spark, table, events((1, 1, "a"), (2, 1, "b"), (3, 1, "b")))
    merged = feed(theirs, table, events((1, 1, "b"), (2, 2, "b"), (4, 1, "c")))
    assert (merged.counts.inserted, merged.counts.updated, merged.total) == (1, 2, 4)
    replaced = feed(theirs, replace(table, strategy=Replace()), events((3, 1, "b"), (4, 2, "c")))
    assert (replaced.counts.inserted, replaced.counts.deleted, replaced.total) == (1, 3, 2)
    assert held(path) == [(3, 1.0, "b"), (4, 2.0, "c")]
    theirs.conf.set(METRICS, "false")
    with pytest.raises(EngineError) as caught:
        feed(theirs, table, events((9, 1, "z")))
    assert str(caught.value) == (
        f"[engine.no_metrics] The Spark session has {METRICS} = false, and rows are counted by Delta's metrics of its "
        "commits. Leave the setting out, or set it to true. Nothing was written."
    )
    assert version(path) == 2


def test_keys_with_backslashes_and_quotes_are_found_however_a_session_reads_texts(
    theirs: SparkSession, tmp_path: Path
) -> None:
    theirs.conf.set(BACKSLASHES, "true")
    keys = ["${x}", "a\\b", "it's"]
    tidemill.merge(pa.table({"k": keys, "v": [1, 1, 1]}), tmp_path / "t", "k", spark=theirs)
    result = tidemill.merge(pa.table({"k": keys, "v": [2, 2, 1]}), tmp_path / "t", "k", spark=theirs)
    assert (result.inserted, result.updated, result.unchanged, result.total) == (0, 2, 1, 3)


def test_a_session_may_say_that_new_tables_have_no_deletion_vectors(theirs: SparkSession, tmp_path: Path) -> None:
    theirs.conf.set(MARKS, "false")
    path = tmp_path / "t"
    tidemill.merge(pa.table({"k": [1, 2], "v": [1, 1]}), path, "k", spark=theirs)
    result = tidemill.merge(pa.table({"k": [2], "v": [2]}), path, "k", spark=theirs)
    assert (result.updated, result.total) == (1, 2)
    assert DeltaTable(path).to_pyarrow_table().sort_by("k").to_pydict() == {"k": [1, 2], "v": [1, 2]}
