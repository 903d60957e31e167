"""Matches a change with the rows of its target: who has the same key, what differs, what is new, and where."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as t

from tidemill.changes import char_length
from tidemill.changes.compare import differs, held_twice
from tidemill.changes.profile import profile
from tidemill.formats.base import (
    COMING,
    FATE,
    HELD,
    PLACE,
    Placed,
    UpsertRows,
)
from tidemill.model import of, quote, quoted_text, spelled
from tidemill.spark.errors import MOVED
from tidemill.spark.session import settle

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from tidemill.formats.base import Change, KeyRange, Target
    from tidemill.model.cursor import Cursor
    from tidemill.model.strategy import Merge

FEW_ROWS = 200_000  # as many are sent to every worker
FEW_KEYS = 2_000_000  # as many keys are
FEW_BYTES = 100 * 1024 * 1024  # of rows that are sent to every worker, where it is known how long they are
NEW, CHANGED, SAME, OLDER = "new", "changed", "same", "older"
_FILE = "__tidemill_file_hash"
_WORD = 8  # bytes that a value takes in a row of Spark's, beside those of a text
_NESTED = (t.ArrayType, t.MapType, t.StructType, t.VariantType)


@dataclass(frozen=True, slots=True)
class Match:
    """A change and the rows of the target that it can meet."""

    strategy: Merge
    change: Change
    target: Target

    @property
    def coming(self) -> DataFrame:
        rows = self.change.rows
        return (F.broadcast(rows) if self._sends_rows else rows).alias(COMING)

    @property
    def _sends_rows(self) -> bool:
        """Whether the change's rows are few, or short, so that they can go to where the target's are read."""
        rows, octets = self.change.profile.rows, self.change.profile.octets
        fields = self.change.rows.schema.fields
        if rows <= FEW_ROWS or octets is None or any(isinstance(field.dataType, _NESTED) for field in fields):
            return rows <= FEW_ROWS
        return octets + rows * _WORD * (len(fields) + 1) <= FEW_BYTES

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
        return F.expr(self._differing)

    @property
    def _differing(self) -> str:
        """Some column that is compared is not the same; a column new to the table counts when it has a value."""
        known = self.target.rows.columns
        filled = [f"{of(COMING, f.name)} IS NOT NULL" for f in self.compared if f.name not in known]
        chars = [f.name for f in self.compared if f.name in self._chars]
        padded = [f"NOT ({self._as_read(name)} <=> {of(COMING, name)})" for name in chars]
        others = [f for f in self.compared if f.name in known and f.name not in chars]
        return " OR ".join([*filled, *padded, differs(others, HELD, COMING)])

    @property
    def compared(self) -> list[t.StructField]:
        """The columns in which rows of one key may differ."""
        fields = [f for f in self.change.rows.schema.fields if f.name.lower() not in self.change.volatile]
        return [f for f in fields if not spelled(f.name, self.strategy.keys)]

    @property
    def newer(self) -> Column:
        return F.expr(self._replacing)

    @property
    def _replacing(self) -> str:
        """The row of the change may replace the stored one."""
        within = f"NOT coalesce({self.target.beyond or 'false'}, false)"
        if self.strategy.only_newer is None:
            return within
        stored, given = of(HELD, self.strategy.only_newer), of(COMING, self.strategy.only_newer)
        return f"{within} AND ({stored} IS NULL OR coalesce({given} >= {stored}, false))"

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
        """What becomes of every row of the change, in one pass over what the target has in reach."""
        if not self.change.kept:  # what is written has to be what was judged
            change = replace(self.change, rows=settle(self.change.rows), kept=True)
            return replace(self, change=change).judged()
        fate = F.when(~self.newer, OLDER).when(self.differs, CHANGED).otherwise(SAME)
        keys = [F.col(of(COMING, key)).alias(key) for key in self.strategy.keys]
        fates = settle(self._matched_rows.select(*keys, fate.alias(FATE), F.col(of(HELD, _FILE)).alias(_FILE)))
        counts: Counter[str] = Counter()
        files = 0
        for seen in fates.groupBy(FATE, _FILE).count().collect():
            counts[seen[FATE]] += seen["count"]
            files += seen[FATE] == CHANGED and seen[_FILE] is not None
        stored, met = counts.total(), profile(fates, keys=self.strategy.keys).keys if counts else 0
        counts[NEW] = self.change.profile.rows - met
        return Judged(self, fates.drop(_FILE), counts, repeats=stored > met, changed_files=files)

    @property
    def _matched_rows(self) -> DataFrame:
        """The target's rows beside those of the change, with the file of each where its files would be rewritten."""
        held = self.held
        is_large = self.change.profile.rows > FEW_ROWS
        rewrites = is_large and self.target.snapshot.files and not self.target.snapshot.marks_rows
        file = F.xxhash64(held.metadataColumn("_metadata")["file_path"]) if rewrites else F.lit(None).cast("bigint")
        held = held.withColumn(_FILE, file).alias(HELD)
        if not self._sends_rows and self.change.profile.rows <= FEW_KEYS:  # what is shuffled is less by then
            held = held.join(self.coming_keys, self.same_key, "left_semi").alias(HELD)
        return held.join(self.coming, self.same_key)

    def having(self, fates: DataFrame, *, met: bool) -> DataFrame:
        """The change's rows whose keys are among these, or are not."""
        few = self._small(fates.select(*map(quote, self.strategy.keys)), FEW_KEYS).alias(HELD)
        same = F.expr(" AND ".join(f"{of(HELD, key)} = {of(COMING, key)}" for key in self.strategy.keys))
        return self.change.rows.alias(COMING).join(few, same, "left_semi" if met else "left_anti")

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

    def upsert(
        self, rows: DataFrame, *, inserts: bool = True, placed: Placed | None = None, changed_files: int = 0
    ) -> UpsertRows:
        """The picked rows replace those of their keys. Columns that they lack keep what the table holds in them."""
        lacking = set(self.target.rows.columns) - set(rows.columns)
        return UpsertRows(
            rows=self._small(rows, FEW_KEYS).alias(COMING),
            match=" AND ".join([*self._key_pairs, *self.reach]),
            changed="true",
            columns=tuple(rows.columns),
            picked=not lacking,
            inserts=inserts,
            spreads=0 < changed_files == self.target.snapshot.files,
            keys=self.strategy.keys,
            ranges=self.change.profile.ranges,
            placed=placed,
        )

    def full_merge(self) -> UpsertRows:
        return UpsertRows(
            rows=self.coming,
            match=" AND ".join(self._key_pairs),
            changed=f"({self._differing}) AND {self._replacing}",
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
        return as_read(name, self._chars.get(name, 0))

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


@dataclass(frozen=True, slots=True)
class Judged:
    """How many rows of a change have which fate, and the fates of those whose keys the target holds.

    It `repeats` where the target holds some key of the change more than once: that key has several fates.
    `changed_files` is how many files of the target hold a row that changes, where that was counted.
    """

    match: Match
    fates: DataFrame
    counts: Mapping[str, int]
    repeats: bool
    changed_files: int = 0

    def __getitem__(self, fate: str) -> int:
        return self.counts.get(fate, 0)

    def having(self, *fates: str) -> DataFrame:
        """The rows of the change that have one of these fates."""
        if sum(self[fate] for fate in fates) == self.match.change.profile.rows:
            return self.match.change.rows
        among = F.col(FATE).isin(*fates)
        if NEW in fates:  # such rows met none
            return self.match.having(self.fates.where(~among), met=False)
        return self.match.having(self.fates.where(among), met=True)


def as_read(name: str, char_length: int) -> str:
    """A stored column, a CHAR of this length or none, as whoever reads the table has it."""
    return f"rpad({of(HELD, name)}, {char_length}, ' ')" if char_length else of(HELD, name)


def _within(ranges: Iterable[KeyRange]) -> list[str]:
    return [within(of(HELD, span.column), span) for span in ranges]


def within(column: str, span: KeyRange) -> str:
    """A filter that keeps every row whose column may have a value of the range; the column comes quoted."""
    if span.values:
        return f"{column} IN ({', '.join(map(_literal, span.values))})"
    parts = span.parts or ((span.low, span.high),)
    between = " OR ".join(f"{column} BETWEEN {_literal(low)} AND {_literal(high)}" for low, high in parts)
    return f"({between})" if len(parts) > 1 else between


def _literal(value: Cursor) -> str:
    """As SQL that every session reads alike: some take a backslash in a text for what it is."""
    plain = value.literal()
    return f"CAST(X'{value.text().encode().hex()}' AS STRING)" if "\\" in plain else plain
