"""What workers do with a small change: rows with its keys are found, compared and replaced; files without stay."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidemill.formats.parquet.worker.files import Shape
from tidemill.formats.parquet.worker.rewriting import Coming, keep, meet

if TYPE_CHECKING:
    from pathlib import Path

KINDS = pa.schema(
    [
        ("id", pa.int32()),
        ("code", pa.string()),
        ("real", pa.float64()),
        ("price", pa.decimal128(10, 2)),
        ("at", pa.timestamp("us", tz="UTC")),
        ("word", pa.dictionary(pa.int32(), pa.string())),
        ("yes", pa.bool_()),
    ]
)
SENT = KINDS.set(0, pa.field("id", pa.int64())).set(5, pa.field("word", pa.string()))  # as Spark tells them
COMPARED = ("real", "price", "at", "word", "yes")


def values(chance: random.Random) -> dict[str, Any]:
    """Few values, so that rows are often the same; any of them may be NULL."""
    n = chance.randrange(2)
    found = {
        "real": [float("nan"), 0.0][n],
        "price": Decimal(n),
        "at": dt.datetime(2024, 1, 1 + n, tzinfo=dt.UTC),
        "word": ["a", "b"][n],
        "yes": n == 1,
    }
    return {name: None if chance.random() < 0.1 else value for name, value in found.items()}


class Ground:
    """A folder with files, to which changes are brought."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.staging = folder, folder / "staging"
        self.staging.mkdir()
        self.files: list[tuple[str, tuple[str | None, ...]]] = []
        self.kinds = KINDS

    def add(self, rows: list[dict[str, Any]], *texts: str | None, schema: pa.Schema = KINDS, group: int = 7) -> None:
        path = self.folder / f"{len(self.files)}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), path, row_group_size=group)
        self.files.append((str(path), texts))

    def match(self, change: pa.Table, keys: tuple[str, ...], compared: tuple[str, ...], **more: Any) -> list[Any]:
        name = next(keep(change.to_batches(max_chunksize=3), str(self.staging))).to_pylist()[0]["name"]
        coming = Coming(str(self.staging / name), keys, compared, **more)
        numbers = pa.record_batch({"id": list(range(len(self.files)))})
        return [
            told.to_pylist()[0] for told in meet([numbers], self.files, coming, Shape(str(self.staging), self.kinds))
        ]

    def rows(self, told: dict[str, Any]) -> list[dict[str, Any]]:
        return pq.read_table(self.staging / told["staged"]).to_pylist()


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


@pytest.mark.parametrize("seed", range(20))
def test_known_keys_take_the_new_row_where_it_differs(ground: Ground, seed: int) -> None:
    chance = random.Random(seed)
    keys = [(n, code) for n in range(30) for code in "xy"]
    held = [{"id": n, "code": code, **values(chance)} for n, code in keys]
    for start in range(0, 60, 20):
        ground.add(held[start : start + 20])
    chosen = chance.sample([*keys, *((n, "new") for n in range(9))], 25)
    given = pa.Table.from_pylist([{"id": n, "code": code, **values(chance)} for n, code in chosen], schema=SENT)
    new = {(row["id"], row["code"]): row for row in given.to_pylist()}
    told = {report["instead_of"]: report for report in ground.match(given, ("id", "code"), COMPARED)}
    met = [chosen[number] for report in told.values() for number in report["met"]]
    assert sorted(met) == sorted(key for key in chosen if key in keys)
    for start, (path, _) in zip(range(0, 60, 20), ground.files, strict=True):
        part = pq.read_table(path).to_pylist()
        after = [new.get((row["id"], row["code"]), row) for row in part]
        changed = sum(repr(old) != repr(row) for old, row in zip(part, after, strict=True))
        report = told.get(path)
        assert (report["replaced"] if report else 0) == changed, start
        if changed:
            assert repr(ground.rows(report)) == repr(after)


def test_rows_that_are_the_same_leave_a_file_as_it_is(ground: Ground) -> None:
    held = [{"id": n, "code": "x", "real": -0.0, **dict.fromkeys(COMPARED[1:])} for n in range(20)]
    ground.add(held)
    change = pa.Table.from_pylist([{**row, "real": 0.0} for row in held[5:9]], schema=SENT)
    report = ground.match(change, ("id",), COMPARED)[0]
    assert (report["met"], report["same"], report["staged"], report["instead_of"]) == ([0, 1, 2, 3], 4, None, None)
    other = change.set_column(1, "code", pa.array(["volatile"] * 4))
    assert ground.match(other, ("id",), COMPARED)[0]["same"] == 4
    assert ground.match(other, ("id",), (*COMPARED, "code"))[0]["replaced"] == 4


def test_json_and_views_are_compared_as_the_texts_that_they_are(ground: Ground) -> None:
    held = pa.array(["{}", "[]", None])
    kept = pa.table({"id": [1, 2, 3], "view": held.cast(pa.string_view()), "json": held.cast(pa.json_())})
    pq.write_table(kept, ground.folder / "kept.parquet")
    ground.files.append((str(ground.folder / "kept.parquet"), ()))
    change = pa.table({"id": [1, 2, 3], "view": held, "json": ["{}", "[1]", None]})
    ground.kinds = change.schema
    report = ground.match(change, ("id",), ("view", "json"))[0]
    assert (report["same"], report["replaced"]) == (2, 1)
    assert ground.rows(report)[1] == {"id": 2, "view": "[]", "json": "[1]"}


def test_files_without_a_key_of_the_change_are_not_reported(ground: Ground) -> None:
    ground.add([{"id": 1}])
    ground.add([{"id": None}])
    assert ground.match(pa.Table.from_pylist([{"id": 2}], schema=SENT), ("id",), COMPARED) == []


def test_keys_are_only_looked_for_where_nothing_is_updated(ground: Ground) -> None:
    ground.add([{"id": n, "yes": True} for n in range(20)])
    change = pa.Table.from_pylist([{"id": 99}, {"id": 3}, {"id": 19}], schema=SENT)
    report = ground.match(change, ("id",), COMPARED, updates=False)[0]
    assert (report["met"], report["staged"], report["same"]) == ([1, 2], None, 0)


def test_a_row_whose_partition_changes_leaves_its_file(ground: Ground) -> None:
    ground.add([{"id": 1}, {"id": 2}, {"id": 3}], "a")
    ground.add([{"id": 4}], None)
    change = pa.Table.from_pylist([{"id": 1}, {"id": 2}, {"id": 4}, {"id": 9}], schema=SENT)
    change = change.append_column("part", pa.array(["a", "b", "b", "a"]))
    first, second = ground.match(change, ("id",), COMPARED, partitions={"part": "p"})
    assert (first["met"], first["moving"], first["same"], first["moved"]) == ([0, 1], [1], 1, 1)
    assert [row["id"] for row in ground.rows(first)] == [1, 3]
    assert (second["moving"], second["staged"]) == ([2], None)


def test_a_file_that_also_holds_its_partition_keeps_it(ground: Ground) -> None:
    both = KINDS.append(pa.field("p", pa.string()))
    ground.add([{"id": 1, "p": "a"}, {"id": 2, "p": "a"}], "a", schema=both)
    change = pa.Table.from_pylist([{"id": 1, "yes": True, "p": "a"}], schema=SENT.append(pa.field("p", pa.string())))
    change = change.append_column("part", pa.array(["a"]))
    report = ground.match(change, ("id",), COMPARED, partitions={"part": "p"})[0]
    assert [row["p"] for row in ground.rows(report)] == ["a", "a"]


def test_a_file_that_lacks_a_key_holds_none(ground: Ground) -> None:
    ground.add([{"code": "x"}], schema=pa.schema([("code", pa.string())]))
    assert ground.match(pa.Table.from_pylist([{"id": 1, "code": "x"}], schema=SENT), ("id", "code"), COMPARED) == []


def test_a_key_that_is_a_partition_is_looked_for_in_its_folder_only(ground: Ground) -> None:
    ground.add([{"id": 1}, {"id": 2}], "a")
    ground.add([{"id": 1}, {"id": 2}], "b")
    change = pa.Table.from_pylist([{"id": 1, "yes": True}], schema=SENT)
    change = change.append_column("part", pa.array(["b"]))
    reports = ground.match(change, ("p", "id"), COMPARED, partitions={"part": "p"})
    assert [(report["instead_of"], report["replaced"]) for report in reports] == [(ground.files[1][0], 1)]


def test_a_key_that_occurs_twice_is_reported_twice(ground: Ground) -> None:
    ground.add([{"id": 1}, {"id": 1}])
    ground.add([{"id": 1}])
    change = pa.Table.from_pylist([{"id": 1, "yes": True}], schema=SENT)
    assert [report["met"] for report in ground.match(change, ("id",), COMPARED)] == [[0, 0], [0]]


def test_a_file_that_lacks_a_column_holds_nulls_in_it(ground: Ground) -> None:
    ground.add([{"ID": 1}, {"ID": 2}], schema=pa.schema([("ID", pa.int64())]))
    change = pa.Table.from_pylist([{"id": 1}, {"id": 2, "yes": False}], schema=SENT)
    report = ground.match(change, ("id",), COMPARED)[0]
    assert (report["same"], report["replaced"]) == (1, 1)
    assert [row["yes"] for row in ground.rows(report)] == [None, False]
