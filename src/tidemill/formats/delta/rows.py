"""A few rows of a Delta table, read by delta-rs."""

from __future__ import annotations

import deltalake
import pyarrow as pa
from deltalake.exceptions import DeltaError


def some_rows(path: str, limit: int) -> pa.Table | None:
    """Rows of the last commit, without those that it marks as deleted; None where only Spark can read the table."""
    try:
        return _first(pa.RecordBatchReader.from_stream(deltalake.DeltaTable(path).scan()), limit)
    except (DeltaError, pa.ArrowException, OSError):  # a feature that it does not know, or a file it cannot read
        return None


def _first(batches: pa.RecordBatchReader, limit: int) -> pa.Table:
    """Stops reading once there are enough."""
    found: list[pa.RecordBatch] = []
    for batch in batches:
        found.append(batch)
        if sum(each.num_rows for each in found) >= limit:
            break
    return pa.Table.from_batches(found, batches.schema).slice(0, limit)
