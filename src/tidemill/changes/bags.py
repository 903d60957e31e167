"""How two bags of rows differ, floats within a tolerance.

A sum of floats depends on the order in which Spark adds them, which differs from run to run.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, Window
from pyspark.sql import functions as F
from pyspark.sql import types as t

from tidemill.changes.compare import canonical, comparable
from tidemill.model import of, quote
from tidemill.spark.session import settle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

TOLERANCE = 1e-9
_FLOATS = (t.DoubleType, t.FloatType)


def has_floats(kind: t.DataType) -> bool:
    match kind:
        case t.ArrayType():
            return has_floats(kind.elementType)
        case t.MapType():
            return has_floats(kind.keyType) or has_floats(kind.valueType)
        case t.StructType():
            return any(has_floats(field.dataType) for field in kind.fields)
        case _:
            return isinstance(kind, _FLOATS)


def canonical_kind(kind: t.DataType) -> t.DataType:
    """The type of a column's comparable form: a map is the array of its entries, sorted."""
    match kind:
        case t.MapType():
            entry = [
                t.StructField("key", canonical_kind(kind.keyType)),
                t.StructField("value", canonical_kind(kind.valueType)),
            ]
            return t.ArrayType(t.StructType(entry))
        case t.ArrayType():
            return t.ArrayType(canonical_kind(kind.elementType))
        case t.StructType():
            return t.StructType([t.StructField(f.name, canonical_kind(f.dataType)) for f in kind.fields])
        case t.VariantType():
            return t.StringType()
        case _:
            return kind


def same(ours: str, theirs: str, kind: t.DataType) -> Column:
    """A condition, never NULL: two columns of one type are the same."""
    return close(F.expr(canonical(ours, kind)), F.expr(canonical(theirs, kind)), canonical_kind(kind))


def close(ours: Column, theirs: Column, kind: t.DataType) -> Column:
    """The same for values in their comparable form."""
    if not has_floats(kind):
        return ours.eqNullSafe(theirs)
    return ours.eqNullSafe(theirs) | F.coalesce(_close(ours, theirs, kind), F.lit(False))  # noqa: FBT003


def _close(ours: Column, theirs: Column, kind: t.DataType) -> Column:
    match kind:
        case t.ArrayType():
            both = F.zip_with(ours, theirs, lambda a, b: close(a, b, kind.elementType))
            return (F.size(ours) == F.size(theirs)) & F.forall(both, lambda each: each)
        case t.StructType():
            parts = [close(ours.getField(f.name), theirs.getField(f.name), f.dataType) for f in kind.fields]
            return ours.isNotNull() & theirs.isNotNull() & reduce(lambda a, b: a & b, parts)
        case _:
            return _near(ours.cast("double"), theirs.cast("double"))


def _near(ours: Column, theirs: Column) -> Column:
    """Infinities and NaN are near nothing: what they have in common with others, `eqNullSafe` has found."""
    apart, size = F.abs(ours - theirs), F.greatest(F.abs(ours), F.abs(theirs))
    return (apart < F.lit(float("inf"))) & (apart <= size * TOLERANCE)


COPY, NUMBER = "__tidemill_copy", "__tidemill_number"


def compared_fields(schema: t.StructType, volatile: frozenset[str]) -> list[t.StructField]:
    """The columns by which rows are compared, as they are compared."""
    return [
        t.StructField(field.name, canonical_kind(field.dataType))
        for field in schema.fields
        if field.name.lower() not in volatile
    ]


def surplus(ours: DataFrame, theirs: DataFrame, volatile: frozenset[str]) -> DataFrame:
    """The compared columns of the rows that one side holds more often than the other, each as often as that.

    Both have the same columns. NUMBER is above zero for rows of ours; COPY says whether the other side has such a row
    too.
    """
    fields = compared_fields(ours.schema, volatile)
    found = _surplus(ours, theirs, volatile, fields)
    if any(has_floats(field.dataType) for field in fields):
        return _without_near_pairs(found, fields)
    return found


def _surplus(
    ours: DataFrame, theirs: DataFrame, volatile: frozenset[str], fields: Sequence[t.StructField]
) -> DataFrame:
    both = ours.select(*comparable(ours, volatile), F.lit(1).alias(NUMBER)).unionByName(
        theirs.select(*comparable(theirs, volatile), F.lit(-1).alias(NUMBER))
    )
    names = [quote(field.name) for field in fields]
    totals = both.groupBy(*names).agg(F.sum(NUMBER).alias(NUMBER), (F.min(NUMBER) < F.max(NUMBER)).alias(COPY))
    apart = totals.where(F.col(NUMBER) != 0)
    times = F.explode(F.sequence(F.lit(1), F.abs(NUMBER)))
    return apart.select(*names, COPY, F.signum(NUMBER).alias(NUMBER), times.alias("__tidemill_times")).drop(
        "__tidemill_times"
    )


def _without_near_pairs(found: DataFrame, fields: Sequence[t.StructField]) -> DataFrame:
    """What stays when rows that differ only by the noise of floats are treated as the same.

    Rows with the same other columns are paired in the order of their floats.
    """
    floats = [field for field in fields if has_floats(field.dataType)]
    exact = [field for field in fields if not has_floats(field.dataType)]
    rank = "__tidemill_rank"
    window = Window.partitionBy(NUMBER, *[quote(field.name) for field in exact]).orderBy(
        *[quote(field.name) for field in floats]
    )
    ranked = settle(found.withColumn(rank, F.row_number().over(window)))
    sides = (ranked.where(F.col(NUMBER) > 0), ranked.where(F.col(NUMBER) < 0))

    def alone(rows: DataFrame, others: DataFrame) -> DataFrame:
        same_place = [F.col(f"s.{rank}") == F.col(f"t.{rank}")]
        equal = [F.col(of("s", f.name)).eqNullSafe(F.col(of("t", f.name))) for f in exact]
        near = [close(F.col(of("s", f.name)), F.col(of("t", f.name)), f.dataType) for f in floats]
        return rows.alias("s").join(others.alias("t"), all_of([*same_place, *equal, *near]), "left_anti")

    return alone(*sides).unionByName(alone(*reversed(sides))).drop(rank)


def all_of(conditions: Sequence[Column]) -> Column:
    return reduce(lambda a, b: a & b, conditions, F.lit(True))  # noqa: FBT003
