"""One pass over a change that tells all that is needed to check it and to prune by it; cursor values exact."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql import types as t

from tidemill.changes.compare import needs_form
from tidemill.errors import ArgumentError
from tidemill.formats.base import KeyRange, Profile
from tidemill.model import quote
from tidemill.model.cursor import Cursor, CursorKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, Row

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


SHORT_LIST = 20
_PACKED = {CursorKind.INTEGER, CursorKind.DATE}


@dataclass(frozen=True, slots=True)
class Ranged:
    """A column whose lowest and highest value are looked for; its values too, where `listed`."""

    column: str
    kind: CursorKind
    listed: bool = False


def profile(
    rows: DataFrame,
    *,
    keys: Sequence[str] = (),
    time_column: str | None = None,
    listed: Sequence[str] = (),
    measured: bool = False,
) -> Profile:
    """The profile of a change, in one Spark job. `listed` are keys whose few values are worth listing.

    With `measured` it tells how long the texts are.
    """
    _check_keys(rows, keys)
    time = _time(rows, time_column)
    ranged = [Ranged(key, kind, key in listed) for key in keys if (kind := kind_of(rows.schema[key].dataType))]
    octets = _octets(rows) if measured else F.lit(None).cast("bigint")
    found = (_by_key(rows, keys, time, ranged, octets) if keys else _whole(rows, time, octets)).first()
    assert found is not None  # noqa: S101  a global aggregate has one row
    return Profile(
        rows=found["n"] or 0,
        keys=found["k"] or 0,
        null_keys=found["null_keys"] or 0,
        null_times=found["null_times"] or 0,
        highest=highest(found["highest"], time[1]) if time else None,
        ranges=tuple(span for item in ranged if (span := range_of(found, item))),
        octets=(found["octets"] or 0) if measured else None,
    )


def _check_keys(rows: DataFrame, keys: Sequence[str]) -> None:
    for key in keys:
        if needs_form(kind := rows.schema[key].dataType):
            raise ArgumentError(
                "merge.bad_key",
                f"{key} is a {kind.simpleString()}, and keys with a map or a variant in them cannot be compared.",
                "Use columns of numbers, texts, dates or times as keys.",
            )


def _time(rows: DataFrame, column: str | None) -> tuple[str, CursorKind] | None:
    if column is None:
        return None
    kind = kind_of(rows.schema[column].dataType)
    assert kind is not None  # noqa: S101  the window was checked when it was planned
    return column, kind


def _octets(rows: DataFrame) -> Column:
    """How long the texts of a row are; other values are short, or nested and never measured."""
    texts = [field.name for field in rows.schema.fields if isinstance(field.dataType, t.StringType | t.BinaryType)]
    lengths = [F.coalesce(F.octet_length(F.col(quote(name))), F.lit(0)) for name in texts]
    return reduce(lambda a, b: a + b, lengths, F.lit(0).cast("bigint"))


def _whole(rows: DataFrame, time: tuple[str, CursorKind] | None, octets: Column) -> DataFrame:
    return rows.agg(
        F.count(F.lit(1)).alias("n"),
        F.lit(0).alias("k"),
        F.lit(0).alias("null_keys"),
        F.sum(octets).alias("octets"),
        *_time_columns(time),
    )


def _time_columns(time: tuple[str, CursorKind] | None) -> list[Column]:
    if time is None:
        return [F.lit(0).alias("null_times"), F.lit(None).alias("highest")]
    column = F.col(quote(time[0]))
    return [
        F.count_if(column.isNull()).alias("null_times"),
        exact(F.max(column), time[1]).alias("highest"),
    ]


def _by_key(
    rows: DataFrame,
    keys: Sequence[str],
    time: tuple[str, CursorKind] | None,
    ranged: Sequence[Ranged],
    octets: Column,
) -> DataFrame:
    """Two aggregations in one job: first by key, so that duplicates are counted exactly, then over all."""
    packed = next((item for item in ranged if item.kind in _PACKED and not item.listed), None)
    groups = {key: quote(key) for key in keys if packed is None or key != packed.column}
    by_key = rows.groupBy(*groups.values(), *_group(packed)).agg(
        F.count(F.lit(1)).alias("__n"), F.sum(octets).alias("__octets"), *_time_parts(time), *_bits(packed)
    )
    no_key = [F.col(name).isNull() for name in (*groups.values(), *(["__group"] if packed else []))]
    return by_key.agg(
        F.sum("__n").alias("n"),
        F.sum(F.bit_count("__bits") if packed else F.lit(1)).alias("k"),
        F.sum(F.when(reduce(lambda a, b: a | b, no_key), F.col("__n"))).alias("null_keys"),
        F.sum("__null_times").alias("null_times"),
        F.sum("__octets").alias("octets"),
        exact(F.max("__highest"), time[1]).alias("highest") if time else F.lit(None).alias("highest"),
        *[part for item in ranged for part in (_packed_range(item) if item is packed else range_columns(item))],
    )


def _group(packed: Ranged | None) -> list[Column]:
    """Whole numbers are grouped by sixty-fours, with a bit for each.

    Keys that count up, as most do, are so distinguished by a sixty-fourth of the groups.
    """
    return [F.shiftright(_number(packed), 6).alias("__group")] if packed else []


def _bits(packed: Ranged | None) -> list[Column]:
    if packed is None:
        return []
    place = _number(packed).bitwiseAND(F.lit(63)).cast("int")
    return [F.bit_or(F.call_function("shiftleft", F.lit(1).cast("bigint"), place)).alias("__bits")]


def _packed_range(packed: Ranged) -> list[Column]:
    """The lowest and highest number, by the lowest and highest bit of each group."""
    bits, first = F.col("__bits"), F.col("__group") * 64
    below = F.bit_count(F.bitwise_not(bits).bitwiseAND(bits - 1))
    lowest = F.when(bits == F.lit(-(2**63)), 63).otherwise(below)  # minus one is no number there
    highest = F.when(bits < 0, 63).otherwise(F.length(F.bin(bits)) - 1)
    return [
        F.min(first + lowest).alias(f"low {packed.column}"),
        F.max(first + highest).alias(f"high {packed.column}"),
    ]


def _number(packed: Ranged) -> Column:
    return exact(F.col(quote(packed.column)), packed.kind).cast("bigint")


def _time_parts(time: tuple[str, CursorKind] | None) -> list[Column]:
    if time is None:
        return [F.lit(0).alias("__null_times")]
    column = F.col(quote(time[0]))
    return [F.count_if(column.isNull()).alias("__null_times"), F.max(column).alias("__highest")]


def range_columns(item: Ranged) -> list[Column]:
    """Aggregates over a column, from which `range_of` takes its range."""
    column = F.col(quote(item.column))
    spans = [
        exact(F.min(column), item.kind).alias(f"low {item.column}"),
        exact(F.max(column), item.kind).alias(f"high {item.column}"),
    ]
    if not item.listed:
        return spans
    values = F.transform(F.collect_set(column), lambda value: exact(value, item.kind))
    return [*spans, F.slice(values, 1, SHORT_LIST + 1).alias(f"list {item.column}")]


def range_of(found: Row, item: Ranged) -> KeyRange | None:
    low, high = (decoded(found[f"{end} {item.column}"], item.kind) for end in ("low", "high"))
    if low is None or high is None:
        return None
    values = [decoded(value, item.kind) for value in found[f"list {item.column}"]] if item.listed else []
    short = tuple(value for value in values if value is not None) if len(values) <= SHORT_LIST else ()
    return KeyRange(item.column, low, high, short)
