"""Each strategy against an oracle in plain Python, on datasets that others have made, and read as others read them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from parquet.oracle import FLAT, KEYS, SCHEMA, Row, as_set, keys_of, merged, read, same, some_rows, write

import tidemill

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

STRATEGIES = ("upsert", "insert", "update", "full_merge", "deduplicate")
LAYOUTS = ("partitions", "small files", "one file")
USUAL = [(STRATEGIES[n], LAYOUTS[n % 3], n) for n in range(5)]
MANY = [(strategy, layout, 100 + n) for n in range(8) for strategy in STRATEGIES for layout in LAYOUTS]


def source_of(chance: random.Random, held: list[Row], strategy: str, schema: pa.Schema) -> list[Row]:
    """Some rows as they are, some changed, some new; for `deduplicate` some keys more than once."""
    known = chance.sample(held, 30)
    changed = some_rows(chance, [keys_of(row) for row in known[:15]], schema)
    new = some_rows(chance, [(k, "new") for k in range(chance.choice([0, 9]))], schema)
    if strategy == "full_merge":
        return [*changed, *known[15:], *new]
    twice = changed[:5] if strategy == "deduplicate" else []
    again = some_rows(chance, [keys_of(row) for row in twice], schema)
    for number, row in enumerate([*changed[:5], *again]):
        row["order"] = number  # no ties: how they are broken is up to Spark's order of all columns
    return [*changed, *known[15:], *new, *again]


def files_in(folder: Path) -> dict[str, tuple[bytes, int]]:
    found = [file for file in folder.rglob("*.parquet") if "_tidemill" not in file.parts]
    return {str(file.relative_to(folder)): (file.read_bytes(), file.stat().st_mtime_ns) for file in found}


def touched(folder: Path, after: list[Row], schema: pa.Schema) -> set[str]:
    """The files that hold a row which is no longer there, or not as it was."""
    now = {keys_of(row): row for row in after}
    found = set()
    for file in files_in(folder):
        rows = [
            row for row in read_one(folder, file, schema) if keys_of(row) not in now or not same(row, now[keys_of(row)])
        ]
        found |= {file} if rows else set()
    return found


def read_one(folder: Path, file: str, schema: pa.Schema) -> list[Row]:
    hive = ds.partitioning(pa.schema([("place", pa.string())]), flavor="hive")
    one = ds.dataset([str(folder / file)], partitioning=hive, partition_base_dir=str(folder), schema=schema)
    return one.to_table().to_pylist()


def check(spark: SparkSession, path: Path, strategy: str, layout: str, seed: int) -> None:
    chance, schema = random.Random(seed), (FLAT, SCHEMA)[seed % 2]
    held = some_rows(chance, [(k, name) for k in range(60) for name in ("a", "b")], schema)
    write(path, held, layout, schema)
    source = source_of(chance, held, strategy, schema)
    wanted = merged(held, source, strategy)
    before, will_go = files_in(path), touched(path, wanted.rows, schema)
    order = "order" if strategy == "deduplicate" else None
    result = tidemill.merge(
        pa.Table.from_pylist(source, schema=schema), path, on=KEYS, strategy=strategy, dedup_order_by=order, spark=spark
    )
    assert as_set(read(path, schema)) == as_set(wanted.rows)
    assert (result.inserted, result.updated, result.deleted) == (wanted.inserted, wanted.updated, wanted.deleted)
    assert result.total == len(wanted.rows)
    assert (result.files_rewritten, result.files_kept) == (len(will_go), len(before) - len(will_go))
    after = files_in(path)
    assert {file: after.get(file) for file in before if file not in will_go} == {
        file: seen for file, seen in before.items() if file not in will_go
    }, "a file that holds no changed row was touched"
    assert not will_go & set(after)


@pytest.mark.parametrize(("strategy", "layout", "seed"), USUAL)
def test_a_merge_gives_what_the_oracle_gives(
    spark: SparkSession, tmp_path: Path, strategy: str, layout: str, seed: int
) -> None:
    check(spark, tmp_path / "data", strategy, layout, seed)


@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "layout", "seed"), MANY)
def test_many_merges_give_what_the_oracle_gives(
    spark: SparkSession, tmp_path: Path, strategy: str, layout: str, seed: int
) -> None:
    check(spark, tmp_path / "data", strategy, layout, seed)
