"""A change meets rows whose places are known: one pass over the files in reach tells what becomes of each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from tidemill.change.meeting import FEW_KEYS, FEW_ROWS, OLDER, SAME
from tidemill.change.settled import settle
from tidemill.contracts.changes import Bringing
from tidemill.contracts.operations import COMING, FATE, HELD, MOVE, PLACE, REPLACE, AppendRows, Compiled, Placed
from tidemill.contracts.records import Counts
from tidemill.declare.names import of, quote, spelled
from tidemill.declare.strategies import MergeStrategy

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from tidemill.change.meeting import Meeting

PASSED_OVER = frozenset({"unchanged", "ignored"})


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


def compile_brought(meeting: Meeting) -> Compiled | None:
    """What a store has staged that takes a small change to its files by itself; None where it does not."""
    change, form = meeting.change, meeting.strategy.form
    if meeting.target.bring is None or meeting.may_keep or change.profile.rows > FEW_ROWS:
        return None
    brought = meeting.target.bring(
        Bringing(
            rows=change.rows,
            count=change.profile.rows,
            keys=meeting.strategy.keys,
            compared=tuple(field.name for field in meeting.compared),
            ranges=change.profile.ranges,
            updates=form is not MergeStrategy.INSERT,
            inserts=form is not MergeStrategy.UPDATE,
        )
    )
    if brought is None:
        return None
    new, changed = change.profile.rows - brought.keys, brought.rows - brought.same
    match form:
        case MergeStrategy.INSERT:
            counts, changed, remainder = Counts(ignored=brought.keys), 0, "ignored"
        case MergeStrategy.UPDATE:
            counts, remainder, new = Counts(unchanged=brought.same, ignored=new), "unchanged", 0
        case _:
            counts, remainder = Counts(inserted=new, unchanged=brought.same), "unchanged"
    operation = replace(meeting.upsert(change.rows), staged=brought.staged) if new or changed else None
    return Compiled(operation, counts, PASSED_OVER, remainder, unique=True)


def compile_placed(meeting: Meeting) -> Compiled | None:
    """What a store has to do that knows the places of rows; None where one key has several.

    `full_merge`, which also looks for what the change lacks, is not for here.
    """
    met = _met(meeting)
    if met.repeats:
        return None
    new = meeting.change.profile.rows - met.keys
    match meeting.strategy.form:
        case MergeStrategy.INSERT:
            counts = Counts(ignored=met.keys)
            return Compiled(_append(meeting, met, new), counts, PASSED_OVER, "ignored", unique=True)
        case MergeStrategy.UPDATE:
            counts, arriving = Counts(unchanged=met.same, ignored=met.older + new), 0
        case _:
            counts, arriving = Counts(inserted=new, unchanged=met.same, ignored=met.older), new
    if not met.changed:
        return Compiled(_append(meeting, met, arriving), counts, PASSED_OVER, unique=True)
    changed = met.rows.where(F.col(FATE).isin(REPLACE, MOVE))
    placed = Placed(changed, _new_rows(meeting, met) if arriving else None)
    whole = changed.drop(*PLACE, FATE)
    rows = whole.unionByName(placed.new, allowMissingColumns=True) if placed.new is not None else whole
    return Compiled(meeting.upsert(rows, inserts=bool(arriving), placed=placed), counts, PASSED_OVER, unique=True)


def _append(meeting: Meeting, met: Met, count: int) -> AppendRows | None:
    return AppendRows(_new_rows(meeting, met)) if count else None


def _new_rows(meeting: Meeting, met: Met) -> DataFrame:
    """The change's rows whose keys are not among those met."""
    known = met.rows.select(*map(quote, meeting.strategy.keys))
    few = F.broadcast(known) if meeting.change.profile.rows <= FEW_KEYS else known
    return meeting.change.rows.alias(COMING).join(few.alias(HELD), meeting.same_key, "left_anti")


def _met(meeting: Meeting) -> Met:
    assert meeting.target.near is not None  # noqa: S101  asked only where the store tells places
    held = meeting.target.near(meeting.change.profile.ranges).alias(HELD).where(" AND ".join(meeting.reach) or "true")
    changed = F.when(_moves(meeting), F.lit(MOVE)).otherwise(F.lit(REPLACE))
    fate = F.when(~meeting.newer, OLDER).when(meeting.differs, changed).otherwise(SAME)
    place = [F.col(of(HELD, name)).alias(name) for name in PLACE]
    met = held.join(meeting.coming, meeting.same_key).select(*place, fate.alias(FATE), *_whole_rows(meeting))
    rows = settle(met)
    found = rows.agg(
        F.count_if(F.col(FATE) == SAME).alias("same"),
        F.count_if(F.col(FATE) == OLDER).alias("older"),
        F.count_if(F.col(FATE).isin(REPLACE, MOVE)).alias("changed"),
        F.count_distinct(*[F.col(quote(key)) for key in meeting.strategy.keys]).alias("keys"),
    ).first()
    assert found is not None  # noqa: S101  a global aggregate has one row
    return Met(rows, found["same"], found["older"], found["changed"], found["keys"])


def _whole_rows(meeting: Meeting) -> list[Column]:
    """The rows after the merge; what the change does not have of them stays as it is."""
    held, theirs = meeting.target.rows.columns, meeting.change.rows.columns
    names = [*held, *(name for name in theirs if name not in held)]
    return [F.col(of(COMING if name in theirs else HELD, name)).alias(name) for name in names]


def _moves(meeting: Meeting) -> Column:
    """The row comes to lie in another partition."""
    theirs = meeting.change.rows.columns
    pairs = [(name, column) for name in meeting.target.snapshot.partition_columns if (column := spelled(name, theirs))]
    differ = [~F.col(of(HELD, name)).eqNullSafe(F.col(of(COMING, column))) for name, column in pairs]
    return reduce(lambda a, b: a | b, differ, F.lit(False))  # noqa: FBT003
