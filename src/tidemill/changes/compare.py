"""When two rows are the same, null-safe; and keys that can be trusted: none NULL, none twice."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, Window
from pyspark.sql import functions as F
from pyspark.sql import types as t

from tidemill.errors import MergeError
from tidemill.model import of, quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame


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
