"""What Arrow says of keys that are in order is what Spark would say; where they are not, Spark is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidemill
from tidemill.changes.profile import profile
from tidemill.declarations import Source
from tidemill.errors import MergeError
from tidemill.execution.prepare import profile_in_order
from tidemill.sources import Reading
from tidemill.sources.files import FileSource
from tidemill.sources.registry import connector_for

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

LONG, INT, TEXT = pa.int64(), pa.int32(), pa.string()
IN_ORDER = {
    "one file in several row groups": [(LONG, range(-10, 10))],
    "files whose names have another order": [(LONG, [7, 8, 2**63 - 1]), (LONG, [-(2**63), 0]), (LONG, [1, 6])],
    "an empty file, and one row": [(LONG, []), (LONG, [5])],
    "an int": [(INT, [1, 2, 4])],
}
NOT_IN_ORDER = {
    "a key twice": [(LONG, [1, 2, 2, 3])],
    "a key twice at the seam of row groups": [(LONG, [1, 2, 3, 4, 4, 5])],
    "a key in two files": [(LONG, [1, 2]), (LONG, [2, 3])],
    "files that lie within each other": [(LONG, [1, 9]), (LONG, [4, 5])],
    "keys that go down": [(LONG, [3, 2, 1])],
    "no key": [(LONG, [1, None])],
    "a text": [(TEXT, ["a", "b"])],
    "no rows": [(LONG, [])],
}


@pytest.fixture(autouse=True)
def _small_files_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.sources.files._LARGE", 0)


def put(folder: Path, *files: tuple[pa.DataType, object]) -> str:
    folder.mkdir()
    for number, (kind, values) in enumerate(files):
        keys = pa.array(values, kind)
        table = pa.table({"Key": keys, "v": pa.array([number] * len(keys), LONG)})
        pq.write_table(table, folder / f"{number} ä%20.parquet", row_group_size=4)
    return str(folder)


@pytest.mark.parametrize("files", [*IN_ORDER.values(), *NOT_IN_ORDER.values()], ids=[*IN_ORDER, *NOT_IN_ORDER])
def test_a_profile_is_known_without_spark_where_keys_are_in_order(spark: SparkSession, tmp_path: Path, files) -> None:
    source = FileSource(put(tmp_path / "s", *files))
    rows = source.read(Reading(spark))
    told = profile_in_order(source, rows, ["KEY"])
    if files in IN_ORDER.values():
        assert told == profile(rows, keys=["Key"])
    else:
        assert told is None


def test_a_declared_source_tells_it_too(spark: SparkSession, tmp_path: Path) -> None:
    files = connector_for(Source("s", "PARQUET", {"path": put(tmp_path / "s", (LONG, [1, 2]))}))
    told = profile_in_order(files, files.read(Reading(spark)), ["Key"])
    assert told is not None
    assert told.rows == 2
    table = connector_for(Source("t", "POSTGRES", {"url": "postgresql://nobody@localhost/none", "table": "t"}))
    assert profile_in_order(table, spark.range(2), ["id"]) is None


def test_two_keys_options_and_other_formats_are_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    path = put(tmp_path / "s", (LONG, [1, 2]))
    rows = FileSource(path).read(Reading(spark))
    assert profile_in_order(FileSource(path), rows, ["Key", "v"]) is None
    assert profile_in_order(FileSource(path, options={"modifiedAfter": "2020-01-01"}), rows, ["Key"]) is None
    rows.write.format("delta").save(str(tmp_path / "d"))
    assert profile_in_order(FileSource(str(tmp_path / "d")), rows, ["Key"]) is None


def test_a_first_load_is_taken_and_one_with_a_key_twice_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    made = tidemill.merge(put(tmp_path / "s", (LONG, [1, 2]), (LONG, [3])), tmp_path / "t", "key", spark=spark)
    assert (made.inserted, made.total) == (3, 3)
    with pytest.raises(MergeError, match=r"1 key of .* comes more than once in this change: 2"):
        tidemill.merge(put(tmp_path / "twice", (LONG, [1, 2]), (LONG, [2, 3])), tmp_path / "t2", "key", spark=spark)
