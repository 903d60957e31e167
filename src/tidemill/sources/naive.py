"""Times without a zone, of frames and files alike: as the table has them, and without a zone where it is new."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from tidemill.declare.names import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def with_held_times(rows: DataFrame, like: StructType | None) -> DataFrame:
    """The rows, with times without a zone as moments of the session's where the table has moments."""
    wanted = as_held(rows.schema, like)
    if wanted == rows.schema:
        return rows
    return rows.select(*(F.col(quote(f.name)).cast(f.dataType).alias(f.name) for f in wanted.fields))


def as_held(found: StructType, held: StructType | None) -> StructType:
    """The types, with TIMESTAMP instead of TIMESTAMP_NTZ where the table holds TIMESTAMP, also inside of columns."""
    known = {field.name.lower(): field.dataType for field in held.fields} if held else {}
    return StructType(
        [
            StructField(f.name, _as_held(f.dataType, known.get(f.name.lower())), f.nullable, f.metadata)
            for f in found.fields
        ]
    )


def _as_held(found: DataType, held: DataType | None) -> DataType:
    match found, held:
        case TimestampNTZType(), TimestampType():
            return held
        case StructType(), StructType():
            return as_held(found, held)
        case ArrayType(), ArrayType():
            return ArrayType(_as_held(found.elementType, held.elementType), found.containsNull)
        case MapType(), MapType():
            value = _as_held(found.valueType, held.valueType)
            return MapType(_as_held(found.keyType, held.keyType), value, found.valueContainsNull)
        case _:
            return found
