"""Merges: which known keys differ, which keys are new, and the cheapest safe way to write just those."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemill.change.compare import differs
from tidemill.change.keys import held_twice, one_per_key, target_duplicates
from tidemill.change.names import of, quote, spelled
from tidemill.change.operation import compile_change, has_rows, refuse_shrink, unchanged
from tidemill.change.settled import settle
from tidemill.contracts import AppendRows, Compiled, Counts, OverwriteRows, UpsertRows
from tidemill.declare.strategies import Merge, MergeStrategy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

    from tidemill.contracts import Change, KeyRange, Reach, Target

FEW_ROWS = 200_000
FEW_BYTES = 32 * 1024 * 1024
_COLLAPSING = {MergeStrategy.DEDUPLICATE, MergeStrategy.FULL_MERGE}
_EMPTIED = ("the source is empty, and so is the table now",)


@compile_change.register(Merge)
def _(strategy: Merge, change: Change, target: Target) -> Compiled:
    if change.profile.rows == 0 and strategy.form is not MergeStrategy.FULL_MERGE:
        return unchanged(change)
    meeting = Meeting(strategy, change, target)
    if meeting.collapses():
        return _collapsed(meeting)
    match strategy.form:
        case MergeStrategy.INSERT:
            return _insert(meeting)
        case MergeStrategy.FULL_MERGE:
            return _full_merge(meeting)
        case MergeStrategy.UPDATE:
            return _counted(meeting, inserts=False)
        case _ if strategy.only_newer:
            return _counted(meeting, inserts=True)
        case _:
            return _upsert(meeting)


@dataclass(frozen=True, slots=True)
class Meeting:
    """A change `s` and the rows `t` of the target that it can meet."""

    strategy: Merge
    change: Change
    target: Target

    @property
    def source(self) -> DataFrame:
        return self._small(self.change.rows).alias("s")

    @property
    def source_keys(self) -> DataFrame:
        return self._small(self.change.rows.select(*map(quote, self.strategy.keys))).alias("s")

    @property
    def held(self) -> DataFrame:
        """The target's rows that may hold a key of the change; files that cannot are not read."""
        rows = self.target.rows.alias("t")
        return rows.where(self.reach) if self.change.profile.ranges else rows

    @property
    def reach(self) -> Column:
        """What the profile knows of the keys, as a filter on the target."""
        return reduce(lambda a, b: a & b, [_within(span) for span in self.change.profile.ranges], F.lit(True))  # noqa: FBT003

    @property
    def same_key(self) -> Column:
        pairs = [F.col(of("t", key)) == F.col(of("s", key)) for key in self.strategy.keys]
        return reduce(lambda a, b: a & b, pairs)

    @property
    def differs(self) -> Column:
        """Some column that is compared is not the same; a column new to the table counts when it has a value."""
        known, keys = self.target.rows.columns, self.strategy.keys
        compared = [f for f in self.change.rows.schema.fields if f.name.lower() not in self.change.volatile]
        values = [f for f in compared if not spelled(f.name, keys)]
        filled = [F.col(of("s", f.name)).isNotNull() for f in values if f.name not in known]
        return reduce(lambda a, b: a | b, filled, differs([f for f in values if f.name in known], "t", "s"))

    @property
    def newer(self) -> Column:
        """The row of the change may replace the stored one."""
        if self.strategy.only_newer is None:
            return F.lit(True)  # noqa: FBT003
        ours, theirs = F.col(of("t", self.strategy.only_newer)), F.col(of("s", self.strategy.only_newer))
        return ours.isNull() | F.coalesce(theirs >= ours, F.lit(False))  # noqa: FBT003

    def pairs(self) -> DataFrame:
        return self.held.join(self.source, self.same_key)

    def new_rows(self) -> DataFrame:
        """The change's rows whose key the target does not hold; lazy, so that a foreign append conflicts."""
        keys = [F.col(of("t", key)).alias(key) for key in self.strategy.keys]
        known = self.held.join(self.source_keys, self.same_key, "left_semi").select(*keys)
        return self.change.rows.alias("s").join(self._small(known).alias("t"), self.same_key, "left_anti")

    def in_reach(self) -> Reach | None:
        """How much of the target can hold a key of the change; None where nothing is known of the keys."""
        return self.target.reach(self.change.profile.ranges) if self.change.profile.ranges else None

    def collapses(self) -> bool:
        """Whether the target holds a key of the change more than once, and the strategy leaves one row of it."""
        if self.target.snapshot.unique_on(self.strategy.keys):
            return False
        keys = [F.col(of("t", key)).alias(key) for key in self.strategy.keys]
        twice = held_twice(
            self.held.join(self.source_keys, self.same_key, "left_semi").select(*keys), self.strategy.keys
        )
        count = twice.count()
        if count and self.strategy.form not in _COLLAPSING:
            raise target_duplicates(twice, count, self.strategy.keys, self.target.name)
        return bool(count)

    def upsert(self, *, inserts: bool = True, delete_missing: bool = False, sift: bool = False) -> UpsertRows:
        return UpsertRows(
            rows=self._siftable() if sift else self.source,
            match=self.same_key if delete_missing else self.same_key & self.reach,
            changed=self.differs & self.newer,
            columns=tuple(self.change.rows.columns),
            inserts=inserts,
            delete_missing=delete_missing,
            sift=sift,
        )

    def _siftable(self) -> DataFrame:
        """The change as Spark must see it to sift by its keys: known to be small, and filtered (all of it passes)."""
        first = self.change.profile.ranges[0]
        small = settle(self.change.rows.limit(self.change.profile.rows))
        return small.where(F.col(quote(first.column)) >= F.expr(first.low.literal())).alias("s")

    @property
    def few(self) -> bool:
        return self.change.profile.rows <= FEW_ROWS

    def _small(self, rows: DataFrame) -> DataFrame:
        return F.broadcast(rows) if self.few else rows


def _within(span: KeyRange) -> Column:
    column = F.col(of("t", span.column))
    if span.values:
        return column.isin(*[F.expr(value.literal()) for value in span.values])
    return column.between(F.expr(span.low.literal()), F.expr(span.high.literal()))


def _upsert(meeting: Meeting) -> Compiled:
    """Looks before it writes: a MERGE that changes nothing would still commit, and new keys alone need no MERGE.

    The first row that differs is enough to know that a MERGE is due, and where many differ it comes soon.
    """
    reach = meeting.in_reach()
    if reach and not reach.files:
        return Compiled(AppendRows(meeting.new_rows()), unique=True)
    if has_rows(meeting.pairs().where(meeting.differs)):
        sift = meeting.few and reach is not None and reach.size > FEW_BYTES
        return Compiled(meeting.upsert(sift=sift), unique=True)
    return _append_new(meeting)


def _insert(meeting: Meeting) -> Compiled:
    return _append_new(meeting, remainder="ignored")


def _append_new(meeting: Meeting, remainder: str = "unchanged") -> Compiled:
    new = meeting.new_rows()
    if has_rows(new):
        return Compiled(AppendRows(new), remainder=remainder, unique=True)
    return Compiled(None, Counts(**{remainder: meeting.change.profile.rows}))


def _counted(meeting: Meeting, *, inserts: bool) -> Compiled:
    """One pass counts what changes, what is new and what is passed over, so that every count is exact."""
    seen = _first(
        meeting.pairs().agg(
            F.count(F.lit(1)).alias("matched"),
            F.count_if(meeting.differs & meeting.newer).alias("changed"),
            F.count_if(~meeting.newer).alias("older"),
        )
    )
    new = meeting.change.profile.rows - seen["matched"]
    ignored = seen["older"] + (0 if inserts else new)
    if not seen["changed"] and not (inserts and new):
        return Compiled(None, Counts(unchanged=meeting.change.profile.rows - ignored, ignored=ignored))
    operation = meeting.upsert(inserts=inserts) if seen["changed"] else AppendRows(meeting.new_rows())
    return Compiled(operation, Counts(ignored=ignored), frozenset({"ignored"}), unique=True)


def _full_merge(meeting: Meeting) -> Compiled:
    """One outer join tells what is new, changed and missing."""
    target, change = meeting.target, meeting.change
    mark = "__tidemill_here"
    ours = target.rows.withColumn(mark, F.lit(1)).alias("t")
    theirs = change.rows.withColumn(mark, F.lit(1)).alias("s")
    here, there = F.col(f"t.{mark}").isNotNull(), F.col(f"s.{mark}").isNotNull()
    seen = _first(
        ours.join(theirs, meeting.same_key, "full_outer").agg(
            F.count_if(here).alias("held"),
            F.count_if(here & ~there).alias("missing"),
            F.count_if(there & ~here).alias("new"),
            F.count_if(here & there & meeting.differs & meeting.newer).alias("changed"),
            F.count_if(here & there & ~meeting.newer).alias("older"),
        )
    )
    if meeting.strategy.max_shrink is not None:
        refuse_shrink(meeting.strategy.max_shrink, seen["missing"], seen["held"], target.name)
    if not seen["missing"] and not seen["new"] and not seen["changed"]:
        return Compiled(None, Counts(unchanged=change.profile.rows - seen["older"], ignored=seen["older"]))
    return Compiled(
        meeting.upsert(delete_missing=True),
        Counts(ignored=seen["older"]),
        frozenset({"ignored"}),
        unique=True,
        notices=_EMPTIED if change.profile.rows == 0 else (),
    )


def _collapsed(meeting: Meeting) -> Compiled:
    """The target holds keys of the change more than once: one rewrite leaves the change's row of each."""
    target, change, keys = meeting.target, meeting.change, meeting.strategy.keys
    full = meeting.strategy.form is MergeStrategy.FULL_MERGE
    rest = target.rows.alias("t").join(meeting.source_keys, meeting.same_key, "left_anti")
    same = ~meeting.differs
    ours = target.rows.withColumn("__tidemill_here", F.lit(1)).alias("t")
    by_key = (
        change.rows.alias("s")
        .join(ours, meeting.same_key, "left")
        .groupBy(*[F.col(of("s", key)) for key in keys])
        .agg(
            F.count("t.__tidemill_here").alias("held"),
            F.max(same & F.col("t.__tidemill_here").isNotNull()).alias("same"),
        )
    )
    seen = _first(
        by_key.agg(
            F.count_if(F.col("held") == 0).alias("new"),
            F.count_if((F.col("held") > 0) & ~F.col("same")).alias("changed"),
            F.sum(F.greatest(F.col("held") - 1, F.lit(0))).alias("extra"),
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
    kept = rest.where("false") if full else rest
    rows = kept.unionByName(_completed(meeting), allowMissingColumns=True)
    known = frozenset({"inserted", "updated", "deleted", "unchanged", "ignored"})
    return Compiled(OverwriteRows(rows), counts, known, unique=full)


def _completed(meeting: Meeting) -> DataFrame:
    """The change's rows with what the table holds in columns that they lack; of several stored rows, one's."""
    columns, keys = meeting.change.rows.columns, meeting.strategy.keys
    lacking = [column for column in meeting.target.rows.columns if column not in columns]
    if not lacking:
        return meeting.change.rows
    stored = one_per_key(meeting.target.rows.select(*map(quote, [*keys, *lacking])), keys, ())
    both = meeting.change.rows.alias("s").join(stored.alias("t"), meeting.same_key, "left")
    return both.select(*[F.col(of("s", name)) for name in columns], *[F.col(of("t", name)) for name in lacking])


def _first(rows: DataFrame) -> Row:
    found = rows.first()
    assert found is not None  # noqa: S101  a global aggregate has one row
    return found
