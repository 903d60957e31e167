"""Merges of rows into one table, as users call them from Python. Importing this imports PySpark."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemill.api import merge_table
from tidemill.api.merge_step import files_at, merge_step
from tidemill.api.results import merge_result
from tidemill.execution.journal import log_merge
from tidemill.formats import DATASET_FORMAT
from tidemill.model.project import find_project
from tidemill.model.strategy import MergeStrategy
from tidemill.model.table import SchemaPolicy
from tidemill.sources.frames import FrameSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import SparkSession

    from tidemill.api.results import MergeResult
    from tidemill.execution import StepResult
    from tidemill.model.table import Table
    from tidemill.sources import Connector
    from tidemill.sources.frames import Rows


def merge(
    source: Rows | str | Path,
    target: str | Path,
    on: str | Iterable[str],
    strategy: MergeStrategy | str = MergeStrategy.UPSERT,
    *,
    dedup_order_by: str | Iterable[str] | None = None,
    only_newer: str | None = None,
    volatile: str | Iterable[str] = (),
    schema_policy: SchemaPolicy | str = SchemaPolicy.FAIL,
    max_shrink: float | None = None,
    format: str | None = None,  # noqa: A002  the word that users know
    spark: SparkSession | None = None,
    single_writer: bool = False,
) -> MergeResult:
    """Merges rows into the table at `target` by the key columns `on`, in one commit, or in none when nothing differs.

    `source` is a Spark, pandas or Polars DataFrame, a pyarrow Table, a DuckDB relation or anything else with
    `__arrow_c_stream__`, a list of dicts, or a path; `target` a path or the name of a table that `spark` knows. A
    target that is not there is made.

    - `strategy`: upsert, insert (new keys only), update (known keys only), full_merge (keys that the source lacks are
      deleted) or deduplicate (upsert of one row per key: the highest by `dedup_order_by`)
    - `only_newer`: a row replaces the stored one only if it is not older by this column
    - `volatile`: columns that take no part in the comparison, such as a load time
    - `schema_policy`: fail, ignore, append_new_columns or sync_all_columns, where the columns are not the table's
    - `max_shrink`: the share of the rows that a full_merge may delete, such as 0.1
    - `format`: delta or parquet; None asks what is there, and a new table is delta
    - `spark`: the session to run on; else the active one, or an embedded one
    - `single_writer`: your promise that no other process writes to the target; on S3 a Delta table needs it, or a
      session with a LogStore that is safe for several writers

    What is wrong raises a `TidemillError`, and the table is as it was. `dataclasses.asdict(result)` is the result for
    JSON. In the folder of a project the merge is in its ledger (`tidemill runs`) like the command; elsewhere it is in
    none.

    >>> tidemill.merge("changes.csv", "lake/sales", on="order_id")
    MergeResult(inserted=1, updated=1, deleted=0, unchanged=1, total=4, ...)
    """
    table = merge_table(
        target,
        on,
        strategy,
        dedup_order_by=dedup_order_by,
        only_newer=only_newer,
        volatile=volatile,
        policy=schema_policy,
        max_shrink=max_shrink,
        format_=format,
        single_writer=single_writer,
    )
    return merge_result(logged_merge(source, table, spark))


def merge_parquet_dataset(
    source: Rows | str | Path,
    target_path: str | Path,
    key_columns: str | Iterable[str],
    strategy: MergeStrategy | str = MergeStrategy.UPSERT,
    dedup_order_by: str | Iterable[str] | None = None,
    compression: str = "snappy",
    spark: SparkSession | None = None,
) -> dict[str, int]:
    """Merges rows into a plain Parquet dataset, a folder that any tool reads; in one commit, or in none.

    Only files that hold a changed row are rewritten, with this compression. Gives what was inserted, updated (rows
    that really changed) and deleted, and the rows that the dataset holds now, in total.

    >>> tidemill.merge_parquet_dataset("changes.csv", "lake/dataset", "order_id")
    {'inserted': 3, 'updated': 0, 'deleted': 0, 'total': 3}
    """
    table = merge_table(
        target_path,
        key_columns,
        strategy,
        dedup_order_by=dedup_order_by,
        format_=DATASET_FORMAT,
        compression=compression,
    )
    result = merge_result(logged_merge(source, table, spark))
    return {name: getattr(result, name) for name in ("inserted", "updated", "deleted", "total")}


def run_merge(source: Rows | str | Path, table: Table, spark: SparkSession | None = None, **how: Any) -> MergeResult:
    """The result of a declared merge, which no ledger hears of; `how` goes to `merge_step`."""
    return merge_result(merge_step(_source(source), table, spark, **how))


def logged_merge(source: Rows | str | Path, table: Table, spark: SparkSession | None = None) -> StepResult:
    """A merge that is in the ledger of the project in the current folder; outside of projects there is none."""
    if find_project(Path.cwd()) is None:
        return merge_step(_source(source), table, spark)
    named = source if isinstance(source, str | Path) else f"<{type(source).__name__}>"
    with log_merge(table, f"merge {named} {table.name}") as kept:
        return merge_step(_source(source), table, spark, listener=kept)


def _source(source: Rows | str | Path) -> Callable[[], Connector]:
    return partial(files_at, source) if isinstance(source, str | Path) else partial(FrameSource, source)
