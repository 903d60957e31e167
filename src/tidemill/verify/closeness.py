"""When two values count as the same for a proof: as everywhere, but floats within a tolerance.

A sum of floats depends on the order in which Spark adds them, which differs from run to run.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as t

from tidemill.change.compare import canonical

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


def same(ours: Column, theirs: Column, kind: t.DataType) -> Column:
    """A condition, never NULL: two values of one type are the same."""
    return close(canonical(ours, kind), canonical(theirs, kind), canonical_kind(kind))


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
