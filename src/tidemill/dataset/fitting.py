"""Rows of a file as a dataset has them. Goes to Spark's workers by value, so it imports nothing of Tidemill's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

_SPARKS_COLUMNS = b"org.apache.spark.sql.parquet.row.metadata"  # those of one file, which Spark believes


def fitted(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with just these columns and types, found by name without case; a column that they lack is NULL."""
    places = {name.lower(): place for place, name in enumerate(rows.column_names)}
    columns = [
        _cast(rows.column(places[field.name.lower()]), field)
        if field.name.lower() in places
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _cast(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    try:
        return column.cast(field.type)
    except pa.ArrowInvalid as failure:
        problem = f"{field.name} is kept as {field.type}, which has no room for a value: {failure}"
        raise pa.ArrowInvalid(problem) from failure


def unified(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """A schema for the rows of all these files: the columns of the first, and behind them those that only others have.

    A column of which files have unlike types gets one that holds the values of both, where there is one.
    """
    if all(schema.equals(schemas[0]) for schema in schemas):
        return schemas[0]
    found: dict[str, pa.Field] = {}
    for field in (field for schema in schemas for field in schema):
        known = found.setdefault(field.name.lower(), field)
        found[field.name.lower()] = known.with_type(_common(known.type, field.type)).with_nullable(nullable=True)
    noted = {name: text for name, text in (schemas[0].metadata or {}).items() if name != _SPARKS_COLUMNS}
    return pa.schema(list(found.values()), noted)


def optional(schema: pa.Schema) -> pa.Schema:
    """The schema with columns that may all be NULL."""
    return pa.schema([field.with_nullable(nullable=True) for field in schema], schema.metadata)


def has_room(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of the wanted type keep all fields and digits in this one, however deep they lie."""
    if pa.types.is_null(kind):
        return bool(pa.types.is_null(wanted))
    if pa.types.is_struct(kind) and pa.types.is_struct(wanted):
        ours = {field.name.lower(): field.type for field in kind}
        return all(item.name.lower() in ours and has_room(ours[item.name.lower()], item.type) for item in wanted)
    if any(is_a(kind) and is_a(wanted) for is_a in (pa.types.is_signed_integer, pa.types.is_floating)):
        return bool(kind.bit_width >= wanted.bit_width)
    if pa.types.is_decimal(kind) and pa.types.is_decimal(wanted):
        return bool(kind.scale >= wanted.scale and kind.precision - kind.scale >= wanted.precision - wanted.scale)
    if pa.types.is_map(kind) and pa.types.is_map(wanted):
        return has_room(kind.key_type, wanted.key_type) and has_room(kind.item_type, wanted.item_type)
    if _is_list(kind) and _is_list(wanted):
        return has_room(kind.value_type, wanted.value_type)
    return True


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _common(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The first type where nothing better is known: a value that does not fit it is an error once it is cast."""
    one, other = (kind.value_type if pa.types.is_dictionary(kind) and one != other else kind for kind in (one, other))
    try:
        both = [pa.schema([("it", kind)]) for kind in (one, other)]
        common = pa.unify_schemas(both, promote_options="permissive").field(0).type
    except pa.ArrowException:
        return one
    rounds = pa.types.is_floating(common) and not all(map(_is_float_or_null, (one, other)))
    return one if rounds else common


def _is_float_or_null(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_null(kind))
