"""A process of its own that writes to disks that are full, and prints the errors as JSON."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

import tidemill
from tidemill.spark.session import embedded

SPARE = 50_000  # bytes that Spark's temporary files still have


def rows(count: int) -> pa.Table:
    """Rows that cannot be compressed."""
    noise = np.random.default_rng(1).integers(10**17, 10**18, (2, count)).astype(str)
    return pa.table({"id": range(count), "v": np.char.add(noise[0], noise[1])})


def told(target: Path, kind: str, given: pa.Table) -> str:
    try:
        return str(tidemill.merge(given, target, on="id", format=kind).total)
    except tidemill.TidemillError as failure:
        return str(failure)


def data(folder: Path) -> int:
    return sum(1 for _ in folder.rglob("*.parquet"))


def main() -> None:
    disks, temp, free = (Path(argument) for argument in sys.argv[1:])
    os.environ["SPARK_LOCAL_DIRS"] = str(temp)
    embedded(small=True)
    few, many = rows(10), rows(100_000)
    found: dict[str, object] = {}
    for kind in ("delta", "parquet"):  # each has a disk of its own: Java frees the files of a failed write late
        new, held = disks / f"new-{kind}" / "orders", disks / kind / "orders"
        found[f"new {kind}"] = (told(new, kind, many), data(new))
        told(held, kind, few)
        found[kind] = (told(held, kind, many), data(held), len(tidemill.history(held)))
    (temp / "filler").write_bytes(bytes(shutil.disk_usage(temp).free - SPARE))
    found["scratch"] = (told(free / "orders", "delta", many), data(free))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
