"""A change meets the rows of its target: who has the same key, what differs, what is new."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemill.change.columns import char_length
from tidemill.change.compare import differs
from tidemill.change.keys import held_twice
from tidemill.change.settled import settle
from tidemill.contracts.operations import COMING, FATE, HELD, PLACE, UpsertRows
from tidemill.declare.names import of, quote, quoted_text, spelled
from tidemill.engine.translate import MOVED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql import types as t

    from tidemill.contracts.changes import Change, KeyRange, Target
    from tidemill.contracts.operations import Placed
    from tidemill.declare.cursors import Cursor
    from tidemill.declare.strategies import Merge

FEW_ROWS = 200_000  # as many are sent to every worker
FEW_KEYS = 2_000_000  # as many keys are
NEW, CHANGED, SAME, OLDER = "new", "changed", "same", "older"


@dataclass(frozen=True, slots=True)
class Judged:
    """The rows of a change, each with its fate, and how many have which."""

    rows: DataFrame
    counts: dict[str, int]
    coming: int

    @property
    def repeats(self) -> bool:
        """The target holds some key of the change more than once: its row has met several, and stands here for each."""
        return sum(self.counts.values()) > self.coming

    def __getitem__(self, fate: str) -> int:
        return self.counts.get(fate, 0)

    def having(self, fates: Iterable[str]) -> DataFrame:
        return self.rows.where(F.col(FATE).isin(*fates)).drop(FATE)


@dataclass(frozen=True, slots=True)
class Meeting:
    """A change and the rows of the target that it can meet."""

    strategy: Merge
    change: Change
    target: Target

    @property
    def coming(self) -> DataFrame:
        return self._small(self.change.rows, FEW_ROWS).alias(COMING)

    @property
    def coming_keys(self) -> DataFrame:
        return self._small(self.change.rows.select(*map(quote, self.strategy.keys)), FEW_KEYS).alias(COMING)

    @property
    def held(self) -> DataFrame:
        """The target's rows that may hold a key of the change; files that cannot are not read."""
        return self._near(self.change.profile.ranges).where(" AND ".join(self.reach) or "true")

    @property
    def met(self) -> DataFrame:
        """The target's rows whose key the change has."""
        return self.held.join(self.coming_keys, self.same_key, "left_semi")

    @property
    def same_key(self) -> Column:
        return F.expr(" AND ".join(self._key_pairs))

    @property
    def differs(self) -> Column:
        """Some column that is compared is not the same; a column new to the table counts when it has a value."""
        known = self.target.rows.columns
        filled = [F.col(of(COMING, f.name)).isNotNull() for f in self.compared if f.name not in known]
        chars = [f.name for f in self.compared if f.name in self._chars]
        padded = [~F.expr(self._as_read(name)).eqNullSafe(F.col(of(COMING, name))) for name in chars]
        others = [f for f in self.compared if f.name in known and f.name not in chars]
        return reduce(lambda a, b: a | b, [*filled, *padded], differs(others, HELD, COMING))

    @property
    def compared(self) -> list[t.StructField]:
        """The columns in which rows of one key may differ."""
        fields = [f for f in self.change.rows.schema.fields if f.name.lower() not in self.change.volatile]
        return [f for f in fields if not spelled(f.name, self.strategy.keys)]

    @property
    def newer(self) -> Column:
        """The row of the change may replace the stored one."""
        within = ~F.coalesce(F.expr(self.target.beyond or "false"), F.lit(False))  # noqa: FBT003
        if self.strategy.only_newer is None:
            return within
        stored, given = F.col(of(HELD, self.strategy.only_newer)), F.col(of(COMING, self.strategy.only_newer))
        return within & (stored.isNull() | F.coalesce(given >= stored, F.lit(False)))  # noqa: FBT003

    @property
    def may_keep(self) -> bool:
        """A stored row may stay, though the change has its key."""
        return self.strategy.only_newer is not None or self.target.beyond is not None

    @property
    def out_of_reach(self) -> Sequence[KeyRange]:
        """Ranges of the change in which no file of the target has a row, one where one will do; none where one has."""
        ranges = self.change.profile.ranges
        if not ranges or self.target.reach(ranges).files:
            return ()
        return next(([span] for span in ranges if not self.target.reach([span]).files), ranges)

    def judged(self) -> Judged:
        """Every row of the change with its fate, in one pass over what the target has in reach."""
        fate = F.when(~self.newer, OLDER).when(self.differs, CHANGED).otherwise(SAME)
        coming = self.change.rows.alias(COMING)
        if self.change.profile.rows <= FEW_ROWS:  # the change goes to the target's rows, and what they say comes back
            met = self.held.join(self.coming, self.same_key).select(*self._held_keys, fate.alias(FATE))
            joined, found = coming.join(F.broadcast(met.alias(HELD)), self.same_key, "left"), F.col(of(HELD, FATE))
        else:
            joined = coming.join(self.met.alias(HELD), self.same_key, "left")
            found = F.when(F.col(of(HELD, self.strategy.keys[0])).isNotNull(), fate)
        columns = [F.col(of(COMING, name)) for name in self.change.rows.columns]
        rows = settle(joined.select(*columns, F.coalesce(found, F.lit(NEW)).alias(FATE)))
        counts = {row[FATE]: row["count"] for row in rows.groupBy(FATE).count().collect()}
        return Judged(rows, counts, self.change.profile.rows)

    def rows_out_of_reach(self, ranges: Sequence[KeyRange]) -> DataFrame:
        """The change's rows, where no file has a row in these ranges; one that comes before the write is a conflict.

        That needs no join: the target's part of the union has no files to read, unless the table has moved.
        """
        near = " AND ".join(_within(ranges))
        nobody = f"assert_true(NOT ({near}), {quoted_text(MOVED)}) IS NOT NULL"
        shared = [name for name in self.change.rows.columns if name in self.target.rows.columns]
        held = self._near(ranges).where(near).where(nobody).select(*map(quote, shared))
        return self.change.rows.unionByName(held, allowMissingColumns=True)

    def new_rows(self) -> DataFrame:
        """The change's rows whose key the target does not hold; lazy, so that a foreign append conflicts."""
        known = self._small(self.met.select(*self._held_keys), FEW_KEYS)
        return self.change.rows.alias(COMING).join(known.alias(HELD), self.same_key, "left_anti")

    def held_twice(self) -> DataFrame:
        """The keys of the change that the target holds more than once."""
        return held_twice(self.met.select(*self._held_keys), self.strategy.keys)

    def upsert(self, rows: DataFrame, *, inserts: bool = True, placed: Placed | None = None) -> UpsertRows:
        """The picked rows replace those of their keys. Columns that they lack keep what the table holds in them."""
        lacking = set(self.target.rows.columns) - set(rows.columns)
        return UpsertRows(
            rows=self._small(rows, FEW_KEYS).alias(COMING),
            match=" AND ".join([*self._key_pairs, *self.reach]),
            changed=F.lit(True),  # noqa: FBT003
            columns=tuple(rows.columns),
            picked=not lacking,
            inserts=inserts,
            keys=self.strategy.keys,
            ranges=self.change.profile.ranges,
            placed=placed,
        )

    def full_merge(self) -> UpsertRows:
        return UpsertRows(
            rows=self.coming,
            match=" AND ".join(self._key_pairs),
            changed=self.differs & self.newer,
            columns=tuple(self.change.rows.columns),
            delete_missing=True,
            keys=self.strategy.keys,
        )

    @property
    def _key_pairs(self) -> list[str]:
        return [f"{self._as_read(key)} = {of(COMING, key)}" for key in self.strategy.keys]

    @property
    def _chars(self) -> dict[str, int]:
        """The table's columns of type CHAR, and their lengths."""
        lengths = {field.name: char_length(field) for field in self.target.rows.schema.fields}
        return {name: length for name, length in lengths.items() if length}

    def _as_read(self, name: str) -> str:
        """A stored column as whoever reads the table has it: to a MERGE a CHAR is as its file has it."""
        length = self._chars.get(name)
        return f"rpad({of(HELD, name)}, {length}, ' ')" if length else of(HELD, name)

    @property
    def _held_keys(self) -> list[Column]:
        return [F.col(of(HELD, key)).alias(key) for key in self.strategy.keys]

    @property
    def reach(self) -> list[str]:
        """What the profile knows of the keys, as filters on the target."""
        return _within(span for span in self.change.profile.ranges if span.column not in self._chars)

    def _near(self, ranges: Sequence[KeyRange]) -> DataFrame:
        rows = self.target.near(ranges).drop(*PLACE) if self.target.near else self.target.rows
        return rows.alias(HELD)

    def _small(self, rows: DataFrame, most: int) -> DataFrame:
        """Rows that are no more than the change's, sent to where the target's are read if they are few."""
        return F.broadcast(rows) if self.change.profile.rows <= most else rows


def _within(ranges: Iterable[KeyRange]) -> list[str]:
    return [within(of(HELD, span.column), span) for span in ranges]


def within(column: str, span: KeyRange) -> str:
    """A filter that keeps every row whose column may have a value of the range; the column comes quoted."""
    if span.values:
        return f"{column} IN ({', '.join(map(_literal, span.values))})"
    return f"{column} BETWEEN {_literal(span.low)} AND {_literal(span.high)}"


def _literal(value: Cursor) -> str:
    """As SQL that every session reads alike: some take a backslash in a text for what it is."""
    plain = value.literal()
    return f"CAST(X'{value.text().encode().hex()}' AS STRING)" if "\\" in plain else plain
