"""Texts as decimals, dates and moments, without loss.

Spark's readers would round to a decimal, cut the time off a date, and take 10:00 for ten o'clock of the day of the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import (
    DataType,
    DateType,
    DecimalType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from tidemill.declare.names import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

_MOST_DIGITS = 38
_FIRST = 1000
# with such an option, Spark's reader is told how to read
_IN_CHARGE: dict[type[DataType], set[str]] = {
    DecimalType: {"locale"},
    DateType: {"dateformat"},
    TimestampType: {"timestampformat", "timezone"},
}
_TIME_ALONE = r"^\s*T?\d{1,2}:"


def as_texts(schema: StructType, options: Mapping[str, str], *kinds: type[DataType]) -> StructType:
    """What to read: texts where columns are of these kinds, so that `exactly` can look at them."""
    given = {name.lower(): value.lower() for name, value in options.items()}
    looked_at = [kind for kind in kinds if given.get("mode") == "failfast" and not _IN_CHARGE[kind] & given.keys()]
    return StructType(
        [StructField(f.name, StringType() if type(f.dataType) in looked_at else f.dataType) for f in schema.fields]
    )


def exactly(rows: DataFrame, wanted: StructType) -> DataFrame:
    """The rows with the types that are wanted; a text that is no such value, or more than it, is an error."""
    kinds = {f.name: f.dataType for f in wanted.fields}
    read = {f.name: f.dataType for f in rows.schema.fields}
    if not any(kind != read[name] for name, kind in kinds.items()):
        return rows
    return rows.select(*(_exact(name, kinds[name]) if kinds[name] != read[name] else quote(name) for name in read))


def _exact(name: str, kind: DataType) -> Column:
    text = F.col(quote(name))
    value = text.try_cast(kind)
    is_whole = F.coalesce(_says_all(value, text, kind), F.lit(False))  # noqa: FBT003
    wrong = F.concat(F.lit(f"{name} is {kind.simpleString()}, and a row has "), text)
    return F.when(text.isNull() | is_whole, value).otherwise(F.raise_error(wrong)).alias(name)


def _says_all(value: Column, text: Column, kind: DataType) -> Column:
    """Whether a type that has room for more finds the same in the text."""
    if isinstance(kind, TimestampType):
        return value.isNotNull() & ~text.rlike(_TIME_ALONE)
    room: DataType = TimestampNTZType()
    if isinstance(kind, DecimalType):
        room = DecimalType(_MOST_DIGITS, _MOST_DIGITS - kind.precision + kind.scale)
    return value.try_cast(room) == text.try_cast(room)


def times_alone(rows: DataFrame) -> list[str]:
    """The columns of texts whose first ones are times of a day that they do not tell."""
    first = rows.limit(_FIRST).select(*(F.max(F.col(quote(name)).rlike(_TIME_ALONE)) for name in rows.columns)).first()
    return [name for name, is_time in zip(rows.columns, first or (), strict=True) if is_time]
