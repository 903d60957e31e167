from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow.parquet as pq
import pytest

from tidemill.declarations import Append, Merge, Replace
from tidemill.errors import ArgumentError, ExportError, MergeError, Origin, SchemaError
from tidemill.execution.exports.export import write_export
from tidemill.model.query import Export

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


def export(folder: Path, target: str, kind: str, mode: Any = None, **options: Any) -> Export:
    return Export(
        "daily",
        target,
        kind,
        table="daily",
        mode=mode or Replace(),
        options=options,
        folder=folder,
        origin=Origin("s.sql", 9),
    )


def numbers(spark: SparkSession, count: int) -> DataFrame:
    return spark.sql(f"SELECT id, concat('n', id) AS name, id % 2 AS part FROM range({count})")


def failing(spark: SparkSession) -> DataFrame:
    return spark.sql("SELECT id, assert_true(id < 900) AS x FROM range(0, 1000, 1, 4)")


def left_behind(folder: Path) -> list[str]:
    return [each.name for each in folder.rglob(".*tidemill*")]


def test_a_target_that_ends_like_a_file_becomes_one_file(spark, tmp_path):
    done = write_export(spark, numbers(spark, 3), export(tmp_path, "out/daily.csv", "CSV"))
    assert (tmp_path / "out/daily.csv").read_text() == "id,name,part\n0,n0,0\n1,n1,1\n2,n2,0\n"
    assert (done.rows_written, done.path) == (3, str(tmp_path / "out/daily.csv"))
    assert done.seconds > 0
    assert [each.name for each in (tmp_path / "out").iterdir()] == ["daily.csv"]


def test_the_order_of_a_query_stays_in_one_file(spark, tmp_path):
    rows = spark.range(0, 1000, 1, 4).orderBy("id", ascending=False)
    write_export(spark, rows, export(tmp_path, "out.csv", "csv", header=False))
    assert [int(line) for line in (tmp_path / "out.csv").read_text().split()] == list(range(999, -1, -1))


def test_values_keep_their_spaces_quotes_and_nulls(spark, tmp_path):
    rows = spark.sql("""SELECT ' a ' AS s, 'say "hi", you' AS q, CAST(NULL AS STRING) AS n, '' AS e""")
    write_export(spark, rows, export(tmp_path, "out.csv", "csv"))
    assert (tmp_path / "out.csv").read_text() == 's,q,n,e\n a ,"say ""hi"", you",,""\n'
    write_export(spark, rows, export(tmp_path, "out.json", "json"))
    assert json.loads((tmp_path / "out.json").read_text()) == {"s": " a ", "q": 'say "hi", you', "n": None, "e": ""}


@pytest.mark.parametrize("kind", ["csv", "json", "parquet", "orc"])
def test_a_folder_is_replaced_whole(spark, tmp_path, kind):
    for count in (5, 2):
        done = write_export(spark, numbers(spark, count), export(tmp_path, "out", kind))
        assert done.rows_written == count
        found = spark.read.format(kind).options(header=True).load(str(tmp_path / "out"))
        assert found.count() == count
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize(("target", "kind"), [("out", "parquet"), ("out.csv", "csv")])
def test_an_export_that_fails_leaves_what_was_there(spark, tmp_path, target, kind):
    write_export(spark, numbers(spark, 3), export(tmp_path, target, kind))
    with pytest.raises(ExportError) as error:
        write_export(spark, failing(spark), export(tmp_path, target, kind))
    assert error.value.problem.startswith(f"The export daily to {target} failed: ")
    assert str(error.value.origin) == "s.sql:9"
    assert spark.read.format(kind).options(header=True).load(str(tmp_path / target)).count() == 3
    assert left_behind(tmp_path) == []


def test_an_export_that_fails_the_first_time_leaves_nothing(spark, tmp_path):
    with pytest.raises(ExportError):
        write_export(spark, failing(spark), export(tmp_path, "out", "csv"))
    assert list(tmp_path.iterdir()) == []


def test_append_adds_files_to_a_folder(spark, tmp_path):
    for _ in range(2):
        write_export(spark, numbers(spark, 3), export(tmp_path, "out", "parquet", Append(), partition_by=["part"]))
    assert sorted(each.name for each in (tmp_path / "out").iterdir() if each.is_dir()) == ["part=0", "part=1"]
    assert spark.read.parquet(str(tmp_path / "out")).count() == 6


@pytest.mark.parametrize("target", ["out.csv", "out.csv.gz"])
def test_append_adds_lines_to_a_file_with_one_header(spark, tmp_path, target):
    for count in (1, 2):
        write_export(spark, numbers(spark, count), export(tmp_path, target, "csv", Append()))
    content = (tmp_path / target).read_bytes()
    text = (gzip.decompress(content) if target.endswith("gz") else content).decode()
    assert text == "id,name,part\n0,n0,0\n0,n0,0\n1,n1,1\n"


def test_append_refuses_other_columns(spark, tmp_path):
    (tmp_path / "out.csv").write_text("id,other\n1,2\n")
    with pytest.raises(SchemaError, match="has the columns id, other, and the export id, name, part"):
        write_export(spark, numbers(spark, 1), export(tmp_path, "out.csv", "csv", Append()))
    assert (tmp_path / "out.csv").read_text() == "id,other\n1,2\n"


def test_append_to_a_file_without_a_last_line_end(spark, tmp_path):
    (tmp_path / "out.csv").write_text("id,name,part\n9,x,1")
    write_export(spark, numbers(spark, 1), export(tmp_path, "out.csv", "csv", Append()))
    assert (tmp_path / "out.csv").read_text() == "id,name,part\n9,x,1\n0,n0,0\n"


def test_no_rows_are_a_header(spark, tmp_path):
    done = write_export(spark, numbers(spark, 0), export(tmp_path, "out.csv", "csv"))
    assert done.rows_written == 0
    assert (tmp_path / "out.csv").read_text() == "id,name,part\n"


def test_a_parquet_file_alone(spark, tmp_path):
    write_export(spark, numbers(spark, 4), export(tmp_path, "out.parquet", "parquet"))
    assert pq.read_table(tmp_path / "out.parquet").num_rows == 4


def test_a_folder_with_other_things_in_it_is_not_replaced(spark, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/notes.txt").write_text("mine")
    with pytest.raises(ExportError, match=r"holds what no export of CSV files has written: notes.txt"):
        write_export(spark, numbers(spark, 1), export(tmp_path, "out", "csv"))
    assert (tmp_path / "out/notes.txt").read_text() == "mine"


def test_what_cannot_be_is_said_before_anything_is_computed(spark, tmp_path):
    with pytest.raises(ArgumentError, match="is one file, which has no partitions"):
        write_export(spark, failing(spark), export(tmp_path, "out.csv", "csv", partition_by="id"))
    with pytest.raises(ArgumentError, match="cannot append to a PARQUET file"):
        write_export(spark, failing(spark), export(tmp_path, "out.parquet", "parquet", Append()))
    with pytest.raises(ArgumentError, match="goes to an object store"):
        write_export(spark, failing(spark), export(tmp_path, "s3://bucket/out", "csv"))
    with pytest.raises(ArgumentError, match="is one file, which cannot be merged into"):
        write_export(spark, failing(spark), export(tmp_path, "out.parquet", "parquet", Merge(("id",))))
    with pytest.raises(ArgumentError, match="cannot merge into ORC files"):
        export(tmp_path, "out", "orc", Merge(("id",)))


def test_delta_is_replaced_appended_and_merged_in_one_commit_each(spark, tmp_path):
    path = str(tmp_path / "out")
    for mode, count, total in ((Replace(), 3, 3), (Append(), 2, 5), (Replace(), 4, 4), (Merge(("id",)), 6, 6)):
        done = write_export(spark, numbers(spark, count), export(tmp_path, "out", "DELTA", mode))
        assert (done.rows_written, done.path) == (count, path)
        assert deltalake.DeltaTable(path).to_pyarrow_table().num_rows == total
    version = deltalake.DeltaTable(path).version()
    write_export(spark, numbers(spark, 6), export(tmp_path, "out", "delta", Merge(("id",))))
    assert deltalake.DeltaTable(path).version() == version == 3


def test_a_folder_of_parquet_files_is_replaced_appended_and_merged(spark, tmp_path):
    """What a merge leaves alone is not rewritten, and a row that is here twice is an error that changes nothing."""
    out = tmp_path / "out"
    for mode, count, total in ((Replace(), 3, 3), (Append(), 2, 5), (Replace(), 4, 4), (Merge(("id",)), 6, 6)):
        done = write_export(spark, numbers(spark, count), export(tmp_path, "out", "PARQUET", mode))
        assert (done.rows_written, done.path) == (count, str(out))
        assert sorted(pq.read_table(out).column("id").to_pylist()) == sorted(
            range(total) if total != 5 else [0, 0, 1, 1, 2]
        )
    before = {file: file.stat().st_mtime_ns for file in out.glob("*.parquet")}
    write_export(spark, numbers(spark, 6), export(tmp_path, "out", "parquet", Merge(("id",)), compression="zstd"))
    assert {file: file.stat().st_mtime_ns for file in out.glob("*.parquet")} == before
    with pytest.raises(MergeError, match=r"The export daily|more than once"):
        write_export(spark, numbers(spark, 3), export(tmp_path, "out", "parquet", Merge(("part",))))
    assert pq.read_table(out).num_rows == 6
    write_export(spark, numbers(spark, 2), export(tmp_path, "out", "PARQUET"))
    assert pq.read_table(out).num_rows == 2
