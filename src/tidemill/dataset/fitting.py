"""Rows of a file as a dataset has them. Goes to Spark's workers by value, so it imports nothing of Tidemill's."""

from __future__ import annotations

import pyarrow as pa


def fitted(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with just these columns and types, found by name without case; a column that they lack is NULL."""
    places = {name.lower(): place for place, name in enumerate(rows.column_names)}
    columns = [
        rows.column(places[field.name.lower()]).cast(field.type)
        if field.name.lower() in places
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)
