"""One pass tells how many rows and keys a change has, and between which keys it lies, exactly."""

from __future__ import annotations

import datetime as dt
import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tidemill.changes.profile import profile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOW, HIGH = -(2**63), 2**63 - 1
DAY = dt.date(1970, 1, 1)
DRAW = random.Random(7)
KEYS: dict[str, list[int]] = {
    "keys that count up": list(range(1000)),
    "keys around zero": list(range(-130, 130)),
    "the ends of what a bigint holds": [LOW, LOW + 1, LOW + 63, LOW + 64, HIGH - 64, HIGH - 63, HIGH],
    "one key at the end of its group": [63],
    "one key at the start of its group": [-64],
    "keys far apart": [DRAW.randrange(LOW, HIGH) for _ in range(500)],
    "keys that come twice": [5, 5, 6, 69, 69, 70, -1, -1],
}


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_numbers_are_counted_and_bounded_exactly(spark: SparkSession, keys: list[int]) -> None:
    found = profile(spark.createDataFrame(pa.table({"k": pa.array(keys, pa.int64())})), keys=["k"])
    assert (found.rows, found.keys, found.null_keys) == (len(keys), len(set(keys)), 0)
    assert [(span.low.value, span.high.value) for span in found.ranges] == [(min(keys), max(keys))]


def test_composite_keys_of_dates_and_numbers_with_nulls(spark: SparkSession) -> None:
    days = [None, *(DAY + dt.timedelta(days=n) for n in (-700, -1, 0, 63, 64))]
    rows: list[tuple[Any, ...]] = [(DRAW.choice(days), DRAW.choice(["a", "b", None])) for _ in range(300)]
    table = pa.table({"day": pa.array([d for d, _ in rows]), "r": pa.array([r for _, r in rows])})
    found = profile(spark.createDataFrame(table), keys=["day", "r"])
    whole = [row for row in rows if None not in row]
    assert found.rows == len(rows)
    assert found.null_keys == len(rows) - len(whole)
    day, region = found.ranges
    assert (day.low.value, day.high.value) == (DAY - dt.timedelta(days=700), DAY + dt.timedelta(days=64))
    assert (region.low.value, region.high.value) == ("a", "b")
