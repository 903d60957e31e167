"""The one rule for texts that may be values of a type, and times without a zone as their table has them.

A text is a value of a type if Spark reads it as one and the value says all that the text does: 1.5 and 1.50 are
spellings of one number, 1.239 is no DECIMAL(9,2). Spark's readers would round to a decimal, cut the time off a date,
and take 10:00 for ten o'clock today. Where nobody has declared the type, digits that are no number are texts too:
00123 would lose its zeros.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from tidemill.model import quote
from tidemill.sources.files.text import WIDE, CsvOptions, Text, look_at_files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from tidemill.sources.files.listing import Listing


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


_MOST_DIGITS = 38
# with such an option, Spark's reader is configured by the user
_IN_CHARGE: dict[type[DataType], set[str]] = {
    DecimalType: {"locale"},
    DoubleType: {"locale"},
    LongType: {"locale"},
    DateType: {"dateformat"},
    TimestampType: {"timestampformat", "timezone"},
}
_DAY = r"\s*[+-]?\d{4,6}-\d{1,2}-\d{1,2}"
_CODE = r"^\s*(?:0\d|\+)"
# How texts look that Spark reads as values of a type which do not say all of them.
_MISREAD: dict[type[DataType], str] = {
    DateType: rf"^(?!{_DAY})",  # 2024 is no day
    TimestampType: rf"^(?!$|{_DAY})",  # 10:00 would be a time of today
    LongType: _CODE,
    DecimalType: _CODE,
    DoubleType: r"^\s*(?:[+-]?\d{16,}\s*$|.*[dDfF]\s*$)",
}
# The numbers of _MISREAD in bytes, wherever they may stand. They are several, because Python is fast where an
# expression begins with a sign.
_CODES = (re.compile(rb"0(?<![\w.:/+-]0)[0-9](?!:)"), re.compile(rb"\+(?<!\w\+)[0-9]"))
_ALIKE = bytes.maketrans(b"123456789DfF", b"000000000ddd")
_CODES_ALIKE = (b"0" * 16, b"0d", b"0.d")
_LONGEST = 20  # bytes of them


def misread(text: Column, kind: DataType) -> Column:
    """Whether a text says more than the value of this type that Spark reads it as.

    Of numbers only where nobody has declared the type: who has, may write 007.
    """
    return text.rlike(_MISREAD[type(kind)])


def is_value(text: Column, kind: DataType) -> Column:
    """Whether a text is a value of a declared type, however it is spelled: one with room for more is the same."""
    value = text.try_cast(kind)
    match kind:
        case TimestampType():
            whole = value.isNotNull() & ~misread(text, kind)
        case DecimalType():
            room = DecimalType(_MOST_DIGITS, _MOST_DIGITS - kind.precision + kind.scale)
            whole = value.try_cast(room) == text.try_cast(room)
        case _:  # a date
            moment = TimestampNTZType()
            whole = (value.try_cast(moment) == text.try_cast(moment)) & ~misread(text, kind)
    return F.coalesce(whole, F.lit(False))  # noqa: FBT003


def may_hold_codes(listing: Listing, options: Mapping[str, str]) -> bool:
    """Whether bytes of the files may be numbers that are misread; where not, it is sure, and no row is looked at."""
    return CsvOptions.of(options).encoding.startswith(WIDE) or any(look_at_files(listing, _has_codes))


def _has_codes(text: Text) -> bool:
    before = b""
    with contextlib.suppress(OSError):
        for block in text.blocks():
            some = before + block  # one may lie in two blocks
            alike = some.translate(_ALIKE)
            if any(code in alike for code in _CODES_ALIKE) or any(
                code.search(some, len(before[:1])) for code in _CODES
            ):
                return True
            before = block[-_LONGEST:]
    return False


def as_texts(schema: StructType, options: Mapping[str, str], *kinds: type[DataType]) -> StructType:
    """What to read: texts where columns, or what is inside of them, are of these kinds, for `exactly` to look at."""
    given = {name.lower(): value.lower() for name, value in options.items()}
    looked_at = [kind for kind in kinds if given.get("mode") == "failfast" and not _IN_CHARGE[kind] & given.keys()]

    def read(kind: DataType) -> DataType:
        match kind:
            case StructType():
                return StructType([StructField(f.name, read(f.dataType)) for f in kind.fields])
            case ArrayType():
                return ArrayType(read(kind.elementType))
            case MapType():
                return MapType(kind.keyType, read(kind.valueType))
            case _:
                return StringType() if type(kind) in looked_at else kind

    return StructType([StructField(f.name, read(f.dataType)) for f in schema.fields])


def exactly(rows: DataFrame, wanted: StructType) -> DataFrame:
    """The rows with the types that are wanted; a text that is no such value, or more than it, is an error."""
    kinds = {f.name: f.dataType for f in wanted.fields}
    read = {f.name: f.dataType for f in rows.schema.fields}
    if not any(kind != read[name] for name, kind in kinds.items()):
        return rows
    columns = [_cast(F.col(quote(name)), name, kind, kinds.get(name, kind)) for name, kind in read.items()]
    return rows.select(*(column.alias(name) for column, name in zip(columns, read, strict=True)))


def _cast(column: Column, name: str, read: DataType, wanted: DataType) -> Column:
    match read, wanted:
        case _ if read == wanted:
            return column
        case StructType(), StructType():
            pairs = zip(read.fields, wanted.fields, strict=True)
            parts = [
                _cast(column.getField(f.name), f"{name}.{f.name}", f.dataType, kind.dataType).alias(f.name)
                for f, kind in pairs
            ]
            return F.when(column.isNotNull(), F.struct(*parts))
        case ArrayType(), ArrayType():
            return F.transform(column, lambda item: _cast(item, name, read.elementType, wanted.elementType))
        case MapType(), MapType():
            return F.transform_values(column, lambda _, item: _cast(item, name, read.valueType, wanted.valueType))
        case _:
            return _cast_exactly(column, name, wanted)


def _cast_exactly(text: Column, name: str, kind: DataType) -> Column:
    wrong = F.concat(F.lit(f"{name} is {kind.simpleString()}, and a row has "), text)
    return F.when(text.isNull() | is_value(text, kind), text.try_cast(kind)).otherwise(F.raise_error(wrong))


def columns_misread(texts: DataFrame, found: StructType) -> list[str]:
    """The columns whose types were found by Spark, with texts that say more: 00123 is no number, 9:30 no moment."""
    seen = texts.select(*(F.max(misread(F.col(quote(name)), found[name].dataType)) for name in texts.columns)).first()
    return [name for name, is_seen in zip(texts.columns, seen or (), strict=True) if is_seen]
