"""Fits the columns of a change to the table's: by name without case, cast where nothing is lost."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from tidemill.change.types import conformed, fits
from tidemill.declare.names import quote, spelled
from tidemill.declare.tables import SchemaPolicy
from tidemill.errors import ArgumentError, SchemaError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField, StructType


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
        raise _mismatch(fit, name)
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


def _mismatch(fit: Fit, name: str) -> SchemaError:
    parts = []
    if fit.added:
        parts.append(f"the source also has {', '.join(f'{f.name} ({f.dataType.simpleString()})' for f in fit.added)}")
    if fit.missing:
        parts.append(f"the source lacks {', '.join(fit.missing)}")
    rebuilt = "" if "/" in name else f", or rebuild the table with a run that has -s {name} --full-refresh"
    return SchemaError(
        "schema.changed",
        f"The columns of the source are not those of {name}: {'; '.join(parts)}.",
        "Set on_schema_change (of a merge: schema_policy) to ignore, append_new_columns or sync_all_columns"
        f"{rebuilt}. The table is unchanged.",
    )
