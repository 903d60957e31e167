"""What a function gives, as one frame under its declared schema; what does not fit is reported by row and column."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type

from tidemill.changes import fits, unambiguous
from tidemill.errors import SchemaError, SourceError
from tidemill.model import quote, spelled
from tidemill.model.table import SchemaPolicy
from tidemill.sources.frames import Batches, as_arrow, is_spark_frame

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from tidemill.sources import Reading

_MISFITS = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, ValueError, TypeError)
_NUMBERS = (t.ByteType, t.ShortType, t.IntegerType, t.LongType, t.FloatType, t.DoubleType, t.DecimalType)
_TRUE = {"true": True, "false": False}
_SHOWN = 3


class Typed:
    """Fits what a function gives to its declared columns. A column that the rows lack is NULL in all of them."""

    def __init__(self, schema: t.StructType, policy: SchemaPolicy, teller: str) -> None:
        self.schema, self.policy, self.teller = schema, policy, teller

    def records(self, records: Sequence[Mapping[str, Any]]) -> pa.Table:
        """A list of dicts; fields may be missing."""
        names = list(dict.fromkeys(name for record in records for name in record))
        return self._table({name: [record.get(name) for record in records] for name in names}, records)

    def table(self, table: pa.Table) -> pa.Table:
        """An Arrow table, whose columns are cast where nothing is lost."""
        with contextlib.suppress(*_MISFITS):
            return self._cast(table)
        return self.records(table.to_pylist())

    def frame(self, frame: DataFrame) -> DataFrame:
        """A Spark frame; columns whose types do not fit are looked through."""
        unambiguous(frame, self.teller)
        self._check_names(frame.columns, lambda name: _first_of(frame, name))
        bad = {field.name: found for field in self.schema.fields if (found := _misfit(frame, field)) is not None}
        if bad:
            self._check_frame(frame, bad)
        columns = [_as_declared(frame, field) for field in self.schema.fields]
        return frame.select(*columns, *(quote(name) for name in self._added(frame.columns)))

    # what comes as Python values

    def _table(self, values: Mapping[str, list[Any]], records: Sequence[Mapping[str, Any]]) -> pa.Table:
        self._check_names(list(values), lambda name: next(n for n, each in enumerate(records, 1) if name in each))
        found: dict[str, pa.Array] = {}
        for field in self.schema.fields:
            name = spelled(field.name, values)
            column = values[name] if name else [None] * len(records)
            found[field.name] = self._column(field, column, records)
        return pa.table(found | {name: pa.array(values[name]) for name in self._added(list(values))})

    def _column(self, field: t.StructField, values: list[Any], records: Sequence[Mapping[str, Any]]) -> pa.Array:
        kind = to_arrow_type(field.dataType, timestamp_utc=True)
        found = _plain(values, kind)
        if found is None:
            found = pa.array([self._value(field, kind, n, value, records) for n, value in enumerate(values)], kind)
        if not field.nullable and found.null_count:
            row = next(n for n, value in enumerate(found) if not value.is_valid)
            raise self._misfit(f"row {row + 1}", field, "NULL", records[row])
        return found

    def _value(
        self, field: t.StructField, kind: pa.DataType, row: int, value: Any, records: Sequence[Mapping[str, Any]]
    ) -> Any:
        try:
            fitting = _read(value, kind)
            pa.array([fitting], kind)
        except (*_MISFITS, InvalidOperation) as bad:
            raise self._misfit(f"row {row + 1}", field, _shown(value), records[row]) from bad
        return fitting

    # what comes as Arrow

    def _cast(self, table: pa.Table) -> pa.Table:
        self._check_names(table.column_names, lambda _: 1)
        found: dict[str, Any] = {}
        for field in self.schema.fields:
            kind = to_arrow_type(field.dataType, timestamp_utc=True)
            name = spelled(field.name, table.column_names)
            column = table[name].cast(kind, safe=True) if name else pa.nulls(table.num_rows, kind)
            cuts = name and pa.types.is_timestamp(table.schema.field(name).type) and pa.types.is_date(kind)
            if cuts or (not field.nullable and column.null_count):
                raise ValueError(field.name)  # row by row it is reported, or found to be right
            found[field.name] = column
        return pa.table(found | {name: table[name] for name in self._added(table.column_names)})

    # what comes as Spark's

    def _check_frame(self, frame: DataFrame, bad: Mapping[str, Column]) -> None:
        numbered = [F.when(condition, F.lit(name)) for name, condition in bad.items()]
        found = frame.withColumn("__tidemill_misfit", F.coalesce(*numbered)).where("__tidemill_misfit IS NOT NULL")
        for row in found.limit(1).collect():
            record = row.asDict()
            field = self.schema[record.pop("__tidemill_misfit")]
            value = record.get(spelled(field.name, frame.columns) or "")
            raise self._misfit("a row", field, _shown(value), record)

    # columns that are not declared

    def _added(self, names: Sequence[str]) -> list[str]:
        if self.policy in {SchemaPolicy.FAIL, SchemaPolicy.IGNORE}:
            return []
        return [name for name in names if spelled(name, self.schema.names) is None]

    def _check_names(self, names: Sequence[str], row_of: Any) -> None:
        more = [name for name in names if spelled(name, self.schema.names) is None]
        if more and self.policy is SchemaPolicy.FAIL:
            raise SchemaError(
                "schema.undeclared_column",
                f"Row {row_of(more[0])} of what {self.teller} gave has {more[0]}, which its schema does not.",
                'Declare it, or say on_schema_change="ignore" or "append_new_columns". The table is unchanged.',
            )

    def _misfit(self, row: str, field: t.StructField, value: str, record: Mapping[str, Any]) -> SchemaError:
        told = ", ".join(f"{name}={_shown(each)}" for name, each in list(record.items())[:_SHOWN] if name != field.name)
        kind = field.dataType.simpleString().upper() + ("" if field.nullable else " NOT NULL")
        return SchemaError(
            "schema.misfit",
            f"{row[:1].upper()}{row[1:]} of what {self.teller} gave has {value} in {field.name}, which is {kind}"
            f"{f' ({told})' if told else ''}.",
            "Give a value of that type, or declare another one. The table is unchanged.",
        )


def _shown(value: Any) -> str:
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, date | int | float | Decimal) else repr(value)


def _first_of(frame: DataFrame, name: str) -> int:  # noqa: ARG001  every row of a frame has all columns
    return 1


def _plain(values: list[Any], kind: pa.DataType) -> pa.Array | None:
    """The values as they are, where each is of this kind; Arrow would cut 1.5 to 1, and "ab" into letters."""
    cut = (float, Decimal, bool) if pa.types.is_integer(kind) else datetime if pa.types.is_date(kind) else str
    if not pa.types.is_string(kind) and any(isinstance(value, cut) for value in values):
        return None
    try:
        return pa.array(values, kind)
    except _MISFITS:
        return None


def _read(value: Any, kind: pa.DataType) -> Any:
    """The value as one of this kind, where it says the same in other words: JSON has no dates, for one."""
    if value is None or (isinstance(value, float) and math.isnan(value) and not pa.types.is_floating(kind)):
        return None
    if isinstance(value, str):
        return _parsed(value.strip(), value, kind)
    if isinstance(value, datetime) and pa.types.is_date(kind):
        return _whole_day(value)
    if isinstance(value, dict) and pa.types.is_map(kind):
        return list(value.items())
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return _number(value, kind)
    return value


def _parsed(text: str, value: str, kind: pa.DataType) -> Any:
    if pa.types.is_date(kind):
        return date.fromisoformat(text)
    if pa.types.is_timestamp(kind):
        return datetime.fromisoformat(text)
    if pa.types.is_integer(kind):
        return int(text)
    if pa.types.is_floating(kind):
        return float(text)
    if pa.types.is_decimal(kind):
        return Decimal(text)
    if pa.types.is_boolean(kind):
        return _TRUE.get(text.lower(), value)
    if pa.types.is_nested(kind):
        raise TypeError(kind)
    return value


def _whole_day(moment: datetime) -> date:
    if moment.time() != time():
        raise ValueError(moment)
    return moment.date()


def _number(value: float | Decimal, kind: pa.DataType) -> Any:
    if pa.types.is_string(kind):
        return str(value)
    if pa.types.is_decimal(kind):
        return Decimal(str(value))
    if pa.types.is_integer(kind):
        if value != int(value):
            raise ValueError(value)
        return int(value)
    return value


def _misfit(frame: DataFrame, field: t.StructField) -> Column | None:
    """The rows of a frame whose value the declared column cannot take; None where its type says that all fit."""
    name = spelled(field.name, frame.columns)
    if name is None:
        return F.lit(True) if not field.nullable else None  # noqa: FBT003
    column, held = F.col(quote(name)), frame.schema[name].dataType
    never_null = column.isNull() if not field.nullable else None
    if fits(held, field.dataType) or isinstance(field.dataType, t.StringType):
        return never_null
    there = F.expr(f"try_cast({quote(name)} AS {field.dataType.simpleString()})")
    lost = there.isNull()
    if isinstance(held, _NUMBERS) and isinstance(field.dataType, _NUMBERS):
        lost = ~there.try_cast(held).eqNullSafe(column)
    bad = column.isNotNull() & lost
    return bad if never_null is None else bad | never_null


def _as_declared(frame: DataFrame, field: t.StructField) -> Column:
    name = spelled(field.name, frame.columns)
    column = F.col(quote(name)) if name else F.lit(None)
    return column.cast(field.dataType).alias(field.name)


def rows_given(
    given: Iterable[Any],
    reading: Reading,
    folder: Path,
    *,
    teller: str,
    schema: StructType | None,
    policy: SchemaPolicy,
) -> DataFrame:
    """All that is given, computed and kept. `schema` is the declared one; `teller` is who gives, for errors.

    Nothing given has the columns of the schema, or of the table; where there is neither, it is an error.
    """
    batches = Batches(reading, folder)
    typed = Typed(schema, policy, teller) if schema is not None else None
    for each in given:
        _add(batches, each, typed, teller)
    rows = batches.rows()
    if rows is None:
        raise SchemaError(
            "functions.no_columns",
            f"{_begins(teller)} gave no rows, and there is no table yet, so nobody knows its columns.",
            'Declare them: schema="id BIGINT, day DATE", or give a frame that has columns.',
        )
    return batches.keep(rows)


def _add(batches: Batches, given: Any, typed: Typed | None, teller: str) -> None:
    if given is None:
        return
    if is_spark_frame(given):
        batches.add_frame(typed.frame(given) if typed else given)
    elif isinstance(given, list | tuple) and all(isinstance(each, Mapping) for each in given):
        records = [dict(each) for each in given]
        _add_records(batches, records, typed)
    elif (table := _arrow(given, typed)) is not None:
        batches.add_table(typed.table(table) if typed else table)
    elif hasattr(given, "to_dict"):
        _add_records(batches, given.astype(object).where(given.notna(), None).to_dict("records"), typed)
    else:
        raise SourceError(
            "functions.unknown_rows",
            f"{_begins(teller)} gave a {type(given).__name__}.",
            "Return or yield Spark, Arrow or pandas frames, or lists of dicts. The table is unchanged.",
        )


def _begins(teller: str) -> str:
    """As a sentence begins."""
    return teller[:1].upper() + teller[1:]


def _add_records(batches: Batches, records: list[dict[str, Any]], typed: Typed | None) -> None:
    if typed and records:
        batches.add_table(typed.records(records))
    elif records:
        batches.add_records(records)


def _arrow(given: Any, typed: Typed | None) -> pa.Table | None:
    """The frame as Arrow; None where it is none, or where its values are of several kinds and a schema may help."""
    try:
        return as_arrow(given)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        if typed is None:
            raise
        return None
