"""A frame of a dataset holds one commit: the one that was the last when it was read, or an error that says so."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_rows import delta_rows
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrameReader

import tidemill
from tidemill import Table
from tidemill.declarations import Merge
from tidemill.errors import DatasetFileError, FilesGoneError, SourceError, TableError
from tidemill.execution.step import run_step
from tidemill.sources import Reading
from tidemill.sources.files import FileSource
from tidemill.spark.errors import translated
from tidemill.spark.session import step_session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def rows(*values: tuple[int, str]) -> pa.Table:
    return pa.table({"id": [key for key, _ in values], "v": [v for _, v in values]})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two files of a row each, in a folder whose name Spark has to escape."""
    root = tmp_path / "a b%20[c] ü#"
    root.mkdir()
    pq.write_table(rows((1, "a")), root / "first one.parquet")
    pq.write_table(rows((2, "b")), root / "second.parquet")
    return root


@pytest.mark.filterwarnings("ignore:toPandas attempted Arrow")  # PySpark says so, and raises the error
def test_a_frame_whose_files_have_gone_fails_with_the_advice_to_read_again(
    spark: SparkSession, path: Path, tmp_path: Path
) -> None:
    frame = tidemill.read(path, spark=spark)
    tidemill.merge(rows((3, "c")), path, on="id", spark=spark)
    assert sorted(map(tuple, frame.collect())) == [(1, "a"), (2, "b")]
    tidemill.merge(rows((1, "A")), path, on="id", spark=spark)
    step_session(spark)  # PySpark sets up its own errors again with every session
    actions: dict[str, Callable[[], object]] = {
        "collect": frame.collect,
        "a count of a part": frame.where("id > 0").count,
        "a join": frame.join(frame.groupBy("id").count(), "id").collect,
        "to pandas": frame.toPandas,
        "to Arrow": frame.toArrow,
        "one by one": lambda: list(frame.toLocalIterator()),
        "a function of the user's": frame.mapInArrow(lambda batches: batches, frame.schema).collect,
        "a write": lambda: frame.write.parquet(str(tmp_path / "copy")),
    }
    for name, action in actions.items():
        with pytest.raises(FilesGoneError) as caught:
            action()
        assert str(caught.value) == (
            f"[table.files_gone] {path} has changed since it was read: its file first one.parquet has gone. "
            f"Read it again: tidemill.read({str(path)!r})."
        ), name
    with pytest.raises(SourceError, match=r"has changed since it was read.*Read it again.*other is unchanged"):
        tidemill.merge(frame, tmp_path / "other", on="id", spark=spark)
    with pytest.raises(FilesGoneError):
        tidemill.merge(frame, path, on="id", spark=spark)
    again = tidemill.read(path, spark=spark)
    assert sorted(map(tuple, again.collect())) == [(1, "A"), (2, "b"), (3, "c")]


@dataclass
class Overtaken:
    """The rows of a dataset, read just before somebody else commits to it; and once more, in peace."""

    path: Path
    spark: SparkSession
    reads: int = 0

    settled = False

    def schema(self, reading: Reading) -> StructType:
        return self.read(reading).schema

    def read(self, reading: Reading, columns: Sequence[str] = ()) -> DataFrame:  # noqa: ARG002
        frame = tidemill.read(self.path, spark=reading.spark)
        self.reads += 1
        if self.reads == 1:
            tidemill.merge(rows((1, "A")), self.path, on="id", spark=self.spark)
        return frame

    def read_since(self, *_: object) -> DataFrame:
        raise NotImplementedError

    def version(self) -> None:
        return None


def test_a_table_whose_input_loses_a_file_while_it_is_read_reads_it_again(
    spark: SparkSession, path: Path, tmp_path: Path
) -> None:
    declared = Table("copy", str(tmp_path / "copy"), Merge(("id",)))
    source = Overtaken(path, spark)
    done = run_step(spark, declared, source)
    assert (source.reads, done.counts.inserted) == (2, 2)
    assert sorted(delta_rows(declared.path)) == [(1, "A"), (2, "b")]


def test_a_dataset_of_ours_as_a_source_is_read_by_its_log(spark: SparkSession, path: Path) -> None:
    tidemill.merge(rows((2, "B")), path, on="id", spark=spark)
    frame = FileSource(str(path)).read(Reading(spark))
    assert sorted(map(tuple, frame.collect())) == [(1, "a"), (2, "B")]
    tidemill.merge(rows((1, "A")), path, on="id", spark=spark)
    with pytest.raises(FilesGoneError):
        frame.collect()


def test_no_row_is_left_out_whatever_the_session_says(spark: SparkSession, path: Path) -> None:
    lenient = step_session(spark)
    for what in ("Missing", "Corrupt"):
        lenient.conf.set(f"spark.sql.files.ignore{what}Files", "true")
    lenient.conf.set("spark.sql.execution.arrow.pyspark.enabled", "false")
    frame = tidemill.read(path, spark=lenient)
    (path / "second.parquet").rename(path / "_hidden")
    with pytest.raises(FilesGoneError, match=r"its file second.parquet has gone"):
        frame.toPandas()
    whole = (path / "_hidden").read_bytes()
    (path / "second.parquet").write_bytes(whole[:4] + b"\xff" * 60 + whole[64:])
    with pytest.raises(DatasetFileError, match=r"second.parquet cannot be read as a Parquet file: ") as caught:
        tidemill.read(path, spark=lenient).collect()
    assert caught.value.code == "dataset.corrupt_file"


def test_errors_that_are_not_about_a_dataset_stay_sparks_own(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    frame = tidemill.read(path, spark=spark)
    with pytest.raises(AnalysisException):
        frame.select("nothing")
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    pq.write_table(rows((1, "a")), theirs / "1.parquet")
    other = spark.read.parquet(str(theirs))
    (theirs / "1.parquet").unlink()
    with pytest.raises((PySparkException, Py4JError), match=r"FAILED_READ_FILE\.FILE_NOT_EXIST"):
        other.collect()
    with pytest.raises(TableError, match="Somebody has written to the table meanwhile") as told, translated("Counting"):
        other.count()
    assert told.value.code == "table.files_gone"


def test_readers_see_one_commit_or_the_next_while_others_write(spark: SparkSession, path: Path) -> None:
    done = threading.Event()

    def write() -> None:
        for number in range(6):
            tidemill.merge(rows((1, f"{number}"), (2, f"{number}")), path, on="id", spark=spark)
        done.set()

    tidemill.merge(rows((1, "x"), (2, "x")), path, on="id", spark=spark)
    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    while not done.is_set():
        with contextlib.suppress(FilesGoneError):
            seen.append([row.v for row in tidemill.read(path, spark=spark).collect()])
    writer.join()
    assert all(len(values) == 2 and len(set(values)) == 1 for values in seen), seen
    assert seen


def test_a_file_that_goes_while_spark_lists_it_is_not_left_out(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark says nothing of it: it takes a path that has gone since it looked for an empty folder."""
    real, before = DataFrameReader.parquet, path / "second.parquet"

    def late(reader: DataFrameReader, *paths: str) -> DataFrame:
        if before.exists() and len(paths) == 2:
            before.rename(path / "other name.parquet")
            paths = paths[:1]
        return real(reader, *paths)

    monkeypatch.setattr(DataFrameReader, "parquet", late)
    assert sorted(map(tuple, tidemill.read(path, spark=spark).collect())) == [(1, "a"), (2, "b")]
    assert not before.exists()
