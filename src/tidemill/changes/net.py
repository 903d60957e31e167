"""What is left of rows that came and went, when those that did both are taken out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as t

from tidemill.changes.compare import comparable
from tidemill.formats.port import WEIGHT
from tidemill.model import of, quote

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_BINARY = "UTF8_BINARY"
_ROW = "__tidemill_row"


def net_changes(signed: DataFrame) -> DataFrame:
    """The same change, as rows of WEIGHT 1 and -1 of which none is on both sides.

    Only rows that are the same to the last bit take each other out: a query may tell 0.0 from -0.0, and 'bob' from
    'BOB' where these are equal by their collation.
    """
    rows = signed.drop(WEIGHT)
    marks = [each.alias(f"__tidemill_mark_{number}") for number, each in enumerate(_images(rows))]
    whole = F.struct(*[F.col(quote(each)) for each in rows.columns]).alias(_ROW)
    net = signed.select(*marks, whole, WEIGHT).groupBy(*[F.col(f"__tidemill_mark_{n}") for n in range(len(marks))])
    weight = net.agg(F.first(_ROW).alias(_ROW), F.sum(WEIGHT).alias(WEIGHT)).where(F.col(WEIGHT) != 0)
    copies = F.explode(F.array_repeat(F.signum(WEIGHT).cast("int"), F.abs(WEIGHT).cast("int"))).alias(WEIGHT)
    return weight.select(_ROW, copies).select(*[F.col(of(_ROW, each)).alias(each) for each in rows.columns], WEIGHT)


def _images(rows: DataFrame) -> list[Column]:
    """What two rows have in common only if they are the same to the last bit."""
    alike = [quote(field.name) for field in rows.schema.fields if _has_look_alikes(field.dataType)]
    texts = [F.to_json(F.struct(F.col(each))).cast("binary") for each in alike]
    return [*comparable(rows, frozenset()), *texts]


def _has_look_alikes(kind: t.DataType) -> bool:
    """Whether Spark calls values of this type equal that are not the same."""
    match kind:
        case t.FloatType() | t.DoubleType():
            return True
        case t.StringType():
            return getattr(kind, "collation", _BINARY) != _BINARY
        case t.ArrayType():
            return _has_look_alikes(kind.elementType)
        case t.MapType():
            return _has_look_alikes(kind.keyType) or _has_look_alikes(kind.valueType)
        case t.StructType():
            return any(_has_look_alikes(field.dataType) for field in kind.fields)
        case _:
            return False
