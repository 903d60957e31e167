"""Merges: which known keys differ, which keys are new, and the cheapest safe way to write just those."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from tidemill.change.keys import one_per_key, target_duplicates
from tidemill.change.meeting import CHANGED, NEW, OLDER, SAME, Meeting
from tidemill.change.operation import EMPTIED, compile_change, has_rows, refuse_shrink, unchanged
from tidemill.change.placing import compile_brought, compile_placed
from tidemill.contracts.operations import COMING, HELD, AppendRows, Compiled, OverwriteRows
from tidemill.contracts.records import Counts
from tidemill.declare.names import of, quote
from tidemill.declare.strategies import Merge, MergeStrategy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

    from tidemill.contracts.changes import Change, Target

_COLLAPSING = {MergeStrategy.DEDUPLICATE, MergeStrategy.FULL_MERGE}


@compile_change.register(Merge)
def _(strategy: Merge, change: Change, target: Target) -> Compiled:
    if change.profile.rows == 0 and strategy.form is not MergeStrategy.FULL_MERGE:
        return unchanged(change)
    meeting = Meeting(strategy, change, target)
    if target.near is not None and strategy.form is not MergeStrategy.FULL_MERGE:
        compiled = compile_brought(meeting) or compile_placed(meeting)
        if compiled is not None:
            return compiled
    match strategy.form:
        case MergeStrategy.INSERT:
            return _insert(meeting)
        case MergeStrategy.FULL_MERGE:
            return _full_merge(meeting)
        case MergeStrategy.UPDATE:
            return _update(meeting)
        case _:
            return _upsert(meeting)


def _repeated(meeting: Meeting) -> Compiled:
    """The target holds some key of the change more than once: an error, unless the strategy leaves one row of it."""
    keys, target = meeting.strategy.keys, meeting.target
    if meeting.strategy.form not in _COLLAPSING or meeting.may_keep:
        twice = meeting.held_twice()
        raise target_duplicates(twice, twice.count(), keys, target.name)
    return _collapsed(meeting)


def _upsert(meeting: Meeting) -> Compiled:
    """Looks before it writes: new keys alone are an append, and where nothing differs nothing is written."""
    if apart := meeting.out_of_reach:
        return Compiled(AppendRows(meeting.rows_out_of_reach(apart)), unique=True)
    judged = meeting.judged()
    if judged.repeats:
        return _repeated(meeting)
    known = Counts(inserted=judged[NEW], updated=judged[CHANGED], unchanged=judged[SAME], ignored=judged[OLDER])
    if judged[CHANGED]:
        picked = meeting.upsert(judged.having([NEW, CHANGED]), inserts=judged[NEW] > 0)
        return Compiled(picked, known, _PASSED_OVER, unique=True)
    operation = AppendRows(meeting.new_rows()) if judged[NEW] else None
    return Compiled(operation, known, _PASSED_OVER, unique=True)


def _update(meeting: Meeting) -> Compiled:
    judged = meeting.judged()
    if judged.repeats:
        return _repeated(meeting)
    known = Counts(updated=judged[CHANGED], unchanged=judged[SAME], ignored=judged[OLDER] + judged[NEW])
    operation = meeting.upsert(judged.having([CHANGED]), inserts=False) if judged[CHANGED] else None
    return Compiled(operation, known, _PASSED_OVER, unique=True)


def _insert(meeting: Meeting) -> Compiled:
    new = meeting.new_rows()
    if meeting.target.snapshot.unique_on(meeting.strategy.keys):
        some = has_rows(new)
    else:
        judged = meeting.judged()
        if judged.repeats:
            return _repeated(meeting)
        some = judged[NEW] > 0
    if some:
        return Compiled(AppendRows(new), remainder="ignored", unique=True)
    return Compiled(None, Counts(ignored=meeting.change.profile.rows))


_PASSED_OVER = frozenset({"unchanged", "ignored"})


def _full_merge(meeting: Meeting) -> Compiled:
    """One outer join tells what is new, changed and missing."""
    target, change = meeting.target, meeting.change
    mark = "__tidemill_here"
    ours = target.rows.withColumn(mark, F.lit(1)).alias(HELD)
    theirs = change.rows.withColumn(mark, F.lit(1)).alias(COMING)
    here, there = F.col(of(HELD, mark)).isNotNull(), F.col(of(COMING, mark)).isNotNull()
    seen = _first(
        ours.join(theirs, meeting.same_key, "full_outer").agg(
            F.count_if(here).alias("held"),
            F.count_if(there).alias("coming"),
            F.count_if(here & ~there).alias("missing"),
            F.count_if(there & ~here).alias("new"),
            F.count_if(here & there & meeting.differs & meeting.newer).alias("changed"),
            F.count_if(here & there & ~meeting.newer).alias("older"),
        )
    )
    if seen["coming"] > change.profile.rows:
        return _repeated(meeting)
    if meeting.strategy.max_shrink is not None:
        refuse_shrink(meeting.strategy.max_shrink, seen["missing"], seen["held"], target.name)
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
        meeting.full_merge(),
        counts,
        frozenset({"ignored"}),
        unique=True,
        notices=EMPTIED if change.profile.rows == 0 else (),
    )


def _collapsed(meeting: Meeting) -> Compiled:
    """The target holds keys of the change more than once: the change's row of each is left.

    That is one rewrite of all, but for a full merge into a store that knows the places of rows.
    """
    target, change, keys = meeting.target, meeting.change, meeting.strategy.keys
    full = meeting.strategy.form is MergeStrategy.FULL_MERGE
    rest = target.rows.alias(HELD).join(meeting.coming_keys, meeting.same_key, "left_anti")
    same = ~meeting.differs
    ours = target.rows.withColumn("__tidemill_here", F.lit(1)).alias(HELD)
    by_key = (
        change.rows.alias(COMING)
        .join(ours, meeting.same_key, "left")
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
    if meeting.strategy.max_shrink is not None:
        refuse_shrink(meeting.strategy.max_shrink, gone + seen["extra"], target.rows.count(), target.name)
    counts = Counts(
        inserted=seen["new"],
        updated=seen["changed"],
        deleted=seen["extra"] + gone,
        unchanged=change.profile.rows - seen["new"] - seen["changed"],
    )
    known = frozenset({"inserted", "updated", "deleted", "unchanged", "ignored"})
    if full and target.near is not None and set(target.rows.columns) <= set(change.rows.columns):
        return Compiled(replace(meeting.full_merge(), collapses=True), counts, known, unique=True)
    kept = rest.where("false") if full else rest
    rows = kept.unionByName(_completed(meeting), allowMissingColumns=True)
    return Compiled(OverwriteRows(rows), counts, known, unique=full)


def _completed(meeting: Meeting) -> DataFrame:
    """The change's rows with what the table holds in columns that they lack; of several stored rows, one's."""
    columns, keys = meeting.change.rows.columns, meeting.strategy.keys
    lacking = [column for column in meeting.target.rows.columns if column not in columns]
    if not lacking:
        return meeting.change.rows
    stored = one_per_key(meeting.target.rows.select(*map(quote, [*keys, *lacking])), keys, ())
    both = meeting.change.rows.alias(COMING).join(stored.alias(HELD), meeting.same_key, "left")
    return both.select(*[F.col(of(COMING, name)) for name in columns], *[F.col(of(HELD, name)) for name in lacking])


def _first(rows: DataFrame) -> Row:
    found = rows.first()
    assert found is not None  # noqa: S101  a global aggregate has one row
    return found
