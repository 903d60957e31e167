"""Compiles a strategy and a change to one operation, or to none when nothing differs."""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from tidemill.changes import ALL_COUNTS, EMPTIED, refuse_shrink, widened
from tidemill.changes.compare import difference, one_per_key, rows_not_in, target_duplicates
from tidemill.changes.match import CHANGED, NEW, OLDER, SAME, Match
from tidemill.changes.places import PASSED_OVER, compile_placed
from tidemill.formats.base import COMING, HELD, AppendRows, Compiled, OverwriteRows, ReplaceRows
from tidemill.model import of, quote
from tidemill.model.record import Counts
from tidemill.model.strategy import (
    Append,
    DeleteInsert,
    IncrementalJoin,
    Merge,
    MergeStrategy,
    Replace,
    Strategy,
    one_predicate,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row
    from pyspark.sql.types import StructType

    from tidemill.formats.base import Change, Target, UpsertRows
    from tidemill.model.cursor import Cursor


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


def column_types(schema: StructType) -> list[tuple[str, str]]:
    """Names and types of the columns, whatever their order."""
    return sorted((field.name.lower(), field.dataType.simpleString()) for field in schema.fields)


def _check_shrink(share: float | None, target: Target, rows: int) -> None:
    if share is None:
        return
    held = target.rows.count()
    refuse_shrink(share, held - rows, held, target.name)


_COLLAPSING = {MergeStrategy.DEDUPLICATE, MergeStrategy.FULL_MERGE}


@compile_change.register(Merge)
def _(strategy: Merge, change: Change, target: Target) -> Compiled:
    if change.profile.rows == 0 and strategy.form is not MergeStrategy.FULL_MERGE:
        return unchanged(change)
    matched = Match(strategy, change, target)
    if target.near is not None and strategy.form is not MergeStrategy.FULL_MERGE:
        compiled = compile_placed(matched)
        if compiled is not None:
            return compiled
    match strategy.form:
        case MergeStrategy.INSERT:
            return _insert(matched)
        case MergeStrategy.FULL_MERGE:
            return _full_merge(matched)
        case MergeStrategy.UPDATE:
            return _update(matched)
        case _:
            return _upsert(matched)


def _repeated(matched: Match) -> Compiled:
    """The target holds some key of the change more than once: an error, unless the strategy leaves one row of it."""
    keys, target = matched.strategy.keys, matched.target
    if matched.strategy.form not in _COLLAPSING or matched.may_keep:
        twice = matched.held_twice()
        raise target_duplicates(twice, twice.count(), keys, target.name)
    return _collapsed(matched)


def _upsert(matched: Match) -> Compiled:
    """Looks before it writes: new keys alone are an append, and where nothing differs nothing is written."""
    if apart := matched.out_of_reach:
        return Compiled(AppendRows(matched.rows_out_of_reach(apart)), unique=True)
    judged = matched.judged()
    if judged.repeats:
        return _repeated(matched)
    known = Counts(inserted=judged[NEW], updated=judged[CHANGED], unchanged=judged[SAME], ignored=judged[OLDER])
    if judged[CHANGED]:
        picked = matched.upsert(
            judged.having(NEW, CHANGED), inserts=judged[NEW] > 0, changed_files=judged.changed_files
        )
        return Compiled(picked, known, _known_of(picked), unique=True)
    operation = AppendRows(matched.new_rows()) if judged[NEW] else None
    return Compiled(operation, known, PASSED_OVER, unique=True)


def _update(matched: Match) -> Compiled:
    judged = matched.judged()
    if judged.repeats:
        return _repeated(matched)
    known = Counts(updated=judged[CHANGED], unchanged=judged[SAME], ignored=judged[OLDER] + judged[NEW])
    if not judged[CHANGED]:
        return Compiled(None, known, PASSED_OVER, unique=True)
    picked = matched.upsert(judged.having(CHANGED), inserts=False, changed_files=judged.changed_files)
    return Compiled(picked, known, _known_of(picked), unique=True)


def _insert(matched: Match) -> Compiled:
    new = matched.new_rows()
    if matched.target.snapshot.unique_on(matched.strategy.keys):
        some = has_rows(new)
    else:
        judged = matched.judged()
        if judged.repeats:
            return _repeated(matched)
        some = judged[NEW] > 0
    if some:
        return Compiled(AppendRows(new), remainder="ignored", unique=True)
    return Compiled(None, Counts(ignored=matched.change.profile.rows))


def _known_of(picked: UpsertRows) -> frozenset[str]:
    """Counts that the commit's own metrics do not tell: of a table that is written whole, none."""
    return ALL_COUNTS if picked.spreads else PASSED_OVER


def _full_merge(matched: Match) -> Compiled:
    """One outer join tells what is new, changed and missing."""
    target, change = matched.target, matched.change
    mark = "__tidemill_here"
    ours = target.rows.withColumn(mark, F.lit(1)).alias(HELD)
    theirs = change.rows.withColumn(mark, F.lit(1)).alias(COMING)
    here, there = F.col(of(HELD, mark)).isNotNull(), F.col(of(COMING, mark)).isNotNull()
    seen = _first(
        ours.join(theirs, matched.same_key, "full_outer").agg(
            F.count_if(here).alias("held"),
            F.count_if(there).alias("coming"),
            F.count_if(here & ~there).alias("missing"),
            F.count_if(there & ~here).alias("new"),
            F.count_if(here & there & matched.differs & matched.newer).alias("changed"),
            F.count_if(here & there & ~matched.newer).alias("older"),
        )
    )
    if seen["coming"] > change.profile.rows:
        return _repeated(matched)
    if matched.strategy.max_shrink is not None:
        refuse_shrink(matched.strategy.max_shrink, seen["missing"], seen["held"], target.name)
    counts = Counts(
        inserted=seen["new"],
        updated=seen["changed"],
        deleted=seen["missing"],
        unchanged=change.profile.rows - seen["new"] - seen["changed"] - seen["older"],
        ignored=seen["older"],
    )
    if not counts.written and not counts.deleted:
        return Compiled(None, counts)
    return Compiled(
        matched.full_merge(),
        counts,
        frozenset({"ignored"}),
        unique=True,
        notices=EMPTIED if change.profile.rows == 0 else (),
    )


def _collapsed(matched: Match) -> Compiled:
    """The target holds keys of the change more than once: the change's row of each is left.

    That is one rewrite of all, but for a full merge into a store that knows the places of rows.
    """
    target, change, keys = matched.target, matched.change, matched.strategy.keys
    full = matched.strategy.form is MergeStrategy.FULL_MERGE
    rest = target.rows.alias(HELD).join(matched.coming_keys, matched.same_key, "left_anti")
    same = ~matched.differs
    ours = target.rows.withColumn("__tidemill_here", F.lit(1)).alias(HELD)
    by_key = (
        change.rows.alias(COMING)
        .join(ours, matched.same_key, "left")
        .groupBy(*[F.col(of(COMING, key)) for key in keys])
        .agg(
            F.count(of(HELD, "__tidemill_here")).alias("__tidemill_held"),
            F.max(same & F.col(of(HELD, "__tidemill_here")).isNotNull()).alias("__tidemill_same"),
        )
    )
    held, is_same = F.col("__tidemill_held"), F.col("__tidemill_same")
    seen = _first(
        by_key.agg(
            F.count_if(held == 0).alias("new"),
            F.count_if((held > 0) & ~is_same).alias("changed"),
            F.sum(F.greatest(held - 1, F.lit(0))).alias("extra"),
        )
    )
    gone = rest.count() if full else 0
    if matched.strategy.max_shrink is not None:
        refuse_shrink(matched.strategy.max_shrink, gone + seen["extra"], target.rows.count(), target.name)
    counts = Counts(
        inserted=seen["new"],
        updated=seen["changed"],
        deleted=seen["extra"] + gone,
        unchanged=change.profile.rows - seen["new"] - seen["changed"],
    )
    known = frozenset({"inserted", "updated", "deleted", "unchanged", "ignored"})
    if full and target.near is not None and set(target.rows.columns) <= set(change.rows.columns):
        return Compiled(
            replace(matched.full_merge(), collapses=True), counts, known, unique=True, collapsed=seen["extra"]
        )
    kept = rest.where("false") if full else rest
    rows = kept.unionByName(_completed(matched), allowMissingColumns=True)
    return Compiled(OverwriteRows(rows), counts, known, unique=full, collapsed=seen["extra"])


def _completed(matched: Match) -> DataFrame:
    """The change's rows with what the table holds in columns that they lack; of several stored rows, one's."""
    columns, keys = matched.change.rows.columns, matched.strategy.keys
    lacking = [column for column in matched.target.rows.columns if column not in columns]
    if not lacking:
        return matched.change.rows
    stored = one_per_key(matched.target.rows.select(*map(quote, [*keys, *lacking])), keys, ())
    both = matched.change.rows.alias(COMING).join(stored.alias(HELD), matched.same_key, "left")
    return both.select(*[F.col(of(COMING, name)) for name in columns], *[F.col(of(HELD, name)) for name in lacking])


def _first(rows: DataFrame) -> Row:
    found = rows.first()
    assert found is not None  # noqa: S101  a global aggregate has one row
    return found
