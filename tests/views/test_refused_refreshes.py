"""Queries that cannot follow changes: an error under refresh = incremental, else a full refresh that says why."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from views.conftest import Lake

QUERIES = {
    "limited": ("SELECT id\nFROM orders ORDER BY id\nLIMIT 2", "LIMIT", 3),
    "clocked": ("SELECT id FROM orders\nWHERE day < current_date()", "the clock", None),
    "by_chance": ("SELECT id FROM orders\nWHERE rand() < 2", "chance", None),
    "by_function": ("SELECT id,\ndefault.plus_one(id) AS next\nFROM orders", "plus_one", 2),
    "not_in": (
        "SELECT id FROM orders\nWHERE customer NOT IN\n(SELECT customer FROM customers)",
        "one NULL in the rows of NOT IN changes its answer",
        2,
    ),
    "given": ("SELECT id FROM orders WHERE id < @most", "@most may have another value in each run", None),
}
VARS = {"most": 100}


@pytest.fixture
def _plus_one(spark: SparkSession) -> Iterator[None]:
    spark.sql("CREATE OR REPLACE FUNCTION default.plus_one(given BIGINT) RETURNS BIGINT RETURN given + 1")
    yield
    spark.sql("DROP FUNCTION default.plus_one")


@pytest.mark.usefixtures("_plus_one")
def test_what_cannot_be_incremental_is_one_error_at_its_place_or_a_full_refresh_that_says_why(lake: Lake) -> None:
    lake.given["most"] = "100"
    rows = [(n, n % 3, Decimal(n), None) for n in range(1, 7)]
    lake.table("orders", "id long, customer long, amount decimal(12,2), day date", *rows)
    lake.table("customers", "customer long", (1,))
    for name, (query, _, _) in QUERIES.items():
        lake.view(name, query)
    lake.check_all(lake.run(vars=VARS), None)
    lake.delta("orders").delete("id = 1")
    lake.append("orders", (7, 2, Decimal(7), None))
    lake.append("customers", (2,))
    versions = {name: lake.version(name) for name in QUERIES}

    for name, step in lake.run(vars=VARS).items():
        _, why, line = QUERIES[name]
        assert step.status == "failed", name
        assert step.error is not None
        assert step.error.code == "view.not_incremental", f"{name}: {step.error}"
        assert step.error.problem.startswith(f"{name} cannot be refreshed incrementally: ")
        assert why in step.error.problem
        assert step.error.remedy.endswith(f"{name} is unchanged.")
        assert step.error.origin is not None
        assert step.error.origin.file.endswith("p.sql")
        assert step.error.origin.line == lake.line(name) + (line or 0), f"{name}: {step.error}"
    assert {name: lake.version(name) for name in QUERIES} == versions

    for name, (query, _, _) in QUERIES.items():
        lake.view(name, query, "")
    for name, step in lake.run(vars=VARS).items():
        lake.check(step, "full")
        assert QUERIES[name][1] in step.refresh["reason"]
