"""A Parquet dataset as a user has it: made, changed, read and repaired, with errors that leave it as it was."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import re
import uuid
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from support import events, events_table, feed, together

import tidemill
from tidemill.api import merge_table
from tidemill.api.merging import run_merge
from tidemill.declarations import Append, DeleteInsert, Merge, Replace
from tidemill.errors import ArgumentError, MergeError, SchemaError, SourceError, TableError, TidemillError
from tidemill.formats.parquet import protocol
from tidemill.formats.parquet.compaction import compact
from tidemill.formats.parquet.folder import Folder
from tidemill.formats.parquet.log import DatasetLog
from tidemill.formats.parquet.store import ParquetStore
from tidemill.maintenance.repair import check_keys, dedup

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data"


def rows(*values: tuple[int, str], **more: Any) -> pa.Table:
    return pa.table({"id": [key for key, _ in values], "v": [v for _, v in values]} | more)


def held(path: Path) -> list[tuple[Any, ...]]:
    """What any other tool reads."""
    found = [tuple(row.values()) for file in data_files(path) for row in pq.ParquetFile(file).read().to_pylist()]
    return sorted(found, key=lambda row: [(value is None, value) for value in row])


def data_files(path: Path) -> list[Path]:
    """What DuckDB and Polars find, which look into all folders: none of ours may hold such a file."""
    return sorted(path.rglob("*.parquet"))


def plain(path: Path, *tables: pa.Table) -> None:
    """A dataset that somebody else has made."""
    path.mkdir(parents=True, exist_ok=True)
    for number, table in enumerate(tables):
        pq.write_table(table, path / f"theirs-{number}.parquet")


def test_a_dataset_is_created_and_maintained_with_a_few_calls(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "data.parquet"  # what might also be the name of a table
    first = tidemill.merge_parquet_dataset(rows((1, "a"), (2, "b")), path.name, "id", compression="zstd", spark=spark)
    assert first == {"inserted": 2, "updated": 0, "deleted": 0, "total": 2}
    assert pq.ParquetFile(data_files(path)[0]).metadata.row_group(0).column(0).compression == "ZSTD"
    frame = pd.DataFrame({"id": [2, 3], "v": pd.Categorical(["B", "c"])}).astype({"id": "uint32"})
    assert tidemill.merge_parquet_dataset(frame, path, ["id"], spark=spark) == {
        "inserted": 1,
        "updated": 1,
        "deleted": 0,
        "total": 3,
    }
    again = tidemill.merge(frame, path, on="id", spark=spark)
    assert (again.unchanged, again.version, again.files_rewritten) == (2, 1, 0)
    assert held(path) == [(1, "a"), (2, "B"), (3, "c")]
    assert sorted(map(tuple, tidemill.read(path, spark=spark).collect())) == held(path)
    with pytest.raises(TableError, match="which is a Parquet dataset: what lies there is its own"):
        tidemill.merge(frame, path / "part-0.parquet", on="id", spark=spark)  # would be a Delta table
    assert [commit.record.strategy for commit in tidemill.history(path)] == ["merge upsert", "merge upsert"]
    assert DatasetLog(str(path)).snapshot().rows == 3


def test_new_files_are_compressed_as_those_beside_them(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(rows((1, "a"), (2, "b")), tmp_path / "theirs.parquet", compression="gzip")
    tidemill.merge(rows((3, "c")), tmp_path, "id", format="parquet", spark=spark)
    assert codecs_of(tmp_path) == ["GZIP", "GZIP"]
    tidemill.merge_parquet_dataset(rows((4, "d")), tmp_path, "id", compression="zstd", spark=spark)
    assert sorted(codecs_of(tmp_path)) == ["GZIP", "GZIP", "ZSTD"]


def codecs_of(path: Path) -> list[str]:
    return [pq.read_metadata(file).row_group(0).column(0).compression for file in data_files(path)]


def test_a_path_is_merged_into_partitions_and_rows_move_between_them(spark: SparkSession, tmp_path: Path) -> None:
    path, source = tmp_path / "data", tmp_path / "source"
    plain(source, pa.table({"id": [1, 2, 3, 4], "month": [1, 1, 2, 1], "v": ["a", "b", "c", "D"]}))
    (path / "month=01").mkdir(parents=True)
    theirs = pa.table({"id": [1, 4], "month": [1, 1], "v": ["a", "d"]})  # some tools also leave the column in the files
    pq.write_table(theirs, path / "month=01" / "theirs.parquet")
    (path / "month=02").mkdir()
    pq.write_table(pa.table({"id": [2], "v": ["b"]}), path / "month=02" / "theirs.parquet")
    result = tidemill.merge(source, path, on="id", spark=spark)
    assert (result.inserted, result.updated, result.unchanged, result.total) == (1, 2, 1, 4)
    found = [(file.parent.name, row) for file in data_files(path) for row in pq.ParquetFile(file).read().to_pylist()]
    assert sorted(found, key=lambda each: each[1]["id"]) == [
        ("month=01", {"id": 1, "month": 1, "v": "a"}),
        ("month=01", {"id": 2, "v": "b"}),
        ("month=02", {"id": 3, "v": "c"}),
        ("month=01", {"id": 4, "month": 1, "v": "D"}),
    ]
    assert [(r.id, r.month, r.v) for r in tidemill.read(path, spark=spark).orderBy("id").collect()] == [
        (1, 1, "a"),
        (2, 1, "b"),
        (3, 2, "c"),
        (4, 1, "D"),
    ]


def test_a_dataset_of_another_tools_making_is_merged_as_it_is(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folders are escaped as Arrow does it, a struct has grown, and one file has no room for NULL."""
    path = tmp_path / "data"
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    ends = [("city", pa.string()), ("week", pa.string())]
    few, more = pa.struct([("a", pa.int64())]), pa.struct([("a", pa.int64()), ("b", pa.string())])
    layout = ds.partitioning(pa.schema(ends), flavor="hive")
    kept = [
        {"id": 1, "v.1": "x", "s": {"a": 1}, "city": "Köln", "week": "2024-W05"},
        {"id": 2, "v.1": "y", "s": {"a": 2, "b": "b"}, "city": "Ulm", "week": "2024-W06"},
    ]
    for row, deep in zip(kept, (few, more), strict=True):
        must = pa.field("v.1", pa.string(), nullable=deep is more)
        table = pa.Table.from_pylist([row], schema=pa.schema([("id", pa.int64()), must, ("s", deep), *ends]))
        ds.write_dataset(table, path, format="parquet", partitioning=layout, existing_data_behavior="delete_matching")

    def merged(*rows: dict[str, Any]) -> tuple[int, ...]:
        source = pa.Table.from_pylist(rows, schema=table.schema)
        result = tidemill.merge(source, "../data", on="id", strategy="full_merge", format="parquet", spark=spark)
        return result.inserted, result.updated, result.deleted, result.unchanged

    assert merged(*kept) == (0, 0, 0, 2)
    changed = [{**kept[0], "v.1": None, "s": {"a": 1, "b": "deep"}}, {**kept[1], "week": "2024-W05"}]
    new = {"id": 3, "v.1": None, "s": {"a": 3, "b": "new"}, "city": "Köln", "week": "2024-W06"}
    assert merged(*changed, new) == (1, 2, 0, 0)
    assert [row.asDict(recursive=True) for row in tidemill.read(path, spark=spark).orderBy("id").collect()] == [
        *changed,
        new,
    ]
    assert {str(file.relative_to(path).parent) for file in data_files(path)} == {
        "city=K%C3%B6ln/week=2024-W05",
        "city=Ulm/week=2024-W05",
        "city=Köln/week=2024-W06",
    }


def test_partitions_keep_their_type_and_rows_their_partition_whatever_others_leave_out(
    spark: SparkSession, path: Path
) -> None:
    first = merge_table(path, "id", "upsert", format_="parquet", partition_by=["zip"])
    run_merge(rows((1, "a"), zip=["01234"]), first, spark)
    for number in (2, 3):
        (path / "zip=007").mkdir(exist_ok=True)
        pq.write_table(rows((number, "theirs")), path / "zip=007" / f"theirs-{number}.parquet")
    assert compact(Folder(str(path)), 2**20).written == 1  # a commit that knows no types
    result = tidemill.merge(rows((1, "a"), (2, "b"), zip=["01234", "01234"]), path, on="id", spark=spark)
    assert (result.updated, result.unchanged) == (1, 1)
    assert sorted((row.id, row.zip) for row in tidemill.read(path, spark=spark).collect()) == [
        (1, "01234"),
        (2, "01234"),
        (3, "007"),
    ]
    narrow, policy = rows((3, "c"), (4, "d")), "append_new_columns"
    result = tidemill.merge(narrow, path, on="id", strategy="full_merge", schema_policy=policy, spark=spark)
    assert (result.inserted, result.updated, result.deleted) == (1, 1, 2)
    assert sorted((row.id, row.zip) for row in tidemill.read(path, spark=spark).collect()) == [(3, "007"), (4, None)]
    with pytest.raises(TableError, match="is partitioned by zip, which its source lacks"):
        tidemill.merge(narrow, path, on="id", schema_policy="sync_all_columns", spark=spark)


def test_what_cannot_enter_is_an_error_and_the_dataset_stays_as_it_was(spark: SparkSession, path: Path) -> None:
    plain(path, rows((1, "a"), (2, "b")), rows((2, "b again"), (3, "c")), rows((9, "z")))
    before = {file: file.read_bytes() for file in data_files(path)}
    cases: list[tuple[type[TidemillError], str, pa.Table, str]] = [
        (MergeError, "1 row has no id", pa.table({"id": pa.array([None], pa.int64()), "v": ["x"]}), "upsert"),
        (MergeError, "1 key of .* comes more than once in this change: 7", rows((7, "x"), (7, "y")), "upsert"),
        (MergeError, "holds 1 key of this change more than once: 2", rows((2, "x")), "update"),
        (
            SchemaError,
            "the source also has w .string.; the source lacks v",
            pa.table({"id": [1], "w": ["x"]}),
            "insert",
        ),
        (SchemaError, "id is bigint, not string", pa.table({"id": ["1"], "v": ["x"]}), "upsert"),
    ]
    for kind, text, source, strategy in cases:
        with pytest.raises(kind, match=text):
            tidemill.merge_parquet_dataset(source, path, "id", strategy, spark=spark)
    midway = spark.range(1, 4).selectExpr("id", "if(id < 3, 'x', raise_error('the line is dead')) AS v")
    with pytest.raises(SourceError, match=r"could not be read: .*the line is dead"):
        tidemill.merge_parquet_dataset(midway, path, "id", "full_merge", spark=spark)
    assert {file: file.read_bytes() for file in data_files(path)} == before
    result = tidemill.merge(rows((2, "b"), (4, "d")), path, on="id", strategy="deduplicate", spark=spark)
    assert (result.inserted, result.updated, result.deleted, result.unchanged) == (1, 0, 1, 1)
    assert (result.files_rewritten, result.files_kept) == (1, 2)
    assert held(path) == [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (9, "z")]
    plain(path, rows((1, "a"), (2, "b"), (2, "again"), (3, "copy"), (3, "again")))
    source = rows((2, "B"), (3, "copy"), (5, "e"), (9, "z"))
    result = tidemill.merge(source, path, on="id", strategy="full_merge", spark=spark)
    assert (result.inserted, result.updated, result.deleted, result.unchanged) == (1, 1, 5, 2)
    assert (result.total, result.files_kept) == (4, 1)
    assert held(path) == [(2, "B"), (3, "copy"), (5, "e"), (9, "z")]


def test_numbers_of_unlike_width_are_read_and_kept_in_the_widest(spark: SparkSession, path: Path) -> None:
    def numbers(ids: list[int], x: list[float | None], whole: pa.DataType, real: pa.DataType) -> pa.Table:
        return pa.table({"id": pa.array(ids, whole), "x": pa.array(x, real)})

    narrow = numbers([1, 2], [1.5, None], pa.int32(), pa.float32())
    wide = numbers([2**40], [0.1], pa.int64(), pa.float64())
    plain(path, narrow, numbers([5], [5.0], pa.int16(), pa.float32()), wide)
    change = numbers([2, 2**40, 2**41, 5], [0.1, 0.1, None, 5.0], pa.int64(), pa.float64())
    result = tidemill.merge(change, path, on="id", spark=spark)
    assert (result.inserted, result.updated, result.unchanged, result.files_rewritten) == (1, 1, 2, 1)
    assert held(path) == [(1, 1.5), (2, 0.1), (5, 5.0), (2**40, 0.1), (2**41, None)]
    assert sorted(map(tuple, tidemill.read(path, spark=spark).collect())) == held(path)
    lists = change.append_column("l", pa.array([[1]] * 4))  # Arrow does not compare them, so Spark finds what changes
    result = tidemill.merge(
        lists, path, on="id", strategy="full_merge", schema_policy="append_new_columns", spark=spark
    )
    assert (result.inserted, result.updated, result.deleted) == (0, 4, 1)
    assert [row[:2] for row in held(path)] == [(2, 0.1), (5, 5.0), (2**40, 0.1), (2**41, None)]


def test_a_column_without_a_type_in_one_file_is_null_of_the_type_that_others_have(
    spark: SparkSession, path: Path
) -> None:
    none = pa.table({"id": [1, 2], "v": pa.nulls(2), "x": pa.nulls(2), "never": pa.nulls(2)})
    plain(path, none, pa.table({"id": [3], "v": ["c"], "x": [0.5], "never": pa.nulls(1)}))
    assert tidemill.read(path, spark=spark).columns == none.column_names
    change = pa.table({"id": [3, 4], "v": [None, "d"], "x": [0.5, None], "never": pa.nulls(2)})
    result = tidemill.merge(change, path, on="id", spark=spark)
    assert (result.inserted, result.updated, result.files_kept) == (1, 1, 1)
    rest = pa.table({"id": [1, 3], "v": ["a", None], "x": [1.5, 0.5], "never": pa.nulls(2)})
    result = tidemill.merge(rest, path, on="id", strategy="full_merge", spark=spark)  # for which Spark reads the files
    assert (result.updated, result.deleted, result.unchanged) == (1, 2, 1)
    assert held(path) == [(1, "a", 1.5, None), (3, None, 0.5, None)]
    assert sorted(map(tuple, tidemill.read(path, spark=spark).collect())) == held(path)


def test_old_times_of_spark_stay_instants_beside_times_without_a_zone(spark: SparkSession, path: Path) -> None:
    """Spark writes TIMESTAMP as INT96, in structs too, and TIMESTAMP_NTZ as it is written today."""

    def moments(*ids: int, day: int) -> DataFrame:
        times = f"timestamp'2024-01-0{day} 10:00' at, timestamp_ntz'2024-01-0{day} 10:00' local"
        told = f"id, {times}, named_struct('at', timestamp'2024-01-0{day} 10:00') deep"
        return spark.sql(f"SELECT {told} FROM VALUES {', '.join(f'({number}L)' for number in ids)} AS t(id)")

    for number in (1, 2):
        moments(number, day=number).coalesce(1).write.mode("append").parquet(str(path))
    result = tidemill.merge(moments(1, 3, day=4), path, on="id", format="parquet", spark=spark)
    assert (result.inserted, result.updated, result.files_kept) == (1, 1, 1)
    together = moments(1, 3, day=4).union(moments(2, day=2)).orderBy("id").collect()
    for read in (lambda: tidemill.read(path, spark=spark), lambda: spark.read.parquet(str(path))):
        assert read().orderBy("id").collect() == together
    compact(Folder(str(path)), 1_000_000)
    (file,) = data_files(path)
    kinds = {field.name: field.type for field in pq.read_schema(file)}
    instant = pa.timestamp("us", tz="UTC")
    assert (kinds["at"], kinds["local"], kinds["deep"].field("at").type) == (instant, pa.timestamp("us"), instant)
    assert tidemill.read(path, spark=spark).orderBy("id").collect() == together


def test_files_that_cannot_be_read_are_named(spark: SparkSession, path: Path) -> None:
    plain(path, rows((1, "a")))
    (path / "broken.parquet").write_bytes(b"PAR1 cut short")
    with pytest.raises(TableError, match=r"broken.parquet cannot be read as a Parquet file"):
        tidemill.merge(rows((1, "b")), path, on="id", spark=spark)
    (path / "broken.parquet").unlink()
    fine = pa.table({"id": [5], "v": ["x"], "at": pa.array([0], pa.timestamp("ns"))})
    plain(path, fine)
    with pytest.raises(TableError, match="holds at in nanoseconds, which Spark cannot read"):
        tidemill.merge(rows((1, "b")), path, on="id", spark=spark)
    unlike = path.parent / "unlike"
    plain(unlike, rows((1, "a")), pa.table({"id": [2], "v": [2]}))
    for job in (lambda: tidemill.read(unlike, spark=spark), lambda: tidemill.merge(rows(), unlike, "id", spark=spark)):
        with pytest.raises(TableError, match=r"v is string in theirs-0.parquet and int64 in theirs-1.parquet"):
            job()
    strange = path.parent / "strange"
    for values, why in (
        ([dt.time(9)], r"x \(time64\[us\]\) of"),
        ([uuid.UUID(int=1)], r"x \(extension<arrow.uuid>\) of"),
    ):
        plain(strange, pa.table({"id": [1], "v": ["a"], "x": values}))
        with pytest.raises(TableError, match=rf"Spark cannot read {why} theirs-0.parquet in .*strange: "):
            tidemill.read(strange, spark=spark)
    only = merge_table(path.parent / "new", "id", "upsert", format_="parquet", partition_by=["id", "v"])
    with pytest.raises(TableError, match="has no columns but those of its partitions"):
        run_merge(rows((1, "b")), only, spark)
    with pytest.raises(ArgumentError, match="'lzo' is no compression that datasets are written with"):
        tidemill.merge_parquet_dataset(rows((1, "b")), path, "id", compression="lzo", spark=spark)


@pytest.mark.parametrize(
    ("step", "committed"),
    [(protocol.COMMIT, False), (protocol.MOVE_IN, True), (protocol.REMOVE, True), (protocol.CLEAR, True)],
)
def test_a_merge_that_dies_at_a_step_is_whole_or_not_there_and_the_next_one_works(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch, step: str, committed: bool
) -> None:
    plain(path, rows((1, "a"), (2, "b")), rows((3, "c")))
    with monkeypatch.context() as dying:
        dying.setattr("tidemill.formats.parquet.store.walk", lambda steps: _until(step, steps))
        dying.setattr(Folder, "ending", _nobody_clears)
        with pytest.raises(_DeadError):
            tidemill.merge(rows((1, "A"), (4, "d")), path, on="id", spark=spark)
    before = [(1, "a"), (2, "b"), (3, "c")]
    after = [(1, "A"), (2, "b"), (3, "c"), (4, "d")] if committed else before
    assert committed or held(path) == before
    assert sorted(map(tuple, tidemill.read(path, spark=spark).collect())) == after
    assert tidemill.merge(rows((3, "C")), path, on="id", spark=spark).updated == 1
    assert list((path / "_tidemill" / "staging").iterdir()) == []
    assert held(path) == [(3, "C") if row[0] == 3 else row for row in after]


class _DeadError(BaseException):
    """The process has ended here."""


def _until(step: str, steps: protocol.Steps[Any]) -> Any:
    try:
        while next(steps) != step:
            pass
    except StopIteration as end:
        return end.value
    steps.close()
    raise _DeadError


@contextlib.contextmanager
def _nobody_clears(_: Folder, attempt: Any) -> Iterator[None]:
    try:
        yield
    finally:
        attempt.alive.close()  # as the kernel does


def test_all_strategies_keep_a_dataset_with_its_watermark(spark: SparkSession, path: Path) -> None:
    append = events_table(path, Append(), format="parquet", partition_by=("value",))
    assert feed(spark, append, events((1, 1, "a"), (2, 2, "b"))).counts.inserted == 2
    second = feed(spark, append, events((2, 2, "b"), (3, 5, "b")))
    assert (second.counts.inserted, second.counts.unchanged) == (1, 1)
    snapshot = ParquetStore(str(path)).snapshot()
    assert snapshot.partition_columns == ("value",)
    assert str(snapshot.record.progress["source"]) == "2024-01-01 05:00:00 UTC"
    assert feed(spark, append, events((3, 5, "b"))).status == "unchanged"
    replaced = feed(spark, events_table(path, DeleteInsert(), format="parquet"), events((4, 5, "a")))
    assert (replaced.counts.inserted, replaced.counts.deleted, replaced.total) == (1, 2, 2)
    overwritten = feed(spark, events_table(path, Replace(), None, format="parquet"), events((9, 9, "z")))
    assert (overwritten.total, [file.parent.name for file in data_files(path)]) == (1, ["value=z"])


def test_files_that_others_add_or_remove_count(spark: SparkSession, path: Path) -> None:
    table = events_table(path, Merge(("id",)), back=None, format="parquet")
    feed(spark, table, events((1, 1, "a"), (2, 5, "b")))
    pq.write_table(events((3, 2, "theirs")), path / "theirs.parquet")
    snapshot = ParquetStore(str(path)).snapshot()
    assert (snapshot.foreign_adds, snapshot.versions_with_removals, snapshot.rows) == (True, (), None)
    data_files(path)[-1 if "theirs" in data_files(path)[0].name else 0].unlink()
    assert ParquetStore(str(path)).snapshot().versions_with_removals == (0,)
    again = feed(spark, table, events((1, 1, "a"), (2, 5, "b")))
    assert again.window.start.text() == "2024-01-01T02:00:00.000000Z"
    assert again.counts.inserted == 1


def test_columns_come_and_go_as_the_policy_says(spark: SparkSession, path: Path) -> None:
    plain(path, rows((0, "")).slice(1), rows((1, "a"), (2, "b")), rows((3, "c")))
    wider = rows((1, "A"), (4, "d"), more=[10, 40])
    result = tidemill.merge(wider, path, on="id", schema_policy="append_new_columns", spark=spark)
    assert (result.inserted, result.updated, result.files_rewritten) == (1, 1, 3)
    assert {tuple(pq.read_schema(file).names) for file in data_files(path)} == {("id", "v", "more")}
    assert held(path) == [(1, "A", 10), (2, "b", None), (3, "c", None), (4, "d", 40)]
    part = tidemill.merge(pa.table({"id": [2], "more": [20]}), path, on="id", schema_policy="ignore", spark=spark)
    assert part.updated == 1
    assert held(path)[1] == (2, "b", 20)
    narrow = pa.table({"id": [2], "more": [21]})
    tidemill.merge(narrow, path, on="id", schema_policy="sync_all_columns", spark=spark)
    assert held(path) == [(1, 10), (2, 21), (3, None), (4, 40)]


def test_a_dry_run_says_what_a_merge_then_does(spark: SparkSession, path: Path) -> None:
    odd = [{"a.b `c`": [0] * count} for count in (2, 2, 1, 3)]
    plain(path, rows((1, "a"), (2, "b"), **odd[0]), rows((11, "c"), (12, "d"), **odd[1]), rows((21, "e"), **odd[2]))
    before = {file: file.read_bytes() for file in data_files(path)}
    source, table = rows((1, "A"), (3, "new"), (12, "d"), **odd[3]), merge_table(path, "id", "upsert")
    would = run_merge(source, table, spark, dry_run=True)
    assert would.notices[-1] == "would read 2 of 3 files and rewrite 1"
    assert {file: file.read_bytes() for file in data_files(path)} == before
    did = run_merge(source, table, spark)
    for name in ("inserted", "updated", "deleted", "unchanged", "total", "files_rewritten", "files_kept"):
        assert getattr(would, name) == getattr(did, name), name


def test_a_dry_run_drops_no_columns(spark: SparkSession, path: Path) -> None:
    plain(path, rows((1, "a"), (2, "b")))
    before = {file: file.read_bytes() for file in data_files(path)}
    table = merge_table(path, "id", "upsert", policy="sync_all_columns")
    with pytest.raises(ArgumentError, match=r"merge.dry_run.* v would leave .* in a commit of its own"):
        run_merge(pa.table({"id": [3]}), table, spark, dry_run=True)
    assert {file: file.read_bytes() for file in data_files(path)} == before


def test_keys_are_checked_and_repaired(spark: SparkSession, path: Path) -> None:
    null = pa.table({"id": pa.array([None, 4], pa.int64()), "v": ["n", "d"]})
    plain(path, rows((1, "a"), (2, "b")), rows((2, "z"), (3, "c")), null)
    found = check_keys(spark, str(path), ["id"])
    assert (found.rows, found.null_keys, found.duplicate_keys, found.extra_rows, found.shown) == (6, 1, 1, 1, "2")
    assert not found.ok
    done = dedup(spark, str(path), ["id"], ["v"])
    assert (done.deleted, done.total, done.files_rewritten, done.files_kept) == (1, 5, 1, 2)
    path = path.rename(path.parent / "moved")
    assert tidemill.read(path, spark=spark).where("id = 2").collect() == [(2, "z")]
    assert dedup(spark, str(path), ["id"], []).files_rewritten == 0
    assert tidemill.merge(rows((2, "Z")), path, on="id", spark=spark).updated == 1
    plain(path.parent / "floats", pa.table({"k": [1.0, float("nan"), float("nan"), None]}))
    found = check_keys(spark, str(path.parent / "floats"), ["k"])
    assert (found.null_keys, found.duplicate_keys, found.extra_rows, found.shown) == (1, 1, 1, "nan")
    assert dedup(spark, str(path.parent / "floats"), ["k"], []).deleted == 1


def test_two_merges_at_once_are_one_after_the_other(spark: SparkSession, path: Path) -> None:
    plain(path, rows((0, "start")))
    jobs = [
        lambda n=n: tidemill.merge(rows((0, f"by {n}"), (n, "x"), (9, f"by {n}")), path, on="id", spark=spark)
        for n in (1, 2, 3)
    ]
    assert together(*jobs) == []
    found = dict(held(path))
    assert sorted(found) == [0, 1, 2, 3, 9]
    assert found[0] == found[9]
    assert len(held(path)) == 5
    assert len(DatasetLog(str(path)).folder.numbers()) == 3


def test_a_delta_table_is_no_dataset(spark: SparkSession, path: Path) -> None:
    tidemill.merge(rows((1, "a")), path, on="id", spark=spark)
    with pytest.raises(TableError, match=r"is a Delta table, and .* is declared with the format parquet"):
        tidemill.merge(rows((1, "a")), path, on="id", format="parquet", spark=spark)
    with pytest.raises(ArgumentError, match="'orc' is not a table format"):
        tidemill.merge(rows((1, "a")), path, on="id", format="orc", spark=spark)
    with pytest.raises(ArgumentError, match="is kept as delta, and compression is for Parquet datasets"):
        merge_table(path, "id", "upsert", compression="zstd")
    with pytest.raises(ArgumentError, match="dedup repairs Parquet datasets"):
        dedup(spark, str(path), ["id"], [])
    with pytest.raises(TableError, match="which is a Delta table: what lies there is its own"):
        run_merge(rows((1, "a")), merge_table(path / "part", "id", "upsert", format_="parquet"), spark, dry_run=True)


def test_a_target_that_is_no_folder_is_an_error(spark: SparkSession, path: Path) -> None:
    plain(path, rows((1, "a")))
    places = {path / "theirs-0.parquet": "is a file", "s3://bucket/data": "is an address", "file:/x": "is an address"}
    for place, told in places.items():
        with pytest.raises(TableError, match=f"{told}, and a Parquet dataset is a folder"):
            tidemill.merge_parquet_dataset(rows((1, "b")), place, "id", spark=spark)
    for nothing in (None, "", "a\0"):
        with pytest.raises(ArgumentError, match=re.escape(f"{nothing!r} is no path")):
            tidemill.merge_parquet_dataset(rows((1, "b")), nothing, "id", spark=spark)
    with pytest.raises(TableError, match=r"cannot be read: .*File name too long"):
        tidemill.merge_parquet_dataset(rows((1, "b")), path / ("x" * 300), "id", spark=spark)


def test_a_dataset_has_no_older_versions(spark: SparkSession, path: Path) -> None:
    plain(path, rows((1, "a")))
    tidemill.merge(rows((1, "b")), path, on="id", spark=spark)
    with pytest.raises(TableError, match="holds the rows of its last commit only"):
        tidemill.restore(path, to=0, spark=spark)


def test_records_are_json_that_anyone_can_read(spark: SparkSession, path: Path) -> None:
    moment = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    tidemill.merge_parquet_dataset(rows((1, "a"), at=[moment]), path, "id", spark=spark)
    entry = json.loads((path / "_tidemill" / "log" / f"{0:020d}.json").read_text())
    assert json.loads(entry["record"])["tidemill"]["strategy"] == "merge upsert"
    assert [file["path"] for file in entry["files"]] == [str(file.relative_to(path)) for file in data_files(path)]
    assert DatasetLog(str(path)).column_types() == {"id": "long", "v": "string", "at": "timestamp"}
