"""Cursor values between Spark and Python: exact to the microsecond, whatever zone either runs in."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql import types as t

from tidemill.declare.cursors import Cursor, CursorKind
from tidemill.errors import ArgumentError

if TYPE_CHECKING:
    from pyspark.sql import Column

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KINDS: tuple[tuple[tuple[type[t.DataType], ...], CursorKind], ...] = (
    ((t.DateType,), CursorKind.DATE),
    ((t.TimestampType,), CursorKind.TIMESTAMP),
    ((t.TimestampNTZType,), CursorKind.TIMESTAMP_NTZ),
    ((t.ByteType, t.ShortType, t.IntegerType, t.LongType), CursorKind.INTEGER),
    ((t.DecimalType,), CursorKind.DECIMAL),
    ((t.StringType, t.VarcharType, t.CharType), CursorKind.STRING),
)


def kind_of(column: t.DataType) -> CursorKind | None:
    """The kind of cursor that a column can be, or None for one that has no exact order."""
    return next((kind for types, kind in _KINDS if isinstance(column, types)), None)


def time_kind(column: str, kind: t.DataType, table: str) -> CursorKind:
    found = kind_of(kind)
    if found is None:
        raise ArgumentError(
            "window.bad_time_column",
            f"{table}: a {kind.simpleString()} column cannot order rows in time, and {column} is one.",
            "Use a date, a timestamp, a whole number, a decimal or a string column.",
        )
    return found


def exact(column: Column, kind: CursorKind) -> Column:
    """The column in a form that reaches Python without loss."""
    match kind:
        case CursorKind.TIMESTAMP:
            return F.unix_micros(column)
        case CursorKind.DATE:
            return F.unix_date(column)
        case CursorKind.TIMESTAMP_NTZ:
            return column.cast("string")
        case _:
            return column


def decoded(value: Any, kind: CursorKind) -> Cursor | None:
    """A value collected by `exact`, or None for NULL and for times that Python cannot hold."""
    if value is None:
        return None
    try:
        return Cursor(kind, _python(value, kind))
    except (ValueError, OverflowError):
        return None


def _python(value: Any, kind: CursorKind) -> date | datetime | int | Decimal | str:
    match kind:
        case CursorKind.TIMESTAMP:
            return _EPOCH + timedelta(microseconds=value)
        case CursorKind.DATE:
            return (_EPOCH + timedelta(days=value)).date()
        case CursorKind.TIMESTAMP_NTZ:
            return datetime.fromisoformat(value)
        case CursorKind.INTEGER:
            return int(value)
        case CursorKind.DECIMAL:
            return Decimal(value)
        case CursorKind.STRING:
            return str(value)


def highest(value: Any, kind: CursorKind) -> Cursor | None:
    """The highest value of a column; one beyond what Python can hold is the last moment that it can."""
    found = decoded(value, kind)
    if found is not None or value is None:
        return found
    last = {
        CursorKind.DATE: date.max,
        CursorKind.TIMESTAMP: datetime.max.replace(tzinfo=UTC),
        CursorKind.TIMESTAMP_NTZ: datetime.max,  # noqa: DTZ901  it has no zone
    }
    return Cursor(kind, last[kind])
