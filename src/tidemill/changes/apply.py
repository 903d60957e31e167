"""What rows become when a change is applied to them, as frames, of several sources too. Writes nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce, singledispatch
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from tidemill.changes.compare import descending, held_twice, rows_not_in, shown_keys, without_copies
from tidemill.changes.compile import compile_change
from tidemill.errors import MergeError
from tidemill.formats.base import (
    COMING,
    HELD,
    AppendRows,
    OverwriteRows,
    Reach,
    ReplaceByKey,
    ReplaceRows,
    Target,
    UpsertRows,
)
from tidemill.model import quote
from tidemill.model.record import Snapshot
from tidemill.model.strategy import Replace, Strategy
from tidemill.spark.session import settle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from tidemill.formats.base import Change, Operation


@dataclass(frozen=True, slots=True)
class Entering:
    """Together they are the table after the commit. Without a table, and where nothing of it stays, `beside` is None.

    Both are lazy: nothing is read here.
    """

    rows: DataFrame
    beside: DataFrame | None = None


def entering(operation: Operation, held: DataFrame | None) -> Entering:
    """What enters a table that holds the rows `held`; None where it is made by this commit."""
    if held is None:
        return Entering(operation.rows)
    match operation:
        case AppendRows(rows):
            return Entering(rows, held)
        case OverwriteRows(rows):
            return Entering(rows)
        case ReplaceRows(rows, predicate):
            return Entering(rows, held.where(~F.coalesce(F.expr(predicate), F.lit(False))))  # noqa: FBT003
        case ReplaceByKey():
            return _replaced(operation, held.alias(HELD))
        case UpsertRows():
            return _upserted(operation, held.alias(HELD))
        case _:
            raise NotImplementedError(operation)


def _replaced(operation: ReplaceByKey, held: DataFrame) -> Entering:
    if operation.gone is None:
        return Entering(operation.rows, held)
    return Entering(operation.rows, held.join(operation.gone.alias(COMING), F.expr(operation.match), "left_anti"))


def _upserted(operation: UpsertRows, held: DataFrame) -> Entering:
    if operation.collapses:  # a full merge
        return Entering(operation.rows)
    same_key = F.expr(operation.match)
    if not operation.delete_missing:
        return Entering(operation.rows, held.join(operation.rows, same_key, "left_anti"))
    stays = same_key & ~F.coalesce(F.expr(operation.changed), F.lit(False))  # noqa: FBT003
    return Entering(operation.rows.join(held, stays, "left_anti"), held.join(operation.rows, stays, "left_semi"))


_UNKNOWN = Snapshot(version=0, sequence=0, record=None, record_version=None)
_ANYWHERE = Reach(files=1, size=1)


def applied(strategy: Strategy, change: Change, held: DataFrame | None, name: str) -> DataFrame:
    """The rows of a table that held these, or nothing, after the change. Errors are those that the table would have."""
    return change.rows if held is None else _applied(strategy, change, held, name)


@singledispatch
def _applied(strategy: Strategy, change: Change, held: DataFrame, name: str) -> DataFrame:
    target = Target(name, held, _UNKNOWN, lambda _: _ANYWHERE)
    operation = compile_change(strategy, change, target).operation
    return held if operation is None else settle(rows_after(operation, held))


@_applied.register(Replace)
def _(strategy: Replace, change: Change, held: DataFrame, name: str) -> DataFrame:
    del strategy, held, name  # nothing of the table stays
    return change.rows


def rows_after(operation: Operation, held: DataFrame | None) -> DataFrame:
    """All rows of a table that held these, or was not there, after an operation; for stores that keep them whole."""
    entered = entering(operation if held is None else _complete(operation, held), held)
    if entered.beside is None:
        return entered.rows
    return entered.rows.unionByName(entered.beside, allowMissingColumns=True)


def _complete(operation: Operation, held: DataFrame) -> Operation:
    """Rows that replace others keep what these have in columns which they lack."""
    if not isinstance(operation, UpsertRows):
        return operation
    lacking = [name for name in held.columns if name not in operation.rows.columns]
    return _with(operation, held, lacking) if lacking else operation


def _with(operation: UpsertRows, held: DataFrame, lacking: Sequence[str]) -> UpsertRows:
    keys = list(operation.keys)
    stored = held.select(*map(quote, [*keys, *lacking]))
    return replace(operation, rows=operation.rows.join(stored, keys, "left").alias(COMING))


_SOURCE, _RANK = "__tidemill_source", "__tidemill_rank"


def in_one(frames: Sequence[DataFrame]) -> DataFrame:
    """The rows of all of them, with NULL in columns that a frame lacks."""
    return reduce(lambda all_rows, rows: all_rows.unionByName(rows, allowMissingColumns=True), frames)


def newest_of_all(frames: Sequence[DataFrame], keys: Sequence[str], cursor: str) -> DataFrame:
    """One row per key: that with the highest cursor; of several that tie, that of the last frame.

    Each frame has a key once.
    """
    rows = in_one([frame.withColumn(_SOURCE, F.lit(number)) for number, frame in enumerate(frames)])
    order = [*descending(rows, [cursor]), F.col(_SOURCE).desc()]
    rank = F.row_number().over(Window.partitionBy(*map(quote, keys)).orderBy(*order))
    return rows.withColumn(_RANK, rank).where(F.col(_RANK) == 1).drop(_RANK, _SOURCE)


def apart(frames: Sequence[DataFrame], volatile: frozenset[str]) -> DataFrame:
    """The rows of all of them, those that are the same in two frames once. Keys may come twice."""
    return without_copies(in_one(frames), volatile)


def not_as_stored(rows: DataFrame, held: DataFrame, keys: Sequence[str], volatile: frozenset[str]) -> DataFrame:
    """The keys that the table holds, and not with the same row."""
    stored = held.select(*[quote(name) for name in rows.columns if name in held.columns])
    known = rows.select(*map(quote, stored.columns))
    names = [quote(key) for key in keys]
    differing = rows_not_in(known, stored, volatile).select(*names).distinct()
    return differing.join(held.select(*names), [*keys], "left_semi")


def from_two_sources(rows: DataFrame, keys: Sequence[str], name: str, sources: Sequence[str]) -> MergeError:
    """The error for keys that come with different rows from several sources, one row of `rows` for each."""
    twice = held_twice(rows, keys)
    return met_in(twice, keys, name, sources)


def met_in(twice: DataFrame, keys: Sequence[str], name: str, sources: Sequence[str]) -> MergeError:
    """The same for keys that are known to come from several of these sources."""
    count = twice.count()
    word = "1 key comes" if count == 1 else f"{count:,} keys come"
    return MergeError(
        "load.key_from_two_sources",
        f"{word} into {name} from more than one source ({', '.join(sources)}): {shown_keys(twice, keys)}.",
        "Nothing says which row counts. Read these sources by the same cursor column (INCREMENTAL BY), so that the "
        f"newest row does, or make their keys distinct. {name} is unchanged.",
    )
