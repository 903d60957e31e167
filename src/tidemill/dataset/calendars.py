"""Days before 1582, which Spark before 3.0, and later ones with that setting, count in the calendar of that time.

They say so in the file, and Arrow does not know of it. Goes to Spark's workers by value.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Mapping

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
