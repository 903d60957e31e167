"""What workers do to files: rows at some places are replaced or go, and everything else stays as it was."""

from __future__ import annotations

import datetime as dt
import resource
import subprocess
import sys
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle

from tidemill.formats.parquet import direct
from tidemill.formats.parquet.worker.files import Shape, write_rows
from tidemill.formats.parquet.worker.rewriting import DROP, FATE, FILE, MOVE, REPLACE, ROW, STAY, meet, splice

if TYPE_CHECKING:
    from pathlib import Path

KINDS = pa.schema(
    [
        ("id", pa.int64()),
        ("small", pa.uint8()),
        ("real", pa.float32()),
        ("yes", pa.bool_()),
        ("text", pa.large_string()),
        ("bytes", pa.binary()),
        ("price", pa.decimal128(10, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("ms")),
        ("code", pa.dictionary(pa.int32(), pa.string())),
        ("nested", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])),
        ("list", pa.list_(pa.int32())),
        ("map", pa.map_(pa.string(), pa.int32())),
    ]
)


def row(number: int, *, empty: bool = False) -> dict[str, object]:
    if empty:
        return {"id": number} | dict.fromkeys(KINDS.names[1:])
    moment = dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=number)
    return {
        "id": number,
        "small": number % 256,
        "real": number / 2,
        "yes": number % 2 == 0,
        "text": f"row {number}",
        "bytes": bytes([number % 256]),
        "price": Decimal(number) / 100,
        "day": dt.date(2024, 1, 1) + dt.timedelta(days=number),
        "at": moment,
        "local": moment.replace(tzinfo=None, microsecond=0),
        "code": "even" if number % 2 == 0 else "odd",
        "nested": {"a": number, "b": ["x", None]},
        "list": [number, None],
        "map": [("k", number)],
    }


def table(rows: list[dict[str, object]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=KINDS)


def actions(path: Path, fates: dict[int, str], new: dict[int, dict[str, object]]) -> pa.Table:
    given = table([new.get(place, row(0, empty=True)) for place in fates])
    marks = {FILE: [f"file://{path}"] * len(fates), ROW: list(fates), FATE: list(fates.values())}
    return pa.table({**marks, **{name: given.column(name) for name in KINDS.names}})


def spliced(given: pa.Table, shape: Shape) -> dict[str, Any]:
    """What a worker tells that gets the actions in batches of three."""
    return next(splice(given.to_batches(max_chunksize=3), shape)).to_pylist()[0]


@pytest.fixture
def staging(tmp_path: Path) -> Path:
    folder = tmp_path / "staging"
    folder.mkdir()
    return folder


def test_all_kinds_of_values_are_replaced_in_place_and_the_rest_stays(tmp_path: Path, staging: Path) -> None:
    path = tmp_path / "a file%20.parquet"
    before = [row(n, empty=n == 7) for n in range(100)]
    pq.write_table(table(before), path, row_group_size=30, compression="zstd")
    fates = {99: REPLACE, 0: REPLACE, 31: DROP, 32: MOVE, 33: REPLACE, 34: REPLACE}
    new = {place: row(1000 + place, empty=place == 33) for place in fates}
    report = spliced(actions(path, fates, new), Shape(str(staging), KINDS))
    after = [new[n] if fates.get(n) == REPLACE else old for n, old in enumerate(before) if n not in (31, 32)]
    found = pq.ParquetFile(staging / report["staged"])
    assert found.read().to_pylist() == table(after).to_pylist()
    assert found.schema_arrow == KINDS
    assert found.metadata.row_group(0).column(0).compression == "ZSTD"
    assert [found.metadata.row_group(n).num_rows for n in range(4)] == [30, 28, 30, 10]
    assert (report["instead_of"], report["rows"]) == (str(path), 98)
    assert (report["replaced"], report["moved"], report["dropped"]) == (4, 1, 1)


def test_many_changes_in_one_row_group_are_spliced_alike(tmp_path: Path, staging: Path) -> None:
    path = tmp_path / "f.parquet"
    before = [row(n) for n in range(6000)]
    pq.write_table(table(before), path)
    fates = {n: REPLACE if n % 4 == 0 else DROP for n in range(0, 6000, 2)}
    new = {place: row(place + 1) for place in fates}
    report = spliced(actions(path, fates, new), Shape(str(staging), KINDS))
    after = [new[n] if fates.get(n) == REPLACE else old for n, old in enumerate(before) if fates.get(n) != DROP]
    assert pq.read_table(staging / report["staged"]).to_pylist() == table(after).to_pylist()


def test_types_that_arrow_only_keeps_are_worked_on_as_others_that_are_the_same(tmp_path: Path, staging: Path) -> None:
    """Views, JSON, and a dictionary that has room for 127 words."""
    words = pa.dictionary(pa.int8(), pa.string())
    kinds = pa.schema([("view", pa.string_view()), ("json", pa.json_()), ("word", words)])

    def texts(name: str, numbers: range) -> pa.Table:
        values = pa.array([f"{name} {number % 100}" for number in numbers])
        return pa.table({"view": values, "json": values, "word": values})

    path, before, new = tmp_path / "f.parquet", texts("old", range(4000)), texts("new", range(2000))
    pq.write_table(before.cast(kinds), path)
    given = {FILE: [str(path)] * 2000, ROW: list(range(0, 4000, 2)), FATE: [REPLACE] * 2000}
    given |= dict(zip(new.column_names, new.columns, strict=True))
    report = spliced(pa.table(given), Shape(str(staging), new.schema))
    found = pq.read_table(staging / report["staged"])
    old = iter(before.to_pylist()[1::2])
    assert found.to_pylist() == [row for one in new.to_pylist() for row in (one, next(old))]
    assert found.schema.field("json").type == pa.json_()


def test_a_file_that_loses_all_its_rows_has_no_successor(tmp_path: Path, staging: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(table([row(1), row(2)]), path)
    report = spliced(actions(path, {0: DROP, 1: DROP}, {}), Shape(str(staging), KINDS))
    assert (report["staged"], report["dropped"]) == (None, 2)
    assert list(staging.iterdir()) == []


def test_each_file_that_the_actions_name_is_rewritten(tmp_path: Path, staging: Path) -> None:
    paths = [tmp_path / f"{n}.parquet" for n in range(12)]
    for number, path in enumerate(paths):
        pq.write_table(table([row(number), row(number)]), path)
    both = pa.concat_tables([actions(path, {0: DROP, 1: REPLACE}, {1: row(100)}) for path in paths])
    reports = [batch.to_pylist()[0] for batch in splice(both.to_batches(max_chunksize=3), Shape(str(staging), KINDS))]
    assert [report["instead_of"] for report in reports] == [str(path) for path in paths]
    assert {pq.read_table(staging / report["staged"]).column("id").to_pylist()[0] for report in reports} == {100}


def test_a_file_gets_other_columns_where_they_are_asked_for(tmp_path: Path, staging: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"id": [1, 2], "old": ["a", "b"]}), path)
    wanted = pa.schema([("id", pa.int64()), ("new", pa.string())])
    only = pa.table({FILE: [str(path)], ROW: [-1], FATE: [STAY]})
    report = spliced(only, Shape(str(staging), wanted, exact=True))
    assert pq.read_table(staging / report["staged"]).to_pylist() == [{"id": 1, "new": None}, {"id": 2, "new": None}]


def test_a_file_gets_room_for_fields_digits_and_nulls_that_it_had_none_for(tmp_path: Path, staging: Path) -> None:
    path = tmp_path / "f.parquet"
    kinds = [("s", pa.list_(pa.struct([("a", pa.int64())]))), ("price", pa.decimal128(5, 1)), ("none", pa.null())]
    narrow = pa.schema([pa.field("id", pa.int64(), nullable=False), *map(pa.field, *zip(*kinds, strict=True))])
    pq.write_table(pa.table([[1, 2], [[{"a": 1}], None], [Decimal("1.5"), None], pa.nulls(2)], schema=narrow), path)
    wide = pa.schema(
        [
            ("id", pa.int64()),
            ("s", pa.list_(pa.struct([("a", pa.int64()), ("b", pa.string())]))),
            ("price", pa.decimal128(9, 1)),
            ("none", pa.string()),
        ]
    )
    new = {"id": None, "s": [{"a": 2, "b": "deep"}], "price": Decimal("12345.6"), "none": "some"}
    marks = pa.table({FILE: [str(path)], ROW: [1], FATE: [REPLACE]})
    given = pa.Table.from_pylist([new], schema=wide)
    for name in wide.names:
        marks = marks.append_column(name, given.column(name))
    report = spliced(marks, Shape(str(staging), wide))
    old = {"id": 1, "s": [{"a": 1, "b": None}], "price": Decimal("1.5"), "none": None}
    assert pq.read_table(staging / report["staged"]).to_pylist() == [old, new]


def test_old_times_of_spark_stay_what_they_are(tmp_path: Path, staging: Path) -> None:
    """INT96 is what Spark writes by default."""
    path = tmp_path / "f.parquet"
    moment = dt.datetime(2024, 1, 1, 12, 0, 0, 123456, tzinfo=dt.UTC).replace(tzinfo=None)
    pq.write_table(pa.table({"id": [1, 2], "at": [moment, None]}), path, use_deprecated_int96_timestamps=True)
    later = pa.array([moment.replace(tzinfo=dt.UTC, hour=13)], pa.timestamp("us", tz="UTC"))
    only = pa.table({FILE: [str(path)], ROW: [1], FATE: [REPLACE], "id": [2], "at": later})
    report = spliced(only, Shape(str(staging), pq.read_schema(path)))
    found = pq.ParquetFile(staging / report["staged"], coerce_int96_timestamp_unit="us")
    assert found.schema.column(1).physical_type == "INT96"
    assert found.read().column("at").to_pylist() == [moment, moment.replace(hour=13)]


def test_days_of_sparks_old_calendar_are_refused_and_others_counted_as_today(tmp_path: Path, staging: Path) -> None:
    path, notes = tmp_path / "f.parquet", {b"org.apache.spark.legacyDateTime": b"", b"kept": b"yes"}
    for day in (dt.date(1500, 3, 1), dt.date(1890, 1, 1)):
        held = pa.table({"id": [1, 2], "day": [day, None]}).replace_schema_metadata(notes)
        pq.write_table(held, path)
        only = pa.table({FILE: [str(path)], ROW: [1], FATE: [REPLACE], "id": [2], "day": [dt.date(1400, 1, 1)]})
        if day.year < 1582:
            with pytest.raises(pa.ArrowInvalid, match="day holds 1500-03-01, which would become another day"):
                spliced(only, Shape(str(staging), held.schema))
    found = pq.read_table(staging / spliced(only, Shape(str(staging), held.schema))["staged"])
    assert (found.column("day").to_pylist(), found.schema.metadata) == ([day, dt.date(1400, 1, 1)], {b"kept": b"yes"})


def test_new_rows_go_to_a_file_for_each_partition(staging: Path) -> None:
    schema = pa.schema([("id", pa.int32())])
    rows = pa.table({"id": [1, 2, 3, 4, 5], "p": ["a/b", "a/b", None, "01", "\0"]})
    folders = {("01",): "p=1/"}
    reports = [
        batch.to_pylist()[0]
        for batch in write_rows(
            iter(rows.to_batches(max_chunksize=1)), Shape(str(staging), schema), {"p": "p"}, folders
        )
    ]
    assert [(each["folder"], each["rows"]) for each in reports] == [
        ("p=a%2Fb/", 2),
        ("p=__HIVE_DEFAULT_PARTITION__/", 1),
        ("p=1/", 1),
        ("p=%00/", 1),
    ]
    assert pq.read_table(staging / reports[0]["staged"]).to_pydict() == {"id": [1, 2]}


def test_an_empty_text_names_no_partition(staging: Path) -> None:
    rows = pa.table({"id": [1], "p": [""]})
    with pytest.raises(ValueError, match="an empty text cannot be the name of a partition's folder"):
        list(write_rows(iter(rows.to_batches()), Shape(str(staging), pa.schema([("id", pa.int64())])), {"p": "p"}, {}))


def test_a_value_that_does_not_fit_is_an_error(tmp_path: Path, staging: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"small": pa.array([1], pa.uint8())}), path)
    only = pa.table({FILE: [str(path)], ROW: [0], FATE: [REPLACE], "small": [300]})
    with pytest.raises(pa.ArrowInvalid, match=r"small is kept as uint8, which has no room for a value: .*not in range"):
        spliced(only, Shape(str(staging), pq.read_schema(path)))


def test_a_disk_that_is_full_is_an_error_of_the_task(tmp_path: Path, staging: Path) -> None:
    """A limit on the size of files ends a write as a full disk does."""
    path = tmp_path / "f.parquet"
    pq.write_table(table([row(n) for n in range(2000)]), path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            spliced(actions(path, {0: DROP}, {}), Shape(str(staging), KINDS))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def peak_of(path: Path, staging: Path, groups: int) -> int:
    """The most memory that Arrow has at once while it rewrites a file of so many row groups, one in each changed."""
    size = 20_000
    rows = pa.table({"id": list(range(size * groups)), "text": [f"row {n:050}" for n in range(size * groups)]})
    pq.write_table(rows, path, row_group_size=size)
    places = list(range(0, size * groups, size))
    marks = {FILE: [str(path)] * groups, ROW: places, FATE: [REPLACE] * groups}
    given = pa.table({**marks, "id": places, "text": ["new"] * groups})
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.system_memory_pool())
    pa.set_memory_pool(pool)
    try:
        assert spliced(given, Shape(str(staging), rows.schema))["replaced"] == groups
    finally:
        pa.set_memory_pool(before)
    return int(pool.max_memory())


def test_memory_grows_with_a_row_group_and_not_with_the_file(tmp_path: Path, staging: Path) -> None:
    few, many = (peak_of(tmp_path / f"{groups}.parquet", staging, groups) for groups in (2, 20))
    assert many < 1.5 * few


def test_what_goes_to_workers_needs_no_tidemill_there(tmp_path: Path):
    """By value goes a function with all that it calls."""
    assert direct.meet is meet  # its module, and what that imports, say what goes by value
    sent = tmp_path / "sent"
    sent.write_bytes(cloudpickle.dumps((meet, write_rows)))
    code = "import pickle, sys; sys.modules['tidemill'] = None; print(len(pickle.load(open(sys.argv[1], 'rb'))))"
    there = subprocess.run([sys.executable, "-c", code, str(sent)], capture_output=True, text=True, check=False)
    assert (there.stdout, there.returncode) == ("2\n", 0), there.stderr
