"""Rows under a declared schema: values that say the same in other words fit, others are reported by row and column."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as t

from tidemill import SchemaPolicy
from tidemill.errors import SchemaError
from tidemill.execution.function_rows import Typed
from tidemill.frontends.models.functions import ddl_of
from tidemill.frontends.sql.scopes import columns_of_ddl

SCHEMA = t.StructType(
    [
        t.StructField("id", t.LongType(), nullable=False),
        t.StructField("day", t.DateType()),
        t.StructField("at", t.TimestampType()),
        t.StructField("goals", t.IntegerType()),
        t.StructField("price", t.DecimalType(6, 2)),
        t.StructField("share", t.DoubleType()),
        t.StructField("name", t.StringType()),
        t.StructField("won", t.BooleanType()),
        t.StructField("tags", t.ArrayType(t.StringType())),
    ]
)
NOON = datetime(2026, 2, 4, 12, tzinfo=UTC)


def typed(policy: SchemaPolicy = SchemaPolicy.FAIL) -> Typed:
    return Typed(SCHEMA, policy, "the function games")


def test_values_of_json_take_the_declared_types() -> None:
    (row,) = (
        typed()
        .records(
            [
                {
                    "ID": "7",
                    "day": "2026-02-04",
                    "at": "2026-02-04T12:00:00Z",
                    "goals": 3.0,
                    "price": 1.5,
                    "share": 1,
                    "name": 20252026,
                    "won": "true",
                    "tags": ["a"],
                }
            ]
        )
        .to_pylist()
    )
    assert row == {
        "id": 7,
        "day": date(2026, 2, 4),
        "at": NOON,
        "goals": 3,
        "price": Decimal("1.50"),
        "share": 1.0,
        "name": "20252026",
        "won": True,
        "tags": ["a"],
    }


def test_fields_that_records_lack_are_null() -> None:
    found = typed().records([{"id": 1, "day": None}, {"id": 2, "name": "x"}])
    assert found["name"].to_pylist() == [None, "x"]
    assert found["goals"].to_pylist() == [None, None]
    assert found.schema.field("at").type == pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize(
    ("column", "value", "problem"),
    [
        ("goals", "two", "has 'two' in goals, which is INT"),
        ("goals", 1.5, "has 1.5 in goals, which is INT"),
        ("goals", 2**40, "has 1099511627776 in goals, which is INT"),
        ("day", "4th of May", "has '4th of May' in day, which is DATE"),
        ("day", NOON, "has 2026-02-04 12:00:00+00:00 in day, which is DATE"),
        ("at", "noon", "has 'noon' in at, which is TIMESTAMP"),
        ("price", 12345.678, "has 12345.678 in price, which is DECIMAL(6,2)"),
        ("name", {"en": "x"}, "has {'en': 'x'} in name, which is STRING"),
        ("won", "perhaps", "has 'perhaps' in won, which is BOOLEAN"),
        ("tags", "a", "has 'a' in tags, which is ARRAY<STRING>"),
        ("id", None, "has NULL in id, which is BIGINT NOT NULL"),
    ],
)
def test_a_row_that_does_not_fit_is_reported_by_row_column_and_value(column: str, value: Any, problem: str) -> None:
    rows = [{"id": 1, "day": None}, {"id": 2, "day": None} | {column: value}]
    for give in (typed().records, lambda rows: typed().table(pa.table(_columns(rows)))):
        with pytest.raises(SchemaError) as failure:
            give(rows)
        assert f"Row 2 of what the function games gave {problem}" in failure.value.problem
    if column not in {"id", "day"}:
        assert failure.value.problem.endswith("(id=2, day=NULL).")


def _columns(rows: list[dict[str, Any]]) -> dict[str, pa.Array]:
    """Columns of an Arrow table, which has one type in each."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: pa.array([row.get(name) for row in rows]) for name in names}


def test_arrow_columns_are_cast_where_nothing_is_lost() -> None:
    table = pa.table({"id": pa.array([1.0, 2.0]), "day": ["2026-02-04", None], "goals": pa.array([1, 2], pa.int64())})
    found = typed().table(table)
    assert found.schema.field("goals").type == pa.int32()
    assert found["day"].to_pylist() == [date(2026, 2, 4), None]
    assert found.column_names == SCHEMA.names


def test_columns_that_are_not_declared_follow_the_policy() -> None:
    rows = [{"id": 1}, {"id": 2, "shots": 3}]
    with pytest.raises(SchemaError, match="Row 2 of what the function games gave has shots"):
        typed().records(rows)
    assert "shots" not in typed(SchemaPolicy.IGNORE).records(rows).column_names
    assert typed(SchemaPolicy.APPEND_NEW_COLUMNS).records(rows)["shots"].to_pylist() == [None, 3]


def test_schemas_are_written_as_ddl_as_a_dict_or_as_spark_has_them() -> None:
    assert columns_of_ddl(ddl_of("id BIGINT NOT NULL COMMENT 'a, b', `a day` DATE, s STRUCT<a: INT>")) == (
        "id",
        "a day",
        "s",
    )
    assert ddl_of({"id": "BIGINT", "a day": "DATE"}) == "`id` BIGINT, `a day` DATE"
    assert ddl_of(SCHEMA).startswith("`id` bigint NOT NULL, `day` date, `at` timestamp")
    assert columns_of_ddl(ddl_of(SCHEMA)) == tuple(SCHEMA.names)
