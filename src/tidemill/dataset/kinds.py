"""The types of a file's columns as its rows are worked on and written again. Goes to Spark's workers by value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator


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
