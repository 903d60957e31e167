"""Small files are joined, with the same rows, in one commit that the next run takes for none."""

from __future__ import annotations

import base64
import datetime as dt
import json
import resource
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from tidemill.cli.main import tidemill
from tidemill.errors import TableError
from tidemill.formats.parquet import protocol
from tidemill.formats.parquet.compaction import compact
from tidemill.formats.parquet.folder import Folder
from tidemill.formats.parquet.log import DatasetLog

SPARKS_COLUMNS = b"org.apache.spark.sql.parquet.row.metadata"
INTERVALS = base64.b64decode(  # DuckDB 2.0: COPY (SELECT to_days(1) AS every) TO ...
    "UEFSMRUAFRgVGCwVAhUAFQYVBgAAAAAAAAEAAAAAAAAAFQIZLDUAGA1kdWNrZGJfc2NoZW1hFQIAFQ4VGBUAGAVldmVyeSUqABYCGRwZHCYAHBUO"
    "GRUAGRgFZXZlcnkVABYCFjoWOiYISRwVABUAFQIAAAAWOhYCJggWOgAZHBgcZHVja2RiLmludGVydmFsX2Jsb29tX2ZpbHRlchgNbm9ybWFsaXpl"
    "ZC12MQAYKER1Y2tEQiB2ZXJzaW9uIHYyLjAuMCAoYnVpbGQgZDU0Y2JiZTNkZikZHBwAAAC8AAAAUEFSMQ=="
)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    for part in ("a", "b"):
        (tmp_path / f"p={part}").mkdir()
        for number in range(3):
            rows = pa.table({"id": [number], "v": [f"{part}{number}"]})
            pq.write_table(rows, tmp_path / f"p={part}" / f"{number}.parquet", compression="gzip")
    wider = pa.table({"id": [9], "v": ["wide"], "more": [1.5]})
    pq.write_table(wider, tmp_path / "p=b" / "wide.parquet")
    return Folder(str(tmp_path))


def rows_of(folder: Folder) -> list[tuple[object, ...]]:
    files = protocol.walk(protocol.opening(folder)).files
    found = [
        (path.split("/")[0], row) for path in files for row in pq.ParquetFile(folder.root / path).read().to_pylist()
    ]
    return sorted((part, row["id"], row["v"], row.get("more")) for part, row in found)


def test_files_of_a_partition_become_one(folder: Folder) -> None:
    before = rows_of(folder)
    done = compact(folder, 1_000_000)
    assert (done.joined, done.written, done.kept, done.version) == (7, 2, 0, 1)
    assert rows_of(folder) == before
    state = protocol.walk(protocol.opening(folder))
    assert [file.rows for file in state.entry.files] == [3, 4]
    found = pq.ParquetFile(folder.root / next(iter(state.files)))
    assert found.metadata.row_group(0).column(0).compression == "GZIP"
    snapshot = DatasetLog(str(folder)).snapshot()
    assert (snapshot.foreign_adds, snapshot.versions_with_removals) == (
        True,
        (),
    )  # it has no record: nobody knows who made it
    assert compact(folder, 1_000_000).joined == 0


def test_what_is_staged_is_not_found_by_who_looks_for_parquet_files(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB, Polars and fastparquet look into all folders for `*.parquet`, those with an underscore too."""
    before, found = set(folder.root.rglob("*.parquet")), []

    def looking(*given: object) -> protocol.Steps[None]:
        found.append(set(folder.root.rglob("*.parquet")))
        return protocol.committing(*given)

    monkeypatch.setattr("tidemill.formats.parquet.compaction.committing", looking)
    compact(folder, 1_000_000)
    assert found == [before]


def test_files_of_unlike_types_are_joined_without_loss(tmp_path: Path) -> None:
    one = pa.field("ID", pa.int32(), nullable=False)
    few = pa.schema([one, ("deep", pa.struct([("a", pa.int64())])), ("n", pa.null())])
    pq.write_table(pa.table([[1], [{"a": 1}], [None]], schema=few), tmp_path / "1.parquet")
    more = {"id": [2**40, None], "deep": [{"a": 2, "b": "x"}, None], "n": pa.array(["y", None]).dictionary_encode()}
    pq.write_table(pa.table(more), tmp_path / "2.parquet")
    pq.write_table(pa.table({"id": [3], "n": ["z"]}), tmp_path / "3.parquet")
    folder = Folder(str(tmp_path))
    assert compact(folder, 1_000_000).written == 1
    (file,) = protocol.walk(protocol.opening(folder)).files
    assert pq.read_table(tmp_path / file).to_pylist() == [
        {"ID": 1, "deep": {"a": 1, "b": None}, "n": None},
        {"ID": 2**40, "deep": {"a": 2, "b": "x"}, "n": "y"},
        {"ID": None, "deep": None, "n": None},
        {"ID": 3, "deep": None, "n": "z"},
    ]


def test_numbers_are_not_rounded_to_join_files(tmp_path: Path) -> None:
    for number, values in enumerate([pa.array([2**60]), pa.array([0.5])]):
        pq.write_table(pa.table({"v": values}), tmp_path / f"{number}.parquet")
    with pytest.raises(TableError, match=r"v is kept as int64, which has no room for a value: .*0\.5"):
        compact(Folder(str(tmp_path)), 1_000_000)


def test_a_joined_file_does_not_say_what_spark_knew_of_one_of_its_parts(tmp_path: Path) -> None:
    """Spark takes the columns that it has noted in a file for all that there are."""
    noted = {SPARKS_COLUMNS: b'{"type":"struct","fields":[{"name":"id","type":"long"}]}', b"kept": b"yes"}
    pq.write_table(pa.table({"id": [1]}).replace_schema_metadata(noted), tmp_path / "1.parquet")
    pq.write_table(pa.table({"id": [2], "more": [3]}), tmp_path / "2.parquet")
    folder = Folder(str(tmp_path))
    compact(folder, 1_000_000)
    (file,) = protocol.walk(protocol.opening(folder)).files
    told = pq.read_metadata(tmp_path / file).metadata
    assert (SPARKS_COLUMNS in told, told[b"kept"]) == (False, b"yes")


@pytest.mark.parametrize("note", [b"org.apache.spark.legacyDateTime", b"org.apache.spark.version"])
def test_days_of_sparks_old_calendar_do_not_become_others(tmp_path: Path, note: bytes) -> None:
    def write(day: dt.date, number: int, notes: dict[bytes, bytes]) -> None:
        file = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"id": [number], "day": [day]}).replace_schema_metadata(notes), file)

    write(dt.date(1582, 10, 14), 1, {note: b"2.4.8"})
    write(dt.date(1500, 1, 1), 2, {b"org.apache.spark.version": b"4.1.4"})
    with pytest.raises(TableError, match=r"1\.parquet was written by Spark in the calendar before 1582, and its day"):
        compact(Folder(str(tmp_path)), 1_000_000)
    write(dt.date(1582, 10, 15), 1, {note: b"2.4.8", b"kept": b"yes"})
    compact(Folder(str(tmp_path)), 1_000_000)
    (file,) = tmp_path.glob("*.parquet")
    told = pq.read_metadata(file).metadata
    assert (note in told, told[b"kept"]) == (False, b"yes")  # or Spark would take the other day for an old one


def test_a_type_that_arrow_cannot_write_is_not_lost_by_joining(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"{number}.parquet").write_bytes(INTERVALS)
    with pytest.raises(TableError, match=r"every is INTERVAL in .*0\.parquet, which Arrow cannot write"):
        compact(Folder(str(tmp_path)), 1_000_000)
    assert sorted(each.name for each in tmp_path.iterdir() if each.is_file()) == ["0.parquet", "1.parquet"]


def test_vacuum_counts_what_is_there_while_writers_move_it(folder: Folder) -> None:
    dead = folder.staging / "dead"
    dead.mkdir(parents=True)
    (dead / "left.parquet").write_bytes(b"12345")
    (dead / "moved.parquet").symlink_to(dead / "elsewhere")
    (folder.staging / ".DS_Store").write_text("of a file manager")
    done = CliRunner().invoke(tidemill, ["vacuum", str(folder)])
    assert (done.exit_code, done.output.strip()) == (
        0,
        f"✓ {folder.root.name}  1 interrupted attempt cleared (5 B)",
    )
    assert [each.name for each in folder.staging.iterdir()] == [".DS_Store"]


def test_large_files_stay_and_others_are_joined_up_to_the_size(folder: Folder) -> None:
    size = max(file.stat().st_size for file in (folder.root / "p=a").iterdir())
    done = compact(folder, 2 * size)
    assert (done.joined, done.written) == (4, 2)
    assert compact(folder, 10).joined == 0


def test_what_others_did_before_is_still_known_after_a_compaction(folder: Folder) -> None:
    compact(folder, 1_000_000)
    state = protocol.walk(protocol.opening(folder))
    (folder.root / next(iter(state.files))).unlink()
    for number in range(2):
        pq.write_table(pa.table({"id": [number], "v": ["x"]}), folder.root / "p=a" / f"new{number}.parquet")
    compact(folder, 1_000_000)
    last = next(iter(DatasetLog(str(folder)).commits()))
    assert (last.operation, last.adds_rows, last.removes_rows) == ("OPTIMIZE", True, True)


def test_the_history_of_a_dataset_shows_a_compaction(folder: Folder) -> None:
    compact(folder, 1_000_000)
    shown = CliRunner().invoke(tidemill, ["history", str(folder)]).output.splitlines()[1:]
    assert [(line.split()[0], line.split()[-1]) for line in shown] == [("1", "compact")]
    told = CliRunner().invoke(tidemill, ["history", str(folder), "--format", "json"]).output
    (commit,) = json.loads(told)["commits"]
    assert (commit["by"], commit["operation"], commit["inserted"], commit["deleted"]) == ("tidemill", "OPTIMIZE", 0, 0)


def test_a_size_that_is_none_and_a_folder_that_is_no_dataset_are_errors(folder: Folder, tmp_path: Path) -> None:
    for size in ("big", "0", "0.1"):
        bad = CliRunner().invoke(tidemill, ["compact", str(folder), "--target-size", size])
        assert bad.exit_code == 2
        assert f"'{size}' is no size." in bad.output
    nothing = CliRunner().invoke(tidemill, ["recover", str(tmp_path / "nothing")])
    assert "There is no table at" in nothing.output
    places = {
        "": "'' is no path.",
        str(folder.root / "p=a/0.parquet"): "is a file",
    }
    for command, (place, told) in product(("compact", "vacuum", "recover"), places.items()):
        assert told in CliRunner().invoke(tidemill, [command, place]).output
    done = CliRunner().invoke(tidemill, ["compact", str(folder), "--target-size", "1.5 MB"])
    assert "files joined to" in done.output
    kept = CliRunner().invoke(tidemill, ["vacuum", str(folder), "--retain", "1 day"])
    assert (kept.exit_code, "which has no older versions" in kept.output) == (2, True)


def test_a_disk_that_is_full_leaves_the_dataset_as_it_was(folder: Folder) -> None:
    """A limit on the size of files ends a write as a full disk does."""
    before = rows_of(folder)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limit[1]))
    try:
        with pytest.raises(TableError, match=r"could not be written to: .*File too large") as caught:
            compact(folder, 1_000_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert caught.value.remedy == "Fix that and run again. The dataset is as it was."
    assert rows_of(folder) == before
    assert list(folder.staging.iterdir()) == []


def test_a_dataset_that_may_not_be_written_to_says_so(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    compact(folder, 1_000_000)

    def refused(*_: object) -> None:  # the tests may be run by root
        raise PermissionError(13, "Permission denied", str(folder.root))

    monkeypatch.setattr(Path, "open", refused)
    told = CliRunner().invoke(tidemill, ["recover", str(folder)])
    assert told.exit_code == 1
    assert "error[dataset.not_written]" in told.output
    assert "could not be written to: [Errno 13] Permission denied" in told.output
