"""What a merge has to give, in plain Python: rows are dictionaries, and a dataset is a list of them."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Sequence
    from pathlib import Path

Row = dict[str, Any]
KEYS = ("k", "name")
SCHEMA = pa.schema(
    [
        ("k", pa.int32()),
        ("name", pa.string()),
        ("place", pa.string()),
        ("order", pa.int64()),
        ("yes", pa.bool_()),
        ("tiny", pa.int8()),
        ("real", pa.float32()),
        ("double", pa.float64()),
        ("text", pa.string()),
        ("bytes", pa.binary()),
        ("price", pa.decimal128(12, 3)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")),
        ("nested", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ("list", pa.list_(pa.int64())),
    ]
)
FLAT = pa.schema([item for item in SCHEMA if not pa.types.is_nested(item.type)])  # Arrow compares these, Spark the rest


def some_rows(chance: random.Random, keys: Iterable[tuple[int, str]], schema: pa.Schema) -> list[Row]:
    rows = [{"k": k, "name": name, **_values(chance)} for k, name in keys]
    return pa.Table.from_pylist(rows, schema=schema).to_pylist()  # values as Arrow spells them


def _values(chance: random.Random) -> Row:
    """Few values, so that rows are often the same; any of them may be NULL."""
    n = chance.randrange(3)
    moment = dt.datetime(2024, 1, 1, 2, 3, 4, n, tzinfo=dt.UTC)
    values = {
        "place": ["eu", "us", "a/b %"][n],
        "order": n,
        "yes": n == 1,
        "tiny": -n,
        "real": [0.5, float("nan"), 2.25][n],
        "double": [0.1, float("inf"), -2.0][n],
        "text": ["", "ä\n", "x" * 50][n],
        "bytes": bytes([n, 0, 255]),
        "price": Decimal(n) / 8,
        "day": dt.date(1960 + n, 2, 28),
        "at": moment,
        "local": moment.replace(tzinfo=None),
        "nested": {"a": n, "b": None},
        "list": [n, None],
    }
    return {name: None if chance.random() < 0.05 and name != "order" else value for name, value in values.items()}


def keys_of(row: Row) -> tuple[Any, ...]:
    return tuple(row[key] for key in KEYS)


def same(one: Row, other: Row) -> bool:
    return repr(one) == repr(other)  # NaN is the same as NaN


@dataclass(frozen=True)
class Merged:
    rows: list[Row]
    inserted: int
    updated: int
    deleted: int


def merged(held: Sequence[Row], source: Sequence[Row], strategy: str) -> Merged:
    """The rows after a merge, and the counts; for `deduplicate`, of the highest row of each key by `order`."""
    coming = {keys_of(row): row for row in (_best(source) if strategy == "deduplicate" else source)}
    here = {keys_of(row) for row in held}
    new = [] if strategy == "update" else [row for key, row in coming.items() if key not in here]
    if strategy == "insert":
        return Merged([*held, *new], len(new), 0, 0)
    stay = [row for row in held if strategy != "full_merge" or keys_of(row) in coming]
    after = [coming.get(keys_of(row), row) for row in stay]
    updated = sum(not same(old, row) for old, row in zip(stay, after, strict=True))
    return Merged([*after, *new], len(new), updated, len(held) - len(stay))


def _best(source: Sequence[Row]) -> list[Row]:
    best: dict[tuple[Any, ...], Row] = {}
    for row in source:
        other = best.get(keys_of(row))
        if other is None or other["order"] < row["order"]:
            best[keys_of(row)] = row
    return list(best.values())


def write(folder: Path, rows: Sequence[Row], layout: str, schema: pa.Schema) -> None:
    """The rows as a dataset that somebody else has made."""
    table = pa.Table.from_pylist(rows, schema=schema)
    match layout:
        case "partitions":
            ds.write_dataset(
                table,
                folder,
                format="parquet",
                partitioning=ds.partitioning(pa.schema([("place", pa.string())]), flavor="hive"),
                basename_template="theirs-{i}.parquet",
                max_rows_per_group=20,
                max_rows_per_file=40,
            )
        case "small files":
            folder.mkdir(parents=True)
            for number in range(0, len(rows), 15):
                pq.write_table(table.slice(number, 15), folder / f"theirs-{number}.parquet")
        case "one file":
            folder.mkdir(parents=True)
            pq.write_table(table, folder / "theirs.parquet", row_group_size=50)


def read(folder: Path, schema: pa.Schema) -> list[Row]:
    """The rows as any other tool finds them."""
    files = [str(file) for file in folder.rglob("*.parquet") if "_tidemill" not in file.parts]
    hive = ds.partitioning(pa.schema([("place", pa.string())]), flavor="hive")
    rows = ds.dataset(files, format="parquet", partitioning=hive, partition_base_dir=str(folder), schema=schema)
    return rows.to_table().to_pylist()


def as_set(rows: Iterable[Row]) -> list[str]:
    return sorted(repr(row) for row in rows)
