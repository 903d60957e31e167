"""Fewer columns and fewer rows of a frame, lazily."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.declare.names import quote, spelled
from tidemill.errors import ConnectorError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from tidemill.declare.cursors import Cursor


def picked(rows: DataFrame, columns: Sequence[str], source: object) -> DataFrame:
    """These columns as the rows spell them, or all where none are named; one that is not there is an error."""
    if not columns:
        return rows
    return rows.select(*(quote(spelling(name, rows.columns, source)) for name in columns))


def since(rows: DataFrame, column: str, value: Cursor, source: object) -> DataFrame:
    """The rows at or above the value, and those without one; Spark hands that on to what can skip by it."""
    name = quote(spelling(column, rows.columns, source))
    return rows.where(f"{name} >= {value.literal()} OR {name} IS NULL")


def spelling(name: str, columns: Sequence[str], source: object) -> str:
    found = spelled(name, columns)
    if found is None:
        close = did_you_mean(name, columns)
        raise ConnectorError(
            "source.no_column",
            f"The source {source} has no column {name}.",
            f"Did you mean {close}?" if close else f"It has {', '.join(columns)}.",
        )
    return found
