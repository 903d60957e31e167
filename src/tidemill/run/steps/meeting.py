"""LOADs whose sources meet in a key, where no cursor tells which row counts: what one does to the rows of another.

Stored rows do not say where they came from. So the keys in doubt, and only these, are looked up in the sources.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from tidemill.change.columns import align, require
from tidemill.change.combined import apart, from_two_sources, met_in, not_as_stored
from tidemill.change.keys import held_twice
from tidemill.change.operation import has_rows
from tidemill.change.settled import settle
from tidemill.declare.loads import common_cursor
from tidemill.declare.names import quote
from tidemill.declare.strategies import Append, Merge
from tidemill.declare.tables import SchemaPolicy
from tidemill.run.producers.loads import Read, is_before, profiled, whole_read

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

    from tidemill.run.producers.several import LoadPart, LoadsSource
    from tidemill.run.steps.prepare import Prepared
    from tidemill.sources.protocol import Reading


@dataclass(frozen=True)
class MeetingLoads:
    """The LOADs of a table that holds these rows."""

    sources: LoadsSource
    reading: Reading
    held: DataFrame

    def without_overridden(self, read: Read) -> Read:
        """An APPEND without rows that a MERGE behind it has put another in the place of.

        A row of an APPEND whose key comes from a MERGE before it is an error.
        """
        merges = [part for part in self.sources.parts if isinstance(part.load.strategy, Merge)]
        if not isinstance(read.part.load.strategy, Append) or not merges:
            return read
        change, keys = read.prepared.change, self._keys(merges[0])
        suspects = not_as_stored(change.rows, self.held, keys, change.volatile)
        if not has_rows(suspects):
            return read
        rows = change.rows
        for merge in merges:
            met = self._keys_of(merge, keys).join(suspects, [*keys], "left_semi").distinct()
            if is_before(merge, read.part, self._order) and has_rows(met):
                raise met_in(met, keys, self.sources.table.name, [str(merge), str(read.part)])
            rows = rows.join(met, [*keys], "left_anti")
        left = settle(rows.select(*map(quote, change.rows.columns)))
        again = profiled(left, read.part.load.strategy, change.time_column, change.volatile)
        return replace(read, prepared=replace(read.prepared, change=again))

    def check(self, prepared: Prepared, parts: Sequence[LoadPart]) -> None:
        """Raises where a stored row of another source would be replaced, and nothing says which of them counts."""
        strategy = prepared.strategy
        if not isinstance(strategy, Merge) or not self._may_meet(parts):
            return
        keys, change = strategy.keys, prepared.change
        suspects = settle(not_as_stored(change.rows, self.held, keys, change.volatile))
        if not has_rows(suspects):
            return
        self._check_merges(parts, keys, suspects, change.volatile)
        for merge, append in self._ordered(parts):
            met = self._keys_of(merge, keys).join(suspects, [*keys], "left_semi").distinct()
            met = met.join(self._keys_of(append, keys), [*keys], "left_semi")
            if has_rows(met):
                raise met_in(met, keys, self.sources.table.name, [str(merge), str(append)])

    def _check_merges(
        self, parts: Sequence[LoadPart], keys: Sequence[str], suspects: DataFrame, volatile: frozenset[str]
    ) -> None:
        """All sources are asked for these keys, whatever their windows: what was read before must not decide."""
        if len(parts) == 1 or common_cursor(tuple(part.load for part in parts)):
            return
        frames = [whole_read(part, self.reading, self.held, self.sources.now).rows for part in parts]
        rows = settle(apart([frame.join(suspects, [*keys], "left_semi") for frame in frames], volatile))
        if has_rows(held_twice(rows, keys)):
            raise from_two_sources(rows, keys, self.sources.table.name, [str(part) for part in parts])

    def _may_meet(self, parts: Sequence[LoadPart]) -> bool:
        several = len(parts) > 1 and not common_cursor(tuple(part.load for part in parts))
        return several or any(True for _ in self._ordered(parts))

    def _ordered(self, parts: Sequence[LoadPart]) -> Iterator[tuple[LoadPart, LoadPart]]:
        """Each MERGE of these with each APPEND behind it."""
        return ((m, a) for m in parts for a in self.sources.parts if is_before(m, a, self._order))

    @property
    def _order(self) -> list[str]:
        return [part.load.input for part in self.sources.parts]

    def _keys(self, merge: LoadPart) -> tuple[str, ...]:
        strategy = merge.load.strategy
        assert isinstance(strategy, Merge)  # noqa: S101
        return require(strategy.keys, self.held.columns, "The key column", self.sources.table.name)

    def _keys_of(self, part: LoadPart, keys: Sequence[str]) -> DataFrame:
        """All keys that a source has, in the types of the table."""
        with part.reading():
            rows = part.source.read(self.reading)
            spelled = require(keys, rows.columns, "The key column", str(part))
            like = StructType([self.held.schema[key] for key in keys])
            return align(rows.select(*map(quote, spelled)), like, SchemaPolicy.FAIL, self.sources.table.name)[0]
