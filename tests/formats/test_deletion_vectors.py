"""The marks of deleted rows are read as Delta has written them, and Delta reads those that were written here."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest

from tidemill.formats.delta.marks import all_but, count, file_of_marks, file_with, marks_of, without

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tidemill.formats.delta.marks import Marks


def rows_of(marks: Marks) -> set[int]:
    return {(chunk << 16) + row for chunk, bits in marks.items() for row in range(1 << 16) if bits >> row & 1}


def marks_for(rows: set[int]) -> Marks:
    found: dict[int, int] = {}
    for row in rows:
        found[row >> 16] = found.get(row >> 16, 0) | 1 << (row & 0xFFFF)
    return found


DRAW = random.Random(3)
SETS = {
    "a few": {0, 5, 65_535, 65_536, 400_000},
    "a run": set(range(60_000, 140_000)),
    "many in a chunk": set(DRAW.sample(range(65_536), 9000)),
    "beyond what 32 bits count": {3, (1 << 32) + 7, (5 << 32) + 70_000},
    "none": set(),
}


@pytest.mark.parametrize("rows", SETS.values(), ids=SETS)
def test_marks_are_read_as_they_were_written(rows: set[int]) -> None:
    other = {1, 2, 70_000}
    content, said = file_with([marks_for(other), marks_for(rows)])
    assert [each["cardinality"] for each in said] == [3, len(rows)]
    for place, expected in zip(said, (other, rows), strict=True):
        assert rows_of(marks_of({"storageType": "p", **place}, content)) == expected


def test_marks_less_others_and_all_rows_but_some() -> None:
    some, others = marks_for({1, 2, 65_540}), marks_for({2, 3})
    assert rows_of(without(some, others)) == {1, 65_540}
    assert without(others, marks_for({2, 3, 4})) == {}
    assert rows_of(all_but(some, 65_542)) == set(range(65_542)) - {1, 2, 65_540}
    assert count(all_but({}, 200_000)) == 200_000


DELETES = ["id IN (3, 70000)", "id % 3 = 1", "id BETWEEN 65000 AND 150000", "id % 1000 <> 7 AND id > 65536"]


@pytest.mark.parametrize("where", DELETES)
def test_marks_of_delta_are_the_rows_that_were_deleted(spark: SparkSession, tmp_path: Path, where: str) -> None:
    table = f"delta.`{tmp_path}`"
    spark.sql(f"CREATE TABLE {table} (id BIGINT) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.range(0, 200_000, 1, 1).write.format("delta").mode("append").save(str(tmp_path))
    spark.sql(f"DELETE FROM {table} WHERE {where}")
    log = (tmp_path / "_delta_log" / f"{2:020d}.json").read_text().splitlines()
    said = next(action["add"]["deletionVector"] for action in map(json.loads, log) if "add" in action)
    place = file_of_marks(said)
    assert place is not None
    found = rows_of(marks_of(said, (tmp_path / place).read_bytes()))
    assert len(found) == said["cardinality"]
    assert found == {row["id"] for row in spark.range(200_000).where(where).collect()}
