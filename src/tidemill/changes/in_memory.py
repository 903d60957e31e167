"""Changes compiled in memory, where change and table are small. Writes nothing.

In memory a small change meets a small table, or the little of a table that it can meet. Spark would need a join, two
passes and a commit of its own for that, which take a second however few the rows are.
"""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.changes import ALL_COUNTS, EMPTIED, refuse_shrink
from tidemill.formats.base import (
    MOST_ROWS,
    Compiled,
    RewriteRows,
)
from tidemill.model import spelled
from tidemill.model.record import Counts
from tidemill.model.strategy import Merge, MergeStrategy, Replace, Strategy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.types import StructType

    from tidemill.formats.base import Change, KeyRange, Whole


MOST_BYTES = 4 * 1024 * 1024  # of texts
_MOMENT = pa.timestamp("us", tz="UTC")
_NAN = "NaN"  # among numbers no other value is equal to it
_CERTAIN = (date(1900, 1, 1), datetime(1900, 1, 1))  # noqa: DTZ001  what is older may be by another calendar in a file


def compile_whole(strategy: Strategy, change: Change, whole: Whole, name: str) -> Compiled | None:
    """The table as the change makes it; None where the change or the table is not for here."""
    if not _is_small(change):
        return None
    if _columns(change.rows.schema) != _columns(whole.schema):
        return None
    coming = _in_utc(change.rows.toArrow().select(whole.schema.names))
    held = whole.rows(MOST_ROWS + 1).cast(coming.schema)
    if held.num_rows > MOST_ROWS or not _is_certain(held) or not _is_certain(coming):
        return None
    return _compiled(strategy, _Both(held, coming, change.volatile, whole.ranges), name)


class _Both:
    """The rows of a table, within some ranges or all of them, and those of a change, in the same columns."""

    def __init__(
        self, held: pa.Table, coming: pa.Table, volatile: frozenset[str], ranges: tuple[KeyRange, ...] = ()
    ) -> None:
        self.held, self.coming, self.ranges = held, coming, ranges
        self.compared = [name for name in held.column_names if name.lower() not in volatile]

    def keyed(self, columns: Sequence[str]) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """The values of both in these columns, row by row."""
        return _values(self.held, columns), _values(self.coming, columns)

    def after(self, replaced: dict[int, int], gone: set[int], new: Sequence[int]) -> RewriteRows:
        """The table's rows, some replaced by rows of the change and some gone, with new ones at the end."""
        count = self.held.num_rows
        held = [count + replaced[n] if n in replaced else n for n in range(count) if n not in gone]
        places = pa.array([*held, *(count + n for n in new)], pa.int64())
        return RewriteRows(pa.concat_tables([self.held, self.coming]).take(places), self.ranges)


@singledispatch
def _compiled(strategy: Strategy, both: _Both, name: str) -> Compiled | None:  # noqa: ARG001  dispatched on
    return None


@_compiled.register(Replace)
def _(strategy: Replace, both: _Both, name: str) -> Compiled:
    """Rows are distinguished by all that is compared, each as often as it occurs."""
    count, before = both.coming.num_rows, both.held.num_rows
    if strategy.max_shrink is not None:
        refuse_shrink(strategy.max_shrink, before - count, before, name)
    held, coming = map(Counter, both.keyed(both.compared))
    same = (held & coming).total()
    counts = Counts(inserted=count - same, deleted=before - same, unchanged=same)
    if not counts.inserted and not counts.deleted:
        return Compiled(None, counts)
    return Compiled(RewriteRows(both.coming), counts, ALL_COUNTS, notices=() if count else EMPTIED)


@_compiled.register(Merge)
def _(strategy: Merge, both: _Both, name: str) -> Compiled | None:
    """None where the table holds a key of the change twice: that collapses, or is an error."""
    met = _met(strategy, both)
    if met is None or strategy.only_newer is not None:
        return None
    held, coming = both.keyed([name for name in both.compared if not spelled(name, strategy.keys)])
    differing = {place: row for row, place in met.items() if held[place] != coming[row]}
    new = [row for row in range(both.coming.num_rows) if row not in met]
    gone: set[int] = set()
    match strategy.form:
        case MergeStrategy.INSERT:
            counts, differing = Counts(inserted=len(new), ignored=len(met)), {}
        case MergeStrategy.UPDATE:
            same = len(met) - len(differing)
            counts, new = Counts(updated=len(differing), unchanged=same, ignored=len(new)), []
        case form:
            gone = set(range(both.held.num_rows)) - {*met.values()} if form is MergeStrategy.FULL_MERGE else gone
            same = len(met) - len(differing)
            counts = Counts(inserted=len(new), updated=len(differing), deleted=len(gone), unchanged=same)
    if strategy.max_shrink is not None:
        refuse_shrink(strategy.max_shrink, len(gone), both.held.num_rows, name)
    operation = both.after(differing, gone, new) if differing or gone or new else None
    notices = EMPTIED if gone and not both.coming.num_rows else ()
    return Compiled(operation, counts, ALL_COUNTS, unique=True, notices=notices)


def _met(strategy: Merge, both: _Both) -> dict[int, int] | None:
    """By the rows of the change the places of those with the same keys; None where there are several of one."""
    held, coming = both.keyed(strategy.keys)
    rows = {key: row for row, key in enumerate(coming)}
    found = [(rows[key], place) for place, key in enumerate(held) if key in rows]
    met = dict(found)
    return met if len(met) == len(found) else None


def _values(rows: pa.Table, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """As Python compares them: NULL is the same as NULL, NaN as NaN, and 0.0 as -0.0."""
    lists = [_plain(rows.column(name)) for name in columns]
    return list(zip(*lists, strict=True)) if lists else [()] * rows.num_rows


def _plain(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_temporal(column.type):
        return list(column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64()).to_pylist())
    values: list[Any] = column.to_pylist()
    return [_NAN if value != value else value for value in values] if pa.types.is_floating(column.type) else values  # noqa: PLR0124


def _is_small(change: Change) -> bool:
    octets = change.profile.octets
    return change.profile.rows <= MOST_ROWS and octets is not None and octets <= MOST_BYTES


def _columns(schema: StructType) -> list[tuple[str, object]]:
    return sorted((field.name, field.dataType.jsonValue()) for field in schema.fields)


def _in_utc(rows: pa.Table) -> pa.Table:
    """Spark gives moments in the zone of its session, and tables hold them in UTC."""
    moments = [pa.types.is_timestamp(field.type) for field in rows.schema]
    fields = zip(rows.schema, moments, strict=True)
    return rows.cast(pa.schema([field.with_type(_MOMENT) if moment else field for field, moment in fields]))


def _is_certain(rows: pa.Table) -> bool:
    """Whether its times are the same whoever reads them: Spark takes old ones by the calendar of who wrote them."""
    times = [column for column in rows.columns if pa.types.is_temporal(column.type)]
    return all(_least(column) >= 0 for column in times)


def _least(column: pa.ChunkedArray) -> int:
    day = pa.types.is_date32(column.type)
    start = pa.scalar(_CERTAIN[not day]).cast(pa.date32() if day else pa.timestamp("us"))
    kind = pa.int32() if day else pa.int64()
    least = pc.min(column.cast(kind)).as_py()
    return 0 if least is None else least - start.cast(kind).as_py()
