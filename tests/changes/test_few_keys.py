"""Few keys are known one by one, and so are the gaps between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.changes.few_keys import _parts, few_keys
from tidemill.changes.match import within

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@given(st.sets(st.integers(-(2**63), 2**63 - 1) | st.integers(-40, 40), min_size=1))
def test_every_key_lies_in_a_part_and_no_part_is_wider_than_its_keys(keys: set[int]) -> None:
    values = sorted(keys)
    parts = _parts(values) or [(values[0], values[-1])]
    assert all(any(low <= key <= high for low, high in parts) for key in keys)
    assert {*parts[0], *parts[-1]} <= keys
    assert len(parts) <= 16
    assert [low for low, _ in parts] == sorted(low for low, _ in parts)


def test_keys_beside_each_other_are_one_part_and_those_everywhere_are_not_cut() -> None:
    assert _parts([1, 2, 3, 1000, 1001, 5000]) == [(1, 3), (1000, 1001), (5000, 5000)]
    assert _parts(list(range(0, 1000, 10))) == []
    assert _parts([7]) == []


def test_few_keys_are_the_same_rows_with_their_ranges(spark: SparkSession) -> None:
    values = "(1L, 'a', DATE '2024-01-01'), (2L, NULL, DATE '2024-01-01'), (900L, 'b', NULL)"
    keys = spark.sql(f"SELECT * FROM VALUES {values} AS t(k0, k1, k2)")
    found = few_keys(keys)
    assert found is not None
    rows, known = found
    assert set(rows.collect()) == set(keys.collect())
    assert rows.schema == keys.schema
    assert (known.rows, known.keys, known.null_keys) == (3, 3, 2)
    assert [within(span.column, span) for span in known.ranges] == [
        "(k0 BETWEEN 1 AND 2 OR k0 BETWEEN 900 AND 900)",
        "k1 BETWEEN 'a' AND 'b'",
        "k2 BETWEEN DATE '2024-01-01' AND DATE '2024-01-01'",
    ]


@pytest.mark.parametrize("kind", ["double", "timestamp", "array<int>"])
def test_keys_of_other_types_are_left_to_spark(spark: SparkSession, kind: str) -> None:
    assert few_keys(spark.sql(f"SELECT CAST(NULL AS {kind}) AS k0")) is None
