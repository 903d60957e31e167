"""Changes compiled by Spark, or matched by a store; of protected tables, one that removes rows which an upsert would
keep is refused.
"""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch
from math import ceil
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from tidemill.changes.compare import difference
from tidemill.changes.compile import column_types, compile_change
from tidemill.changes.places import match_in_store
from tidemill.errors import TableError
from tidemill.formats.base import Compiled, OverwriteRows
from tidemill.model import quote, spelled
from tidemill.model.strategy import Append, DeleteInsert, Merge, Replace, Strategy

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField

    from tidemill.formats.base import Change, Target
    from tidemill.formats.port import Store


def compile_on_spark(
    strategy: Strategy, change: Change, target: Target, *, store: Store | None, protected: str | None
) -> Compiled:
    """The change, matched by the store where it is given one that can, else by Spark.

    `protected` says by what the history of the table is protected: then none of it may be lost.
    """
    matched = match_in_store(store, strategy, change, target) if store else None
    if matched is not None:
        return matched
    if protected is None:
        return compile_change(strategy, change, target)
    return compile_protected(strategy, change, target, protected)


def compile_protected(strategy: Strategy, change: Change, target: Target, why: str) -> Compiled:
    """What `compile_change` gives, where it loses no history; `why` says by what the table is protected.

    A `max_shrink` that the user gave allows a loss up to that share of the rows. What a table loses is never less than
    what it shrinks by, so nothing else has to look at it.
    """
    compiled = compile_change(_unlimited(strategy), change, target)
    lost = _rows_lost(compiled, change, target)
    if lost:
        held = target.snapshot.rows
        _refuse_loss(strategy, lost, target.rows.count() if held is None else held, target.name, why)
    return compiled


def _rows_lost(compiled: Compiled, change: Change, target: Target) -> int:
    """How many rows go that an upsert would keep: those whose key goes; without keys, those that the result lacks."""
    if compiled.operation is None or compiled.counts.deleted == compiled.collapsed:
        return 0
    is_alike = column_types(change.rows.schema) == column_types(target.rows.schema)
    if isinstance(compiled.operation, OverwriteRows) and not is_alike:
        return difference(_as_held(change.rows, target.rows), target.rows, change.volatile).only_right
    return compiled.counts.deleted - compiled.collapsed


def _as_held(rows: DataFrame, held: DataFrame) -> DataFrame:
    """The rows in the columns that the table has: a new column takes nothing away, one that is missing does."""

    def column(field: StructField) -> Column:
        name = spelled(field.name, rows.columns)
        found = F.lit(None) if name is None else F.col(quote(name))
        return found.try_cast(field.dataType).alias(field.name)

    return rows.select(*map(column, held.schema.fields))


def _refuse_loss(strategy: Strategy, lost: int, held: int, name: str, why: str) -> None:
    share = _allowed(strategy)
    if share is not None and lost <= share * held:
        return
    more = "" if share is None else f", more than max_shrink = {share:g} allows"
    raise TableError(
        "table.history_lost",
        f"{name} {why}, and this run would remove {lost:,} of its {held:,} rows that an upsert would keep{more}.",
        f"{_by_upsert(strategy)} If these rows are to go, allow it with "
        f"max_shrink = {ceil(lost / held * 100) / 100:g}. {name} is unchanged.",
    )


@singledispatch
def _allowed(strategy: Strategy) -> float | None:
    """The share that the user allows; a default allows nothing."""
    raise NotImplementedError(strategy)


@_allowed.register(Append)
def _(strategy: Append) -> None:
    del strategy  # it removes nothing


@_allowed.register(Replace)
def _(strategy: Replace) -> float | None:
    return None if strategy.by_default else strategy.max_shrink


@_allowed.register(Merge | DeleteInsert)
def _(strategy: Merge | DeleteInsert) -> float | None:
    return strategy.max_shrink


@singledispatch
def _unlimited(strategy: Strategy) -> Strategy:
    """The strategy without its max_shrink."""
    return strategy


@_unlimited.register(Merge | DeleteInsert | Replace)
def _(strategy: Merge | DeleteInsert | Replace) -> Strategy:
    return replace(strategy, max_shrink=None)


@singledispatch
def _by_upsert(strategy: Strategy) -> str:
    del strategy
    return "Merge by key instead (keys=[…] of a function, MERGE ON in SQL), which keeps rows that do not come again."


@_by_upsert.register(Merge)
def _(strategy: Merge) -> str:
    del strategy
    return "Use upsert in the place of full_merge: it keeps rows that the source no longer returns."
