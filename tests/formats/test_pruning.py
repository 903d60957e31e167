"""The log's statistics tell which files can hold a key; a file that can is never left out."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest

from tidemill import Cursor
from tidemill.formats.base import KeyRange
from tidemill.formats.delta.log import DeltaLog
from tidemill.results import CursorKind

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

LONG = "x" * 50  # Delta keeps 32 characters of it
KEYS = {
    "bigint": (CursorKind.INTEGER, [1, 2], [8, 9], 5),
    "date": (CursorKind.DATE, [date(2024, 1, 1)], [date(2024, 3, 1)], date(2024, 2, 1)),
    "decimal": (CursorKind.DECIMAL, [Decimal("1.50")], [Decimal("9.25")], Decimal("5.00")),
    "string": (CursorKind.STRING, ["a", LONG], ["y", "z"], "xy"),
    "timestamp": (
        CursorKind.TIMESTAMP,
        [datetime(2024, 1, 1, 10, 0, 0, 123456, UTC)],
        [datetime(2024, 1, 1, 12, 0, 0, 999999, UTC)],
        datetime(2024, 1, 1, 11, tzinfo=UTC),
    ),
}


@pytest.mark.parametrize("kind", KEYS)
def test_a_key_reaches_the_file_that_holds_it_and_no_other(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    cursor, first, second, between = KEYS[kind]
    path = str(tmp_path / "table")
    for values in (first, second):
        rows = spark.createDataFrame(pa.table({"a key": values}))
        writer = rows.coalesce(1).write.format("delta").option("delta.columnMapping.mode", "name")
        writer.mode("append").save(path)
    log = DeltaLog(path)
    assert [log.reach([_at(cursor, value)]).files for value in (*first, *second)] == [1] * len([*first, *second])
    assert log.reach([_at(cursor, between)]).files == 0
    whole = log.reach([KeyRange("A KEY", Cursor(cursor, first[0]), Cursor(cursor, second[-1]))])
    assert whole.files == 2
    assert whole.size > 0


def test_a_file_whose_dates_python_cannot_hold_may_hold_any(tmp_path: Path) -> None:
    days = pa.array([-1_000_000, 3_000_000], pa.int32()).cast(pa.date32())  # before the year 1, and after 9999
    deltalake.write_deltalake(tmp_path, pa.table({"a key": days}))
    assert DeltaLog(str(tmp_path)).reach([_at(CursorKind.DATE, date(2024, 1, 1))]).files == 1


def _at(kind: CursorKind, value: Any) -> KeyRange:
    return KeyRange("a key", Cursor(kind, value), Cursor(kind, value))
