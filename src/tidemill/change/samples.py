"""A few values or rows as texts, for people to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as t

from tidemill.change.cursors import kind_of
from tidemill.declare.names import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame

    Writing = Callable[[t.StructType, Sequence[str | None]], str]

SHOWN = 5
_LONGEST = 60
_ORDER = "__tidemill_order"


def samples(rows: DataFrame, columns: Sequence[str], write: Writing) -> tuple[tuple[str, ...], bool]:
    """The first few of what these columns hold, each once, and whether there are more."""
    schema = t.StructType([rows.schema[column] for column in columns])
    texts = [F.col(quote(field.name)).cast("string").alias(f"t{n}") for n, field in enumerate(schema.fields)]
    order = F.min(F.struct(*[_ordered(field) for field in schema.fields])).alias(_ORDER)
    found = rows.groupBy(*texts).agg(order).orderBy(_ORDER).limit(SHOWN + 1).collect()
    written = tuple(write(schema, [row[f"t{n}"] for n in range(len(columns))]) for row in found)
    return written[:SHOWN], len(written) > SHOWN


def as_value(schema: t.StructType, texts: Sequence[str | None]) -> str:
    """17, 'eu', or several as (17, 'eu')."""
    found = [_value(text, field) for text, field in zip(texts, schema.fields, strict=True)]
    return found[0] if len(found) == 1 else f"({', '.join(found)})"


def as_row(schema: t.StructType, texts: Sequence[str | None]) -> str:
    """id=17 region=eu"""
    return " ".join(f"{field.name}={_short(text)}" for text, field in zip(texts, schema.fields, strict=True))


def _ordered(field: t.StructField) -> Column:
    column = F.col(quote(field.name))
    return column if kind_of(field.dataType) else column.cast("string")


def _value(text: str | None, field: t.StructField) -> str:
    return repr(_short(text)) if text is not None and isinstance(field.dataType, t.StringType) else _short(text)


def _short(text: str | None) -> str:
    if text is None:
        return "NULL"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
