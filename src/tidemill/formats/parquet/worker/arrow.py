"""Rows and types of Parquet files in Arrow: codecs, calendars, types to work on, rows fitted to a schema.

Sent to Spark's workers by value, so it imports nothing of Tidemill outside this package.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    import pyarrow.parquet as pq

USUAL = "snappy"


def codec_of(file: pq.FileMetaData) -> str:
    """The compression that a file has, by the name under which Arrow writes it."""
    if not file.num_row_groups or not file.num_columns:
        return USUAL
    group = file.row_group(0)
    found = {group.column(number).compression.lower() for number in range(group.num_columns)}
    kept = str(next(iter(found - {"uncompressed"}), "none"))
    return {"lzo": USUAL, "lz4_raw": "lz4"}.get(kept, kept)


_NOTES = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_VERSION = b"org.apache.spark.version"
_ALIKE_FROM = dt.date(1582, 10, 15)
_ALIKE_IN_ALL_ZONES_FROM = dt.datetime(1900, 1, 1)  # noqa: DTZ001  before, Spark's zones had other hours, too


def is_old(notes: Mapping[bytes, bytes] | None) -> bool:
    """Whether a file with these notes has its days in the old calendar."""
    found = notes or {}
    return any(note in found for note in _NOTES) or found.get(_VERSION, b"").startswith((b"1.", b"2."))


def without_notes(schema: pa.Schema) -> pa.Schema:
    """The schema of a file whose days are counted as everybody does today."""
    if not is_old(schema.metadata):
        return schema
    return schema.with_metadata({k: v for k, v in schema.metadata.items() if k not in (*_NOTES, _VERSION)})


def refuse_old_days(rows: pa.Table, notes: Mapping[bytes, bytes] | None, path: str) -> None:
    """An error where rows of a file hold a day that Arrow would read as another."""
    for name in rows.column_names if is_old(notes) else ():
        kind, lowest = rows.column(name).type, None
        if pa.types.is_date(kind):
            lowest, bound = pc.min(rows.column(name)), pa.scalar(_ALIKE_FROM)
        elif pa.types.is_timestamp(kind):
            lowest, bound = pc.min(rows.column(name)), pa.scalar(_ALIKE_IN_ALL_ZONES_FROM, pa.timestamp("us", kind.tz))
        if lowest is not None and lowest.is_valid and pc.less(lowest, bound).as_py():
            raise pa.ArrowInvalid(
                f"{path} was written by Spark in the calendar before 1582, and its {name} holds {lowest}, which would "
                "become another day; write the file again with a Spark whose datetimeRebaseModeInWrite is CORRECTED"
            )


def workable(schema: pa.Schema) -> pa.Schema:
    """The same columns in types of which Arrow can take, compare and add values; in a Parquet file they are alike.

    It only keeps views, and a dictionary of few numbers has no room for the words of a change.
    """
    return _with_types(schema, schema.names, _workable)


def only_int96(schema: pa.Schema, int96: Collection[str]) -> bool:
    """Whether no time of a file is of another kind; `int96` are the columns in which some are INT96."""
    times = [(kind, item.name in int96) for item in schema for kind in _times(item.type)]
    return all(inside and _is_int96(kind) for kind, inside in times)


def with_times(schema: pa.Schema, int96: Collection[str], *, old: bool) -> pa.Schema:
    """The columns with their times as they are written: as INT96 again, where they are `old`, or as instants.

    INT96 stands for an instant, and Arrow reads it as a time without a zone. Arrow writes all times of a file so, or
    none.
    """
    return _with_types(schema, int96, _in_micros if old else _instant)


def _with_types(schema: pa.Schema, names: Collection[str], leaf: Callable[[pa.DataType], pa.DataType]) -> pa.Schema:
    fields = [item.with_type(_mapped(item.type, leaf)) if item.name in names else item for item in schema]
    return pa.schema(fields, schema.metadata)


def _mapped(kind: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """The type with other ones at its ends, however deep they lie."""

    def inside(item: pa.Field) -> pa.Field:
        return item.with_type(_mapped(item.type, leaf))

    if pa.types.is_struct(kind):
        return pa.struct([inside(item) for item in kind])
    if pa.types.is_map(kind):
        return pa.map_(inside(kind.key_field), inside(kind.item_field))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(inside(kind.value_field), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(inside(kind.value_field))
    if pa.types.is_list(kind):
        return pa.list_(inside(kind.value_field))
    return leaf(kind)


def _times(kind: pa.DataType) -> Iterator[pa.DataType]:
    if pa.types.is_timestamp(kind):
        yield kind
    for number in range(kind.num_fields):
        yield from _times(kind.field(number).type)


def _workable(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return pa.dictionary(pa.int32(), _workable(kind.value_type), kind.ordered)
    return {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}.get(kind, kind)


def _instant(kind: pa.DataType) -> pa.DataType:
    return pa.timestamp("us", tz=kind.tz or "UTC") if _is_int96(kind) else kind


def _in_micros(kind: pa.DataType) -> pa.DataType:
    return pa.timestamp("us", tz=kind.tz) if _is_int96(kind) else kind


def _is_int96(kind: pa.DataType) -> bool:
    """In a column that has INT96, nanoseconds are that; Spark, which writes it, has no others."""
    return bool(pa.types.is_timestamp(kind) and kind.unit == "ns")


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
