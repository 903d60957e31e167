"""One merge by fsspeckit, in an environment of its own: python fsspeckit_merge.py HANDLER CHANGE TARGET KEY PARTITION.

Prints what it says it did and how long that took, its imports aside, as JSON.
"""

import json
import sys
import time

import pyarrow.dataset as ds
from fsspeckit.datasets.duckdb import DuckDBDatasetIO, create_duckdb_connection
from fsspeckit.datasets.pyarrow import PyarrowDatasetIO


def main(handler: str, change: str, target: str, key: str, partition: str) -> None:
    began = time.perf_counter()
    io = PyarrowDatasetIO() if handler == "PyArrow" else DuckDBDatasetIO(create_duckdb_connection())
    rows = ds.dataset(change, format="parquet").to_table()
    done = io.merge(rows, target, "upsert", [key], partition_columns=[partition])
    seconds = time.perf_counter() - began
    print(json.dumps({"seconds": seconds, "inserted": done.inserted, "updated": done.updated}))


if __name__ == "__main__":
    main(*sys.argv[1:])
