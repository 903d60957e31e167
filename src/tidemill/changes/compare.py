"""Compares the rows of a change with a table's: as frames, and in memory where both are small. Writes nothing.

In memory a small change meets a small table, or the little of a table that it can meet. Spark would need a join, two
passes and a commit of its own for that, which take a second however few the rows are.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import date, datetime
from functools import reduce, singledispatch
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, Window
from pyspark.sql import functions as F
from pyspark.sql import types as t

from tidemill.changes import ALL_COUNTS, EMPTIED, refuse_shrink
from tidemill.errors import MergeError
from tidemill.formats.base import (
    MOST_ROWS,
    Compiled,
    RewriteRows,
)
from tidemill.model import of, quote, spelled
from tidemill.model.record import Counts
from tidemill.model.strategy import Merge, MergeStrategy, Replace, Strategy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidemill.formats.base import Change, KeyRange, Whole


def canonical(column: str, kind: t.DataType, depth: int = 0) -> str:
    """A form of the column, both as SQL, that Spark can compare; for most types the column itself."""
    if not needs_form(kind):
        return column
    item = f"item{depth}"
    match kind:
        case t.MapType():
            key = canonical(f"{item}.key", kind.keyType, depth + 1)
            value = canonical(f"{item}.value", kind.valueType, depth + 1)
            entries = f"transform(map_entries({column}), {item} -> struct({key} AS key, {value} AS value))"
            return f"array_sort({entries})"
        case t.ArrayType():
            return f"transform({column}, {item} -> {canonical(item, kind.elementType, depth + 1)})"
        case t.StructType():
            fields = [(quote(field.name), field.dataType) for field in kind.fields]
            parts = [f"{canonical(f'{column}.{name}', part, depth)} AS {name}" for name, part in fields]
            return f"CASE WHEN {column} IS NOT NULL THEN struct({', '.join(parts)}) END"
        case _:
            return f"to_json({column})"


def needs_form(kind: t.DataType) -> bool:
    """Whether Spark cannot compare values of this type as they are."""
    match kind:
        case t.MapType() | t.VariantType():
            return True
        case t.ArrayType():
            return needs_form(kind.elementType)
        case t.StructType():
            return any(needs_form(field.dataType) for field in kind.fields)
        case _:
            return False


def comparable(rows: DataFrame, volatile: frozenset[str]) -> list[Column]:
    """The columns by which rows are compared, in their comparable form, with their own names."""
    return [
        F.expr(canonical(quote(field.name), field.dataType)).alias(field.name)
        for field in rows.schema.fields
        if field.name.lower() not in volatile
    ]


def differs(columns: Sequence[t.StructField], left: str, right: str) -> str:
    """A condition, as SQL: some column of the row `left` is not the same as that of the row `right`."""
    pairs = [[canonical(of(side, field.name), field.dataType) for side in (left, right)] for field in columns]
    return " OR ".join(f"NOT ({ours} <=> {theirs})" for ours, theirs in pairs) or "false"


@dataclass(frozen=True, slots=True)
class Difference:
    """How two multisets of rows differ."""

    only_left: int
    only_right: int


def difference(left: DataFrame, right: DataFrame, volatile: frozenset[str]) -> Difference:
    """Counts the rows that only one side holds, each as often as it occurs; one pass over both."""
    sign = "__tidemill_sign"
    both = left.select(*comparable(left, volatile), F.lit(1).alias(sign)).unionByName(
        right.select(*comparable(right, volatile), F.lit(-1).alias(sign))
    )
    names = [quote(name) for name in both.columns if name != sign]
    surplus = both.groupBy(*names).agg(F.sum(sign).alias(sign)).where(F.col(sign) != 0)
    totals = surplus.agg(
        F.sum(F.greatest(F.col(sign), F.lit(0))).alias("l"),
        F.sum(F.greatest(-F.col(sign), F.lit(0))).alias("r"),
    ).first()
    assert totals is not None  # noqa: S101  a global aggregate has one row
    return Difference(totals["l"] or 0, totals["r"] or 0)


def rows_not_in(rows: DataFrame, held: DataFrame, volatile: frozenset[str]) -> DataFrame:
    """The rows that `held` does not hold, each as often as it is missing there; lazy, and reads both."""
    ours, theirs = _numbered(rows, volatile), _numbered(held, volatile)
    marks = [name for name in theirs.columns if name.startswith(_MARK)]
    same = reduce(
        lambda a, b: a & b,
        [F.col(f"s.{quote(mark)}").eqNullSafe(F.col(f"t.{quote(mark)}")) for mark in marks],
    )
    missing = ours.alias("s").join(theirs.select(*map(quote, marks)).alias("t"), same, "left_anti")
    return missing.select(*[quote(name) for name in rows.columns])


_MARK = "__tidemill_mark_"


def _numbered(rows: DataFrame, volatile: frozenset[str]) -> DataFrame:
    """The rows with marks to compare by: the comparable columns, and the row's number among its equals."""
    compared = comparable(rows, volatile)
    marked = rows.select("*", *[column.alias(f"{_MARK}{n}") for n, column in enumerate(compared)])
    marks = [F.col(f"{_MARK}{n}") for n in range(len(compared))]
    number = F.row_number().over(Window.partitionBy(*marks).orderBy(F.lit(1)))
    return marked.withColumn(f"{_MARK}n", number)


SHOWN = 5
_RANK = "__tidemill_rank"


def null_keys(count: int, keys: Sequence[str], name: str) -> MergeError:
    return MergeError(
        "merge.null_keys",
        f"{_rows(count)} no {' or no '.join(keys)}; keys cannot be NULL.",
        f"Leave such rows out, or choose other keys. {name} is unchanged.",
    )


def duplicate_keys(rows: DataFrame, keys: Sequence[str], name: str) -> MergeError:
    """The error for a change that has different rows of one key; it shows some of the keys."""
    twice = _repeated(rows, keys)
    count, shown = twice.count(), shown_keys(twice, keys)
    return MergeError(
        "merge.duplicate_keys",
        f"{_keys(count)} of {name} {'comes' if count == 1 else 'come'} more than once in this change: {shown}.",
        f"Keep one row per key with dedup_order_by, or make the source unique on ({', '.join(keys)}). "
        f"{name} is unchanged.",
    )


def held_twice(held: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The keys that occur more than once, one row each."""
    return _repeated(held, keys)


def target_duplicates(twice: DataFrame, count: int, keys: Sequence[str], name: str) -> MergeError:
    return MergeError(
        "merge.target_duplicates",
        f"{name} holds {_keys(count)} of this change more than once: {shown_keys(twice, keys)}.",
        f"Use the strategy deduplicate, which leaves one row of each, or other keys. {name} is unchanged.",
    )


def one_per_key(rows: DataFrame, keys: Sequence[str], order_by: Sequence[str]) -> DataFrame:
    """One row of each key: the highest by `order_by`, NULLs last, ties broken by all columns, always the same way."""
    order = [*descending(rows, order_by), *descending(rows, rows.columns)]
    window = Window.partitionBy(*map(quote, keys)).orderBy(*order)
    ranked = rows.withColumn(_RANK, F.row_number().over(window))
    return ranked.where(F.col(_RANK) == 1).drop(_RANK)


def newest_versions(rows: DataFrame, keys: Sequence[str], by: str) -> DataFrame:
    """Of each key the rows with the highest `by`; several that tie stay."""
    window = Window.partitionBy(*map(quote, keys)).orderBy(*descending(rows, [by]))
    return rows.withColumn(_RANK, F.rank().over(window)).where(F.col(_RANK) == 1).drop(_RANK)


def without_copies(rows: DataFrame, volatile: frozenset[str]) -> DataFrame:
    """Rows that are equal in every column count once."""
    compared = [
        F.expr(canonical(quote(field.name), field.dataType))
        for field in rows.schema.fields
        if field.name.lower() not in volatile
    ]
    window = Window.partitionBy(*compared).orderBy(*(descending(rows, [*volatile]) or [F.lit(1)]))
    ranked = rows.withColumn(_RANK, F.row_number().over(window))
    return ranked.where(F.col(_RANK) == 1).drop(_RANK)


def descending(rows: DataFrame, columns: Sequence[str]) -> list[Column]:
    """An order by these columns, highest first and NULLs last."""
    kinds = {field.name.lower(): field for field in rows.schema.fields}
    return [
        F.expr(canonical(quote(kinds[name.lower()].name), kinds[name.lower()].dataType)).desc_nulls_last()
        for name in columns
        if name.lower() in kinds
    ]


def _repeated(rows: DataFrame, keys: Sequence[str]) -> DataFrame:
    names = [quote(key) for key in keys]
    return rows.groupBy(*names).agg(F.count(F.lit(1)).alias(_RANK)).where(F.col(_RANK) > 1).select(*names)


def shown_keys(keys_only: DataFrame, keys: Sequence[str]) -> str:
    """Some of the keys, as people read them."""
    some = keys_only.orderBy(*map(quote, keys)).limit(SHOWN + 1).collect()
    texts = [_tuple([row[key] for key in keys]) for row in some[:SHOWN]]
    return ", ".join(texts) + (", …" if len(some) > SHOWN else "")


def _tuple(values: Sequence[object]) -> str:
    texts = [repr(value) if isinstance(value, str) else str(value) for value in values]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def _rows(count: int) -> str:
    return "1 row has" if count == 1 else f"{count:,} rows have"


def _keys(count: int) -> str:
    return "1 key" if count == 1 else f"{count:,} keys"


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
    if same == count == before:
        return Compiled(None, Counts(unchanged=same))
    updated = _updated(strategy.row_key, both, held - coming, coming - held)
    counts = Counts(inserted=count - same - updated, updated=updated, deleted=before - same - updated, unchanged=same)
    return Compiled(RewriteRows(both.coming), counts, ALL_COUNTS, notices=() if count else EMPTIED)


def _updated(row_key: Sequence[str], both: _Both, going: Counter[Any], coming: Counter[Any]) -> int:
    """How many keys have one row that goes, and one that comes."""
    places = [both.compared.index(name) for each in row_key if (name := spelled(each, both.compared))]
    if not places:
        return 0
    gone, came = (Counter(tuple(row[place] for place in places) for row in rows.elements()) for rows in (going, coming))
    return sum(count == 1 and came[key] == 1 for key, count in gone.items())


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
