"""Few rows go to Spark as they are, more by way of files, and nobody sees the difference."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidemill.sources import Reading, frames
from tidemill.sources.frames import Batches

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from pyspark.sql import SparkSession

SCHEMA = """id BIGINT NOT NULL, n INT, x DOUBLE, amount DECIMAL(18, 2), name STRING, day DATE, at TIMESTAMP,
            local TIMESTAMP_NTZ, ok BOOLEAN, raw BINARY, tags ARRAY<STRING>, place STRUCT<a: INT, b: STRING>"""
FULL = {
    "id": 1,
    "n": -7,
    "x": 0.1,
    "amount": Decimal("12.34"),
    "name": "Zoë",
    "day": date(1900, 1, 1),
    "at": datetime(2026, 2, 4, 23, 59, 59, 999_999, tzinfo=UTC),
    "local": datetime.fromisoformat("2026-02-04T23:59:59.999999"),
    "ok": True,
    "raw": b"\0\1",
    "tags": ["a", None],
    "place": {"a": 1, "b": None},
}


def test_few_rows_and_many_are_the_same(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    like = spark.createDataFrame([], SCHEMA).schema
    rows: list[dict[str, Any]] = [FULL, {**dict.fromkeys(FULL), "id": 2}]

    def given(most: int) -> tuple[list[tuple[str, str]], list[Any]]:
        monkeypatch.setattr(frames, "FEW", most)
        (folder := tmp_path / str(most)).mkdir()
        found = Batches(Reading(spark, like), folder)
        for row in rows:
            found.add_records([row])
        assert found.few == bool(most)
        frame = found.rows()
        assert frame is not None
        assert frame.schema == like.fromJson({**like.jsonValue(), "fields": _nullable(like)})
        return frame.dtypes, sorted(frame.collect())

    assert given(0) == given(1_000_000)


def test_rows_of_other_types_than_the_table_has_are_not_few(spark: SparkSession, tmp_path: Path) -> None:
    like = spark.createDataFrame([], "id BIGINT, n INT").schema
    for odd in ({"n": ["one"]}, {"N": [1], "m": [2]}, {"id": pa.array(["1"]).dictionary_encode()}):
        found = Batches(Reading(spark, like), tmp_path)
        found.add_table(pa.table(odd))
        assert not found.few
    nothing = Batches(Reading(spark, like), tmp_path)
    assert not nothing.few


def _nullable(schema: Any) -> list[Any]:
    return [{**field, "nullable": True} for field in schema.jsonValue()["fields"]]
