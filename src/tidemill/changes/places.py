"""Merges into stores that match a small change by themselves, or that know rows by their files and places."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce, singledispatch
from typing import TYPE_CHECKING

from pyspark.sql import Column, Window
from pyspark.sql import functions as F

from tidemill.changes.match import FEW_KEYS, FEW_ROWS, OLDER, SAME, Match
from tidemill.formats.base import (
    COMING,
    DROP,
    FATE,
    HELD,
    MOVE,
    PLACE,
    REPLACE,
    AppendRows,
    Compiled,
    MatchRows,
    Placed,
)
from tidemill.model import of, quote, spelled
from tidemill.model.record import Counts
from tidemill.model.strategy import Merge, MergeStrategy
from tidemill.spark.session import settle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidemill.formats.base import Change, MatchResult, Target
    from tidemill.formats.port import Store
    from tidemill.model.strategy import Strategy

PASSED_OVER = frozenset({"unchanged", "ignored"})
_RANK, _COPIES = "__tidemill_rank", "__tidemill_copies"


@dataclass(frozen=True, slots=True)
class Met:
    """The stored rows that a change meets, as they will be; how many have which fate, and how many keys they have."""

    rows: DataFrame
    same: int
    older: int
    changed: int
    keys: int

    @property
    def repeats(self) -> bool:
        """The target holds some key of the change more than once."""
        return self.same + self.older + self.changed > self.keys


@singledispatch
def small_match(strategy: Strategy, change: Change, target: Target) -> Match | None:
    """A change that a store may match by itself; None where the strategy or the change is not for that."""
    del strategy, change, target
    return None


@small_match.register(Merge)
def _(strategy: Merge, change: Change, target: Target) -> Match | None:
    matched = Match(strategy, change, target)
    whole = strategy.form is MergeStrategy.FULL_MERGE or matched.may_keep
    return None if whole or not 0 < change.profile.rows <= FEW_ROWS else matched


def match_in_store(store: Store, strategy: Strategy, change: Change, target: Target) -> Compiled | None:
    """A small change that the store matches and stages by itself, where it can; that removes no row."""
    matched = small_match(strategy, change, target)
    result = store.match(match_rows(matched), target.snapshot) if matched else None
    return compile_matched(matched, result) if matched and result else None


def match_rows(matched: Match) -> MatchRows:
    """What the store is asked for."""
    change, form = matched.change, matched.strategy.form
    return MatchRows(
        rows=change.rows,
        count=change.profile.rows,
        keys=matched.strategy.keys,
        compared=tuple(field.name for field in matched.compared),
        ranges=change.profile.ranges,
        updates=form is not MergeStrategy.INSERT,
        inserts=form is not MergeStrategy.UPDATE,
    )


def compile_matched(matched: Match, result: MatchResult) -> Compiled:
    """What a store has matched and staged, with its counts."""
    rows, form = matched.change.profile.rows, matched.strategy.form
    new, changed = rows - result.keys, result.rows - result.same
    match form:
        case MergeStrategy.INSERT:
            counts, changed, remainder = Counts(ignored=result.keys), 0, "ignored"
        case MergeStrategy.UPDATE:
            counts, remainder, new = Counts(unchanged=result.same, ignored=new), "unchanged", 0
        case _:
            counts, remainder = Counts(inserted=new, unchanged=result.same), "unchanged"
    if not new and not changed:
        return Compiled(None, counts, PASSED_OVER, remainder, unique=True)
    operation = matched.upsert(matched.change.rows)
    return Compiled(operation, counts, PASSED_OVER, remainder, unique=True, staged=result.staged)


def compile_placed(matched: Match) -> Compiled | None:
    """What a store has to do that knows the places of rows; None where one key has several, which do not collapse.

    `full_merge`, which also looks for what the change lacks, is not for here.
    """
    met = _met(matched)
    if met.repeats:
        collapses = matched.strategy.form is MergeStrategy.DEDUPLICATE and not matched.may_keep
        return _collapsed(matched, met) if collapses else None
    new = matched.change.profile.rows - met.keys
    match matched.strategy.form:
        case MergeStrategy.INSERT:
            counts = Counts(ignored=met.keys)
            return Compiled(_append(matched, met, new), counts, PASSED_OVER, "ignored", unique=True)
        case MergeStrategy.UPDATE:
            counts, arriving = Counts(unchanged=met.same, ignored=met.older + new), 0
        case _:
            counts, arriving = Counts(inserted=new, unchanged=met.same, ignored=met.older), new
    if not met.changed:
        return Compiled(_append(matched, met, arriving), counts, PASSED_OVER, unique=True)
    changed = met.rows.where(F.col(FATE).isin(REPLACE, MOVE))
    placed = Placed(changed, _new_rows(matched, met) if arriving else None)
    whole = changed.drop(*PLACE, FATE)
    rows = whole.unionByName(placed.new, allowMissingColumns=True) if placed.new is not None else whole
    return Compiled(matched.upsert(rows, inserts=bool(arriving), placed=placed), counts, PASSED_OVER, unique=True)


def _collapsed(matched: Match, met: Met) -> Compiled:
    """One stored row of each key becomes the change's, the one that is the same if there is one; the others go."""
    by_key = Window.partitionBy(*map(quote, matched.strategy.keys))
    rank = F.row_number().over(by_key.orderBy(F.col(FATE) != SAME, *PLACE))
    ranked = settle(met.rows.withColumns({_RANK: rank, _COPIES: F.count(F.lit(1)).over(by_key)}))
    first, same = F.col(_RANK) == 1, F.col(FATE) == SAME
    stays = ranked.where(first & (~same | (F.col(_COPIES) > 1))).drop(_RANK, _COPIES)
    goes = ranked.where(~first).withColumn(FATE, F.lit(DROP)).drop(_RANK, _COPIES)
    new = matched.change.profile.rows - met.keys
    placed = Placed(stays.where(~same).unionByName(goes), _new_rows(matched, met) if new else None)
    whole = stays.drop(*PLACE, FATE)
    rows = whole.unionByName(placed.new, allowMissingColumns=True) if placed.new is not None else whole
    counts = Counts(inserted=new, unchanged=ranked.where(first & same).count())
    return Compiled(matched.upsert(rows, inserts=bool(new), placed=placed), counts, PASSED_OVER)


def _append(matched: Match, met: Met, count: int) -> AppendRows | None:
    return AppendRows(_new_rows(matched, met)) if count else None


def _new_rows(matched: Match, met: Met) -> DataFrame:
    """The change's rows whose keys are not among those met."""
    known = met.rows.select(*map(quote, matched.strategy.keys))
    few = F.broadcast(known) if matched.change.profile.rows <= FEW_KEYS else known
    return matched.change.rows.alias(COMING).join(few.alias(HELD), matched.same_key, "left_anti")


def _met(matched: Match) -> Met:
    assert matched.target.near is not None  # noqa: S101  asked only where the store tells places
    held = matched.target.near(matched.change.profile.ranges).alias(HELD).where(" AND ".join(matched.reach) or "true")
    changed = F.when(_moves(matched), F.lit(MOVE)).otherwise(F.lit(REPLACE))
    fate = F.when(~matched.newer, OLDER).when(matched.differs, changed).otherwise(SAME)
    place = [F.col(of(HELD, name)).alias(name) for name in PLACE]
    met = held.join(matched.coming, matched.same_key).select(*place, fate.alias(FATE), *_whole_rows(matched))
    rows = settle(met)
    found = rows.agg(
        F.count_if(F.col(FATE) == SAME).alias("same"),
        F.count_if(F.col(FATE) == OLDER).alias("older"),
        F.count_if(F.col(FATE).isin(REPLACE, MOVE)).alias("changed"),
        F.count_distinct(*[F.col(quote(key)) for key in matched.strategy.keys]).alias("keys"),
    ).first()
    assert found is not None  # noqa: S101  a global aggregate has one row
    return Met(rows, found["same"], found["older"], found["changed"], found["keys"])


def _whole_rows(matched: Match) -> list[Column]:
    """The rows after the merge; what the change does not have of them stays as it is."""
    held, theirs = matched.target.rows.columns, matched.change.rows.columns
    names = [*held, *(name for name in theirs if name not in held)]
    return [F.col(of(COMING if name in theirs else HELD, name)).alias(name) for name in names]


def _moves(matched: Match) -> Column:
    """The row comes to lie in another partition."""
    theirs = matched.change.rows.columns
    pairs = [(name, column) for name in matched.target.snapshot.partition_columns if (column := spelled(name, theirs))]
    differ = [~F.col(of(HELD, name)).eqNullSafe(F.col(of(COMING, column))) for name, column in pairs]
    return reduce(lambda a, b: a | b, differ, F.lit(False))  # noqa: FBT003
