"""Which types fit which: casts that cannot lose anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as t

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column

_INTEGERS = (t.ByteType, t.ShortType, t.IntegerType, t.LongType)
_DIGITS: dict[type[t.DataType], int] = {t.ByteType: 3, t.ShortType: 5, t.IntegerType: 10, t.LongType: 19}
_EXACT_IN_FLOAT = (t.ByteType, t.ShortType)
_EXACT_IN_DOUBLE = (t.ByteType, t.ShortType, t.IntegerType, t.FloatType)


def fits(source: t.DataType, target: t.DataType) -> bool:
    """Whether every value of `source` is the same value in `target`."""
    if isinstance(source, t.NullType) or _same(source, target):
        return True
    match source, target:
        case t.StructType(), t.StructType():
            return _struct_fits(source, target)
        case t.ArrayType(), t.ArrayType():
            return fits(source.elementType, target.elementType)
        case t.MapType(), t.MapType():
            return fits(source.keyType, target.keyType) and fits(source.valueType, target.valueType)
        case _:
            return any(rule(source, target) for rule in _RULES)


def conformed(column: Column, source: t.DataType, target: t.DataType) -> Column:
    """The column as `target`, which its type fits. Fields of structs keep their names: a cast goes by position."""
    match source, target:
        case _ if source == target:
            return column
        case t.StructType(), t.StructType():
            theirs = {field.name.lower(): field for field in source.fields}
            pairs = [(theirs[field.name.lower()], field) for field in target.fields]
            parts = [conformed(column.getField(s.name), s.dataType, w.dataType).alias(w.name) for s, w in pairs]
            return F.when(column.isNotNull(), F.struct(*parts))
        case t.ArrayType(), t.ArrayType():
            return F.transform(column, lambda item: conformed(item, source.elementType, target.elementType))
        case t.MapType(), t.MapType():
            keys = F.transform_keys(column, lambda key, _: conformed(key, source.keyType, target.keyType))
            return F.transform_values(keys, lambda _, item: conformed(item, source.valueType, target.valueType))
        case _:
            return column.cast(target)


def _same(source: t.DataType, target: t.DataType) -> bool:
    return type(source) is type(target) and (source == target or source.simpleString() == target.simpleString())


def _struct_fits(source: t.StructType, target: t.StructType) -> bool:
    theirs = {field.name.lower(): field.dataType for field in source.fields}
    ours = {field.name.lower(): field.dataType for field in target.fields}
    return theirs.keys() == ours.keys() and all(fits(theirs[name], ours[name]) for name in ours)


def _wider_integer(source: t.DataType, target: t.DataType) -> bool:
    return (
        type(source) in _INTEGERS
        and type(target) in _INTEGERS
        and _INTEGERS.index(type(source)) < _INTEGERS.index(type(target))
    )


def _integer_in_decimal(source: t.DataType, target: t.DataType) -> bool:
    return (
        type(source) in _DIGITS
        and isinstance(target, t.DecimalType)
        and target.precision - target.scale >= _DIGITS[type(source)]
    )


def _wider_decimal(source: t.DataType, target: t.DataType) -> bool:
    return (
        isinstance(source, t.DecimalType)
        and isinstance(target, t.DecimalType)
        and target.scale >= source.scale
        and target.precision - target.scale >= source.precision - source.scale
    )


def _wider_float(source: t.DataType, target: t.DataType) -> bool:
    in_double = isinstance(target, t.DoubleType) and isinstance(source, _EXACT_IN_DOUBLE)
    return in_double or (isinstance(target, t.FloatType) and isinstance(source, _EXACT_IN_FLOAT))


def _text(source: t.DataType, target: t.DataType) -> bool:
    """VARCHAR and CHAR are strings to Spark."""
    return isinstance(source, _TEXT) and isinstance(target, _TEXT)


_TEXT = (t.StringType, t.VarcharType, t.CharType)
_RULES: tuple[Callable[[t.DataType, t.DataType], bool], ...] = (
    _wider_integer,
    _integer_in_decimal,
    _wider_decimal,
    _wider_float,
    _text,
)
