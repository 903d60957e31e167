"""Compiles a strategy and a change to one operation of a store, or to none when nothing differs."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from tidemill.change.columns import widened
from tidemill.change.compare import difference, rows_not_in
from tidemill.contracts.operations import AppendRows, Compiled, OverwriteRows, ReplaceRows
from tidemill.contracts.records import Counts
from tidemill.declare.names import quote
from tidemill.declare.strategies import Append, DeleteInsert, IncrementalJoin, Replace, Strategy, one_predicate
from tidemill.errors import TableError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidemill.contracts.changes import Change, Target
    from tidemill.declare.cursors import Cursor


EMPTIED = ("the source is empty, and so is the table now",)


@singledispatch
def compile_change(strategy: Strategy, change: Change, target: Target) -> Compiled:
    """What a store has to do so that `change` enters `target`, which is there already."""
    raise NotImplementedError(strategy)


def has_rows(rows: DataFrame) -> bool:
    """Whether there is any row; stops at the first."""
    return bool(rows.select(F.lit(1)).take(1))


def unchanged(change: Change) -> Compiled:
    return Compiled(None, Counts(unchanged=change.profile.rows))


@compile_change.register(Append)
def _(strategy: Append, change: Change, target: Target) -> Compiled:  # noqa: ARG001  dispatched on
    if change.profile.rows == 0:
        return unchanged(change)
    if target.window is None:
        return Compiled(AppendRows(change.rows))
    missing, surely_new = _rows_to_append(change, target)
    if not surely_new and not has_rows(missing):
        return unchanged(change)
    return Compiled(AppendRows(missing))


def _rows_to_append(change: Change, target: Target) -> tuple[DataFrame, bool]:
    """The rows that the target's window does not hold, and whether there are any for sure.

    Rows above the window's highest time need no comparison. Everything about the target is read inside the write,
    so that rows which somebody else appends meanwhile are seen, or conflict.
    """
    assert target.window is not None  # noqa: S101
    assert change.time_column is not None  # noqa: S101  a window has one
    held = widened(target.rows.where(target.window), change.rows.schema)
    time, top = F.col(quote(change.time_column)), "__tidemill_top"
    bounded = change.rows.crossJoin(F.broadcast(held.agg(F.max(time).alias(top))))
    above = F.coalesce(time > F.col(top), time.isNotNull() & F.col(top).isNull())
    compared = rows_not_in(bounded.where(~above).drop(top), held, change.volatile)
    return bounded.where(above).drop(top).unionByName(compared), _reaches_above(change.profile.highest, target.highest)


def _reaches_above(highest: Cursor | None, held: Cursor | None) -> bool:
    return highest is not None and held is not None and held < highest


@compile_change.register(Replace)
def _(strategy: Replace, change: Change, target: Target) -> Compiled:
    _check_shrink(strategy.max_shrink, target, change.profile.rows)
    notices = EMPTIED if change.profile.rows == 0 else ()
    if column_types(change.rows.schema) != column_types(target.rows.schema):
        counts = Counts(inserted=change.profile.rows, deleted=target.rows.count())
    else:
        apart = difference(change.rows, target.rows, change.volatile)
        if not apart.only_left and not apart.only_right:
            return unchanged(change)
        kept = change.profile.rows - apart.only_left
        counts = Counts(inserted=apart.only_left, deleted=apart.only_right, unchanged=kept)
    return Compiled(OverwriteRows(change.rows), counts, ALL_COUNTS, notices=notices)


@compile_change.register(IncrementalJoin)
def _(strategy: IncrementalJoin, change: Change, target: Target) -> Compiled:
    """A window above all that the table holds has nothing in it to be compared with."""
    if not _lies_above(target.since, target.highest):
        return _replaced(strategy, change, target)
    if change.profile.rows == 0:
        return unchanged(change)
    added = Counts(inserted=change.profile.rows)
    return Compiled(ReplaceRows(change.rows, one_predicate(strategy, target.window)), added, ALL_COUNTS)


def _lies_above(since: Cursor | None, highest: Cursor | None) -> bool:
    return since is not None and highest is not None and since.kind is highest.kind and highest < since


@compile_change.register(DeleteInsert)
def _replaced(strategy: DeleteInsert, change: Change, target: Target) -> Compiled:
    predicate = one_predicate(strategy, target.window)
    held = widened(target.rows.where(predicate), change.rows.schema)
    apart = difference(change.rows, held, change.volatile)
    if not apart.only_left and not apart.only_right:
        return unchanged(change)
    if strategy.max_shrink is not None:
        refuse_shrink(strategy.max_shrink, apart.only_right - apart.only_left, target.rows.count(), target.name)
    kept = change.profile.rows - apart.only_left
    counts = Counts(inserted=apart.only_left, deleted=apart.only_right, unchanged=kept)
    return Compiled(ReplaceRows(change.rows, predicate), counts, ALL_COUNTS)


ALL_COUNTS = frozenset({"inserted", "updated", "deleted", "unchanged", "ignored"})


def column_types(schema: StructType) -> list[tuple[str, str]]:
    """Names and types of the columns, whatever their order."""
    return sorted((field.name.lower(), field.dataType.simpleString()) for field in schema.fields)


def _check_shrink(share: float | None, target: Target, rows: int) -> None:
    if share is None:
        return
    held = target.rows.count()
    refuse_shrink(share, held - rows, held, target.name)


def refuse_shrink(share: float, dropped: int, held: int, name: str) -> None:
    """Raises when a commit would drop more than `share` of the rows."""
    if held and dropped / held > share:
        raise TableError(
            "table.max_shrink",
            f"{name} would lose {dropped:,} of its {held:,} rows, more than max_shrink = {share:g} allows.",
            f"Look at the source; if it is right, raise max_shrink for this run. {name} is unchanged.",
        )
