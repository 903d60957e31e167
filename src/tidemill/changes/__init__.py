"""Fits the columns of a change to the table's: by name without case, cast where nothing is lost; and what all ways of
entering a table say alike.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as t
from pyspark.sql.types import StringType

from tidemill.errors import ArgumentError, SchemaError, TableError, did_you_mean
from tidemill.model import quote, spelled
from tidemill.model.table import SchemaPolicy, schema_changed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField, StructType

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

_CHAR = re.compile(r"char\((\d+)\)")
_NO_PARTITIONS = ("", "__HIVE_DEFAULT_PARTITION__")


@dataclass(frozen=True, slots=True)
class Fit:
    """How the columns of a change lie to the table's."""

    shared: tuple[str, ...]
    added: tuple[StructField, ...]
    missing: tuple[str, ...]


def unambiguous(rows: DataFrame, name: str) -> None:
    """Two columns whose names differ only in case cannot be distinguished."""
    seen: dict[str, str] = {}
    for column in rows.columns:
        twin = seen.get(column.lower())
        if twin is not None:
            raise SchemaError(
                "schema.ambiguous_columns",
                f"The source of {name} has two columns of one name: {twin} and {column}.",
                "Rename one of them; names are matched without case.",
            )
        seen[column.lower()] = column


def align(rows: DataFrame, table: StructType, policy: SchemaPolicy, name: str) -> tuple[DataFrame, Fit]:
    """The rows with the table's spelling, order and types; new columns last, as the policy allows.

    Columns that the rows lack are left out: a merge keeps what the table holds in them.
    """
    fit = _fit(rows.schema, table)
    if _columns(rows.schema) == _columns(table):
        return rows, fit
    _check_types(rows.schema, table, name)
    if policy is SchemaPolicy.FAIL and (fit.added or fit.missing):
        added = [f"{field.name} ({field.dataType.simpleString()})" for field in fit.added]
        raise schema_changed(name, added, fit.missing)
    if policy is SchemaPolicy.IGNORE:
        fit = Fit(fit.shared, (), fit.missing)
    columns = [_cast(rows.schema, table[column]) for column in fit.shared]
    return rows.select(*columns, *(F.col(quote(field.name)) for field in fit.added)), fit


def widened(rows: DataFrame, like: StructType) -> DataFrame:
    """The rows with NULL in the columns of `like` that they lack, in its order; other columns go."""
    present = [field.name for field in rows.schema.fields]
    return rows.select(
        *[
            F.col(quote(field.name)) if field.name in present else F.lit(None).cast(field.dataType).alias(field.name)
            for field in like.fields
        ]
    )


def as_stored(rows: DataFrame, table: StructType | None, partitions: Iterable[str]) -> DataFrame:
    """The rows as the table will give them back.

    A CHAR is as long as its type says, and of the names of partitions an empty one stands for no value.
    """
    lengths = {field.name.lower(): char_length(field) for field in table.fields} if table else {}
    named = {name.lower() for name in partitions}
    texts = [field.name for field in rows.schema.fields if isinstance(field.dataType, StringType)]
    changed = {name for name in texts if lengths.get(name.lower()) or name.lower() in named}

    def stored(name: str) -> Column:
        column = F.col(quote(name))
        if name not in changed:
            return column
        padded = _padded(column, lengths.get(name.lower(), 0))
        value = F.when(~padded.isin(*_NO_PARTITIONS), padded) if name.lower() in named else padded
        return value.alias(name, metadata=rows.schema[name].metadata)  # such as a comment

    return rows.select(*map(stored, rows.columns)) if changed else rows


def char_length(field: StructField) -> int:
    """Of a column that is a string to Spark and a CHAR to its table; 0 of others."""
    found = _CHAR.fullmatch(str(field.metadata.get("__CHAR_VARCHAR_TYPE_STRING", "")))
    return int(found[1]) if found else 0


def require(columns: Iterable[str], there: Sequence[str], what: str, where: str) -> tuple[str, ...]:
    """The spelling that `there` has for these columns; one that is not there is an error that lists what is."""
    found = []
    for column in columns:
        spelling = spelled(column, there)
        if spelling is None:
            raise ArgumentError(
                "columns.missing",
                f"{what} {column!r} is not a column of {where}.",
                _listed(there, column),
            )
        found.append(spelling)
    return tuple(found)


def _listed(there: Sequence[str], wanted: str) -> str:
    close = did_you_mean(wanted, there)
    listed = f"It has: {', '.join(there)}." if there else "It has no columns."
    return f"Did you mean {close}? {listed}" if close else listed


def _columns(schema: StructType) -> list[tuple[str, object]]:
    return [(field.name, field.dataType) for field in schema.fields]


def _fit(source: StructType, table: StructType) -> Fit:
    names = [field.name for field in table.fields]
    theirs = [field.name for field in source.fields]
    return Fit(
        shared=tuple(column for column in names if spelled(column, theirs)),
        added=tuple(field for field in source.fields if not spelled(field.name, names)),
        missing=tuple(column for column in names if not spelled(column, theirs)),
    )


def _cast(source: StructType, wanted: StructField) -> Column:
    name = spelled(wanted.name, [field.name for field in source.fields])
    assert name is not None  # noqa: S101  `shared` holds only names that both sides have
    return conformed(F.col(quote(name)), source[name].dataType, wanted.dataType).alias(wanted.name)


def _padded(column: Column, length: int) -> Column:
    text = F.rtrim(column)
    return F.when(F.length(text) <= length, F.rpad(text, length, " ")).otherwise(column) if length else column


def _check_types(source: StructType, table: StructType, name: str) -> None:
    wrong = []
    for field in source.fields:
        ours = spelled(field.name, [f.name for f in table.fields])
        if ours and not fits(field.dataType, table[ours].dataType):
            wrong.append(f"{ours} is {table[ours].dataType.simpleString()}, not {field.dataType.simpleString()}")
    if wrong:
        raise SchemaError(
            "schema.incompatible_types",
            f"The rows do not fit the columns of {name}: {'; '.join(wrong)}.",
            "Cast them in the source; only casts that lose nothing are made for you. The table is unchanged.",
        )


EMPTIED = ("the source is empty, and so is the table now",)
ALL_COUNTS = frozenset({"inserted", "updated", "deleted", "unchanged", "ignored"})


def refuse_shrink(share: float, dropped: int, held: int, name: str) -> None:
    """Raises when a commit would drop more than `share` of the rows."""
    if held and dropped / held > share:
        raise TableError(
            "table.max_shrink",
            f"{name} would lose {dropped:,} of its {held:,} rows, more than max_shrink = {share:g} allows.",
            f"Look at the source; if it is right, raise max_shrink for this run. {name} is unchanged.",
        )
