"""What is set right by hand: keys that are NULL or stand twice, and watermarks, each in one commit."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from tidemill.changes import require
from tidemill.changes.compare import descending, held_twice, shown_keys
from tidemill.errors import StateError
from tidemill.formats.base import PLACE, DropRows
from tidemill.formats.filesystem import attempting, look, with_retries
from tidemill.formats.registry import no_table_at, store_at, store_of
from tidemill.maintenance.backup import signed
from tidemill.model import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from tidemill.formats.port import Store
    from tidemill.model.cursor import Cursor
    from tidemill.model.record import Record, Snapshot
    from tidemill.model.table import Table

_RANK = "__tidemill_rank"


@dataclass(frozen=True, slots=True)
class CheckedKeys:
    """What is wrong with the keys of a table; `shown` are some of those that stand twice."""

    rows: int
    null_keys: int
    duplicate_keys: int
    extra_rows: int
    shown: str
    seconds: float

    @property
    def ok(self) -> bool:
        return not self.null_keys and not self.duplicate_keys


@dataclass(frozen=True, slots=True)
class Repaired:
    """What was removed so that each key stands once."""

    deleted: int
    total: int
    files_rewritten: int
    files_kept: int
    version: int
    seconds: float


def check_keys(spark: SparkSession, path: str, keys: Sequence[str]) -> CheckedKeys:
    """Reads the key columns of the whole table."""
    return look(path, lambda: _check_keys(spark, path, keys))


def _check_keys(spark: SparkSession, path: str, keys: Sequence[str]) -> CheckedKeys:
    began = time.monotonic()
    rows = _there(path)[0].read(spark)
    keys = require(keys, rows.columns, "The key column", path)
    keyed = rows.select(*map(quote, keys))
    complete = keyed.where(_has_key(keys))
    twice = held_twice(complete, keys)
    total, whole = keyed.count(), complete.count()
    count, distinct = twice.count(), complete.distinct().count()
    shown = shown_keys(twice, keys) if count else ""
    return CheckedKeys(total, total - whole, count, whole - distinct, shown, time.monotonic() - began)


def dedup(spark: SparkSession, path: str, keys: Sequence[str], order_by: Sequence[str]) -> Repaired:
    """Leaves one row of each key: the highest by `order_by`, NULLs last, ties broken by all columns, then by place.

    Rows that have no key stay. Only files that lose a row are rewritten.
    """
    began = time.monotonic()

    def attempted(attempt: int) -> Repaired:
        with attempting(path, attempt):
            return _dedup(spark, path, keys, order_by, began)

    return with_retries(path, attempted)


def _dedup(spark: SparkSession, path: str, keys: Sequence[str], order_by: Sequence[str], began: float) -> Repaired:
    store, snapshot = _there(path)
    near = store.near(spark)
    if near is None:
        raise store.no_places()
    rows = near(())
    columns = [name for name in rows.columns if name not in PLACE]
    keys = require(keys, columns, "The key column", path)
    order_by = require(order_by, columns, "The order-by column", path)
    surplus = _surplus(rows, keys, order_by, columns)
    held = rows.count() if snapshot.rows is None else snapshot.rows
    if not surplus.take(1):
        return Repaired(0, held, 0, snapshot.files, snapshot.version, time.monotonic() - began)
    result = store.commit(spark, DropRows(surplus), _record(path, snapshot, keys, held), snapshot)
    gone = result.counts.deleted
    seconds = time.monotonic() - began
    return Repaired(gone, held - gone, result.files_rewritten, result.files_kept, result.version, seconds)


def _has_key(keys: Sequence[str]) -> Column:
    """`dropna` would take NaN, which is a key like any other, for none."""
    return reduce(lambda a, b: a & b, [F.col(quote(key)).isNotNull() for key in keys])


def _surplus(rows: DataFrame, keys: Sequence[str], order_by: Sequence[str], columns: Sequence[str]) -> DataFrame:
    """All rows of a key but the one that stays, by their place."""
    place = [F.col(name) for name in PLACE]
    order = [*descending(rows, order_by), *descending(rows, columns), *place]
    known = rows.where(_has_key(keys))
    ranked = known.withColumn(_RANK, F.row_number().over(Window.partitionBy(*map(quote, keys)).orderBy(*order)))
    return ranked.where(F.col(_RANK) > 1).select(*place)


def _there(path: str) -> tuple[Store, Snapshot]:
    store = store_at(path)
    snapshot = store.snapshot()
    if snapshot is None:
        raise no_table_at(path)
    return store, snapshot


def _record(path: str, snapshot: Snapshot, keys: Sequence[str], held: int) -> Record:
    """What the table knows of itself stays."""
    record = signed(snapshot.record, path, sequence=snapshot.sequence + 1, what="dedup")
    return record.with_(keys=tuple(keys), unique=True, same_rows_as=None, base=snapshot.version, held=held)


def set_watermark(spark: SparkSession, table: Table, value: Cursor | None) -> None:
    """The next run of the table reads from `value` on, minus its lookback; from the beginning where it is None."""
    with_retries(table.name, lambda attempt: _commit(spark, table, value, attempt))


def _commit(spark: SparkSession, table: Table, value: Cursor | None, attempt: int) -> None:
    store = store_of(table)
    snapshot = store.snapshot()
    if snapshot is None:
        raise never_run(table)
    store.commit_record(spark, _watermark_record(table, snapshot, value, attempt), after=snapshot.version)


def _watermark_record(table: Table, snapshot: Snapshot, value: Cursor | None, attempt: int) -> Record:
    """What the table knows of itself stays; of this input it only knows what was said by hand."""
    what = "reset watermark" if value is None else "set watermark"
    before = signed(snapshot.record, table.name, sequence=snapshot.sequence + 1, what=what, attempt=attempt)
    others = {name: cursor for name, cursor in before.progress.items() if name != table.input}
    versions = {name: version for name, version in before.input_versions.items() if name != table.input}
    reset = {name for name in before.reset if name != table.input} | ({table.input} if value is None else set())
    return before.with_(
        progress=others if value is None else {**others, table.input: value},
        reset=tuple(sorted(reset)),
        input_versions=versions,
        base=snapshot.version,
        held=snapshot.rows,
        same_rows_as=snapshot.content_version,
    )


def never_run(table: Table) -> StateError:
    return StateError(
        "watermark.never_run",
        f"{table.name} has not been run yet, so there is no log to hold its watermark.",
        'Give its source "start_date" in its PARAMS to begin there, or run it first.',
        origin=table.origin,
    )
