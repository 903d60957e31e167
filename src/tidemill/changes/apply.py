"""What rows become when a change is applied to them: as frames, of several sources too, and in memory where change and
table are small. Writes nothing.

In memory a small change meets a small table, or the little of a table that it can meet. Spark would need a join, two
passes and a commit of its own for that, which take a second however few the rows are.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import reduce, singledispatch
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Window
from pyspark.sql import functions as F

from tidemill.changes import ALL_COUNTS, EMPTIED, compile_change, refuse_shrink
from tidemill.changes.compare import descending, held_twice, rows_not_in, shown_keys, without_copies
from tidemill.errors import MergeError
from tidemill.formats.base import (
    COMING,
    HELD,
    MOST_ROWS,
    AppendRows,
    Compiled,
    OverwriteRows,
    Reach,
    ReplaceByKey,
    ReplaceRows,
    RewriteRows,
    Target,
    UpsertRows,
)
from tidemill.model import quote, spelled
from tidemill.model.record import Counts, Snapshot
from tidemill.model.strategy import Merge, MergeStrategy, Replace, Strategy
from tidemill.spark.session import settle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidemill.formats.base import Change, KeyRange, Operation, Whole


@dataclass(frozen=True, slots=True)
class Entering:
    """Together they are the table after the commit. Without a table, and where nothing of it stays, `beside` is None.

    Both are lazy: nothing is read here.
    """

    rows: DataFrame
    beside: DataFrame | None = None


def entering(operation: Operation, held: DataFrame | None) -> Entering:
    """What enters a table that holds the rows `held`; None where it is made by this commit."""
    if held is None:
        return Entering(operation.rows)
    match operation:
        case AppendRows(rows):
            return Entering(rows, held)
        case OverwriteRows(rows):
            return Entering(rows)
        case ReplaceRows(rows, predicate):
            return Entering(rows, held.where(~F.coalesce(F.expr(predicate), F.lit(False))))  # noqa: FBT003
        case ReplaceByKey():
            return _replaced(operation, held.alias(HELD))
        case UpsertRows():
            return _upserted(operation, held.alias(HELD))
        case _:
            raise NotImplementedError(operation)


def _replaced(operation: ReplaceByKey, held: DataFrame) -> Entering:
    if operation.gone is None:
        return Entering(operation.rows, held)
    return Entering(operation.rows, held.join(operation.gone.alias(COMING), F.expr(operation.match), "left_anti"))


def _upserted(operation: UpsertRows, held: DataFrame) -> Entering:
    if operation.collapses:  # a full merge
        return Entering(operation.rows)
    same_key = F.expr(operation.match)
    if not operation.delete_missing:
        return Entering(operation.rows, held.join(operation.rows, same_key, "left_anti"))
    stays = same_key & ~F.coalesce(F.expr(operation.changed), F.lit(False))  # noqa: FBT003
    return Entering(operation.rows.join(held, stays, "left_anti"), held.join(operation.rows, stays, "left_semi"))


_UNKNOWN = Snapshot(version=0, sequence=0, record=None, record_version=None)
_ANYWHERE = Reach(files=1, size=1)


def applied(strategy: Strategy, change: Change, held: DataFrame | None, name: str) -> DataFrame:
    """The rows of a table that held these, or nothing, after the change. Errors are those that the table would have."""
    return change.rows if held is None else _applied(strategy, change, held, name)


@singledispatch
def _applied(strategy: Strategy, change: Change, held: DataFrame, name: str) -> DataFrame:
    target = Target(name, held, _UNKNOWN, lambda _: _ANYWHERE)
    operation = compile_change(strategy, change, target).operation
    return held if operation is None else settle(rows_after(operation, held))


@_applied.register(Replace)
def _(strategy: Replace, change: Change, held: DataFrame, name: str) -> DataFrame:
    del strategy, held, name  # nothing of the table stays
    return change.rows


def rows_after(operation: Operation, held: DataFrame | None) -> DataFrame:
    """All rows of a table that held these, or was not there, after an operation; for stores that keep them whole."""
    entered = entering(operation if held is None else _complete(operation, held), held)
    if entered.beside is None:
        return entered.rows
    return entered.rows.unionByName(entered.beside, allowMissingColumns=True)


def _complete(operation: Operation, held: DataFrame) -> Operation:
    """Rows that replace others keep what these have in columns which they lack."""
    if not isinstance(operation, UpsertRows):
        return operation
    lacking = [name for name in held.columns if name not in operation.rows.columns]
    return _with(operation, held, lacking) if lacking else operation


def _with(operation: UpsertRows, held: DataFrame, lacking: Sequence[str]) -> UpsertRows:
    keys = list(operation.keys)
    stored = held.select(*map(quote, [*keys, *lacking]))
    return replace(operation, rows=operation.rows.join(stored, keys, "left").alias(COMING))


_SOURCE, _RANK = "__tidemill_source", "__tidemill_rank"


def in_one(frames: Sequence[DataFrame]) -> DataFrame:
    """The rows of all of them, with NULL in columns that a frame lacks."""
    return reduce(lambda all_rows, rows: all_rows.unionByName(rows, allowMissingColumns=True), frames)


def newest_of_all(frames: Sequence[DataFrame], keys: Sequence[str], cursor: str) -> DataFrame:
    """One row per key: that with the highest cursor; of several that tie, that of the last frame.

    Each frame has a key once.
    """
    rows = in_one([frame.withColumn(_SOURCE, F.lit(number)) for number, frame in enumerate(frames)])
    order = [*descending(rows, [cursor]), F.col(_SOURCE).desc()]
    rank = F.row_number().over(Window.partitionBy(*map(quote, keys)).orderBy(*order))
    return rows.withColumn(_RANK, rank).where(F.col(_RANK) == 1).drop(_RANK, _SOURCE)


def apart(frames: Sequence[DataFrame], volatile: frozenset[str]) -> DataFrame:
    """The rows of all of them, those that are the same in two frames once. Keys may come twice."""
    return without_copies(in_one(frames), volatile)


def not_as_stored(rows: DataFrame, held: DataFrame, keys: Sequence[str], volatile: frozenset[str]) -> DataFrame:
    """The keys that the table holds, and not with the same row."""
    stored = held.select(*[quote(name) for name in rows.columns if name in held.columns])
    known = rows.select(*map(quote, stored.columns))
    names = [quote(key) for key in keys]
    differing = rows_not_in(known, stored, volatile).select(*names).distinct()
    return differing.join(held.select(*names), [*keys], "left_semi")


def from_two_sources(rows: DataFrame, keys: Sequence[str], name: str, sources: Sequence[str]) -> MergeError:
    """The error for keys that come with different rows from several sources, one row of `rows` for each."""
    twice = held_twice(rows, keys)
    return met_in(twice, keys, name, sources)


def met_in(twice: DataFrame, keys: Sequence[str], name: str, sources: Sequence[str]) -> MergeError:
    """The same for keys that are known to come from several of these sources."""
    count = twice.count()
    word = "1 key comes" if count == 1 else f"{count:,} keys come"
    return MergeError(
        "load.key_from_two_sources",
        f"{word} into {name} from more than one source ({', '.join(sources)}): {shown_keys(twice, keys)}.",
        "Nothing says which row counts. Read these sources by the same cursor column (INCREMENTAL BY), so that the "
        f"newest row does, or make their keys distinct. {name} is unchanged.",
    )


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
