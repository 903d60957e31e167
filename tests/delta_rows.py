"""The rows of a Delta table as delta-rs reads them: without Spark, without our own code, and in milliseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path


def delta_table(path: str | Path, *columns: str) -> pa.Table:
    """All rows, in these columns or all."""
    held = QueryBuilder().register("held", DeltaTable(str(path))).execute("SELECT * FROM held").read_all()
    found = pa.table(held)
    return found.select(list(columns)) if columns else found


def delta_rows(path: str | Path, *columns: str) -> list[tuple[Any, ...]]:
    """All rows, with values as Spark's `collect` gives them."""
    found = delta_table(path, *columns)
    return list(zip(*(map(_as_spark(column.type), column.to_pylist()) for column in found.columns), strict=True))


def _as_spark(kind: pa.DataType) -> Callable[[Any], Any]:
    """How a value of Arrow becomes one of Spark's; NULL stays."""
    convert = _converted(kind)
    return lambda value: None if value is None else convert(value)


def _converted(kind: pa.DataType) -> Callable[[Any], Any]:
    if pa.types.is_struct(kind):
        fields = [(field.name, _as_spark(field.type)) for field in kind]
        return lambda value: tuple(of(value[name]) for name, of in fields)
    if pa.types.is_map(kind):
        key, item = _as_spark(kind.key_type), _as_spark(kind.item_type)
        return lambda value: {key(k): item(v) for k, v in value}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        each = _as_spark(kind.value_type)
        return lambda value: [each(one) for one in value]
    if pa.types.is_timestamp(kind) and kind.tz:
        return _local
    return lambda value: value


def _local(moment: datetime) -> datetime:
    return moment.astimezone().replace(tzinfo=None)
