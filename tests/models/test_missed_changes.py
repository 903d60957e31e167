"""A window on one input's time column misses changes of the others: validate, plan and run say so, with the remedy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from models.conftest import write

from tidemill.api.workspace import Workspace
from tidemill.execution import StepResult
from tidemill.planning import Request

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result
    from pyspark.sql import SparkSession

LOADS = """
SOURCE orders TYPE CSV PARAMS { "path": "orders.csv" };
SOURCE payments TYPE CSV PARAMS { "path": "payments.csv" };
LOAD raw.orders FROM orders MODE MERGE ON id;
LOAD raw.payments FROM payments MODE MERGE ON id;
"""
PAID = """-- metadata: {"materialization": "incremental", "incremental": {"strategy": "merge", "merge":
--             {"unique_key": "id", "time_column": "updated_at", "kept_rows": "intended"}}}
SELECT o.id, o.updated_at, coalesce(p.paid, 0) AS paid FROM raw.orders AS o
LEFT JOIN (SELECT order_id, sum(amount) AS paid FROM raw.payments GROUP BY order_id) AS p ON p.order_id = o.id
"""
ORDERS = "id,updated_at\n1,2024-01-01 10:00:00\n2,2024-01-09 10:00:00\n"
REMEDY = (
    "rebuild them (tidemill run -s my_schema.paid --full-refresh), read them again from a time on (--start), "
    "or make it a materialized view, which follows all of its inputs"
)
STALE = "rows outside of the window keep their old values"
SEEN = f"since its last run, and its window on updated_at does not see that: {STALE}; {REMEDY}"


def step(spark: SparkSession, request: Request | None = None) -> StepResult:
    workspace = Workspace.load(".")
    chosen = workspace.choose(["my_schema.paid"]) if request else workspace
    found = chosen.run(spark, request=request) if request else chosen.run(spark)
    result = found.outcomes[-1].result
    assert isinstance(result, StepResult)
    return result


def planned(cli: Callable[..., Result]) -> list[str]:
    return json.loads(cli("plan", "--format", "json").stdout)["steps"][-1]["notices"]


def test_changes_of_an_input_that_does_not_own_the_time_column_are_reported(
    spark: SparkSession, cli: Callable[..., Result]
) -> None:
    write({"paid.sql": PAID, "pipelines/loads.sql": LOADS})
    Path("orders.csv").write_text(ORDERS)
    Path("payments.csv").write_text("id,order_id,amount\n1,1,5\n")
    shape = (
        f"my_schema.paid: its window on updated_at does not see changes of raw.payments alone: {STALE}; after such a "
        f"change {REMEDY}"
    )
    assert json.loads(cli("validate", "--format", "json").stdout)["notices"] == [shape]
    assert step(spark).notices == ()
    assert planned(cli) == []

    Path("payments.csv").write_text("id,order_id,amount\n1,1,5\n2,1,7\n")  # of an order before the window
    assert planned(cli) == [f"my_schema.paid: raw.payments may have changed {SEEN}"]
    missed = step(spark)
    assert (missed.status, missed.notices) == ("unchanged", (f"my_schema.paid: raw.payments has changed {SEEN}",))
    assert planned(cli) == [*missed.notices]
    assert cli("validate").stdout == f"  notice  {missed.notices[0]}\n  ! no errors · 1 notice · 3 tables\n"

    rebuilt = step(spark, Request(full_refresh=True))
    assert (rebuilt.counts.inserted, rebuilt.notices) == (1, ())
    assert planned(cli) == []
