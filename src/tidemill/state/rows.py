"""A few rows of a table, read without a JVM."""

from __future__ import annotations

import deltalake
import pyarrow as pa
from deltalake.exceptions import DeltaError

from tidemill.dataset.footers import footers
from tidemill.dataset.unreadable import reading
from tidemill.declare.formats import PARQUET
from tidemill.state.dataset_log import DatasetLog
from tidemill.state.logs import format_at


def some_rows(path: str, limit: int) -> pa.Table | None:
    """Rows of the last commit, without those that it marks as deleted; None where only Spark can read the table.

    Which rows come first is up to the table's files.
    """
    if format_at(path) == PARQUET:
        return _of_dataset(path, limit)
    try:
        batches = pa.RecordBatchReader.from_stream(deltalake.DeltaTable(path).scan())
        return _first(batches, limit)
    except (DeltaError, pa.ArrowException, OSError):  # a feature that it does not know, or a file it cannot read
        return None


def _of_dataset(path: str, limit: int) -> pa.Table | None:
    from pyarrow import dataset  # noqa: PLC0415  slow to import

    log = DatasetLog(path)
    held, root = log.state().files, log.folder.root
    hive = dataset.HivePartitioning.discover(infer_dictionary=False)
    written = dict.fromkeys(footer.schema for footer in footers(root, list(held.values())))
    files = [str(root / each) for each in held]
    with reading(path, files[0] if files else path):
        whole = dataset.dataset(files, format="parquet", partitioning=hive, partition_base_dir=path)
    try:
        schema = pa.unify_schemas([whole.schema, *written], promote_options="permissive")
    except pa.ArrowException:  # files that do not fit each other: Spark will tell
        return None
    rows = schema.empty_table()
    for part in whole.get_fragments():
        with reading(path, part.path):
            rows = pa.concat_tables([rows, part.scanner(schema=schema).head(limit - rows.num_rows)])
        if rows.num_rows >= limit:
            break
    return rows


def _first(batches: pa.RecordBatchReader, limit: int) -> pa.Table:
    """Stops reading once there are enough."""
    found: list[pa.RecordBatch] = []
    for batch in batches:
        found.append(batch)
        if sum(each.num_rows for each in found) >= limit:
            break
    return pa.Table.from_batches(found, batches.schema).slice(0, limit)
