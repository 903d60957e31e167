"""`verify` counts what insert, update and only_newer ignore, and takes a table's columns by its schema policy."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from support import NOW, Rows, events, feed, held, keyed, version

from tidemill import MergeStrategy, SchemaPolicy
from tidemill.verify.table import verify_table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tidemill import Table, Verified

BEFORE = events((1, 1, "a"), (2, 2, "b"))
SINCE = events((2, 1, "older and other"), (3, 3, "c"))  # 1 is gone, 3 is new


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """A table of two rows, made once and copied."""
    path = tmp_path_factory.mktemp("made") / "events"
    feed(spark, keyed(path), BEFORE)
    return lambda to: shutil.copytree(path, to / "events")


def verified(spark: SparkSession, table: Table, rows: pa.Table) -> Verified:
    return verify_table(spark, table, lambda _: Rows(rows), NOW)


def counts(found: Verified) -> tuple[int, int, int, int]:
    return found.missing.count, found.different.count, found.kept.count, found.ignored.count


def test_an_insert_lacks_only_new_keys_and_ignores_other_values(
    spark: SparkSession, tmp_path: Path, made: Callable[[Path], Path]
) -> None:
    table = keyed(made(tmp_path), form=MergeStrategy.INSERT)
    behind = verified(spark, table, SINCE)
    assert (behind.outcome, counts(behind)) == ("different", (1, 0, 1, 1))
    assert [sample.row["id"] for sample in behind.missing.samples] == ["3"]
    feed(spark, table, SINCE)
    after = verified(spark, table, SINCE)
    assert (after.outcome, after.equal, after.ok, counts(after)) == ("kept", False, True, (0, 0, 1, 1))
    (ignored,) = after.ignored.samples
    assert (ignored.row["value"], ignored.instead["value"]) == ("b", "older and other")
    assert after.remedies == (
        "1 row kept: FULL_MERGE ON id removes them",
        "1 row ignored: insert keeps the first values of a key; upsert takes the newest",
    )
    assert held(tmp_path / "events") == [(1, 1.0, "a"), (2, 2.0, "b"), (3, 3.0, "c")]


def test_an_update_ignores_new_keys(spark: SparkSession, tmp_path: Path, made: Callable[[Path], Path]) -> None:
    found = verified(spark, keyed(made(tmp_path), form=MergeStrategy.UPDATE), SINCE)
    assert (found.outcome, counts(found)) == ("different", (0, 1, 1, 1)), "an update takes other values of known keys"
    assert found.remedies[-1] == "1 row ignored: update changes only keys that are here; upsert takes new ones"


def test_only_newer_ignores_an_older_row_and_still_misses_a_new_key(
    spark: SparkSession, tmp_path: Path, made: Callable[[Path], Path]
) -> None:
    found = verified(spark, keyed(made(tmp_path), only_newer="at"), SINCE)
    assert (found.outcome, counts(found)) == ("different", (1, 0, 1, 1))
    assert found.remedies[0].startswith("1 row has not been read yet or was changed here by somebody else: ")
    assert found.remedies[-1] == "1 row ignored: only_newer keeps a row whose at is higher than the source's"
    newer = verified(spark, keyed(tmp_path / "events", only_newer="at"), events((1, 1, "other"), (2, 3, "newer")))
    assert (newer.outcome, counts(newer)) == ("different", (0, 2, 0, 0)), "a run would take both"


def test_columns_are_compared_as_the_schema_policy_takes_them_and_nothing_is_written(
    spark: SparkSession, tmp_path: Path, made: Callable[[Path], Path]
) -> None:
    path = made(tmp_path)
    other = BEFORE.drop_columns(["value"]).append_column("new", pa.array([7, None], pa.int32()))
    found = {
        policy: verified(spark, replace(keyed(path), schema_policy=SchemaPolicy(policy)), other)
        for policy in ("fail", "ignore", "append_new_columns", "sync_all_columns")
    }
    assert found["fail"].error is not None
    assert found["fail"].error.code == "schema.changed"
    assert {name: (each.equal, counts(each)) for name, each in found.items() if not each.error} == {
        "ignore": (True, (0, 0, 0, 0)),
        "append_new_columns": (False, (0, 1, 0, 0)),
        "sync_all_columns": (False, (0, 1, 0, 0)),
    }
    (sample,) = found["append_new_columns"].different.samples
    assert (sample.row, sample.instead) == ({"id": "1", "new": None}, {"new": "7"})
    assert found["ignore"].notes == ("not compared, as the source has no such column: value",)
    assert version(path) == 0
