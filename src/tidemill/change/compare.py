"""When two rows are the same: null-safe, NaN equals NaN, -0.0 equals 0.0, maps whatever their order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, Window
from pyspark.sql import functions as F
from pyspark.sql import types as t

from tidemill.declare.names import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame


def canonical(column: Column, kind: t.DataType) -> Column:
    """A form of the column that Spark can compare; for most types the column itself."""
    if not needs_form(kind):
        return column
    match kind:
        case t.MapType():
            entries = F.transform(
                F.map_entries(column),
                lambda e: F.struct(
                    canonical(e["key"], kind.keyType).alias("key"),
                    canonical(e["value"], kind.valueType).alias("value"),
                ),
            )
            return F.array_sort(entries)
        case t.ArrayType():
            return F.transform(column, lambda item: canonical(item, kind.elementType))
        case t.StructType():
            parts = [canonical(column.getField(f.name), f.dataType).alias(f.name) for f in kind.fields]
            return F.when(column.isNotNull(), F.struct(*parts))
        case _:
            return F.to_json(column)


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
        canonical(F.col(quote(field.name)), field.dataType).alias(field.name)
        for field in rows.schema.fields
        if field.name.lower() not in volatile
    ]


def differs(columns: Sequence[t.StructField], left: str, right: str) -> Column:
    """A condition: some column of the row `left` is not the same as that of the row `right`."""

    def one(field: t.StructField) -> Column:
        ours = canonical(F.col(f"{left}.{quote(field.name)}"), field.dataType)
        theirs = canonical(F.col(f"{right}.{quote(field.name)}"), field.dataType)
        return ~ours.eqNullSafe(theirs)

    return reduce(lambda a, b: a | b, [one(field) for field in columns], F.lit(False))  # noqa: FBT003


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
