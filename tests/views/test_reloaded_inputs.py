"""An input that is written whole counts with the rows that differ; what is gone of its older versions is not read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from views.conftest import Lake

FEED = {"delta.enableChangeDataFeed": "true"}
COUNTRIES = [(number, f"country {number}", number % 5) for number in range(50)]
JOINED = "FROM orders o JOIN countries c ON c.id = o.country"


@pytest.mark.parametrize("properties", [{}, FEED], ids=["files", "feed"])
def test_a_table_that_is_written_whole_counts_with_the_rows_that_differ(lake: Lake, properties: dict[str, str]) -> None:
    lake.spark_table("countries", "id long, name string, zone int", *COUNTRIES, properties=properties)
    lake.table("orders", "id long, country long, v int", *[(n, n % 50, n) for n in range(200)])
    lake.view("named", f"SELECT o.id, o.v, c.name {JOINED}")
    lake.view("per_zone", f"SELECT c.zone, count(*) AS n, sum(o.v) AS v {JOINED} GROUP BY c.zone")
    lake.run()

    changed = [(7, "new name", 2), *COUNTRIES[:7], *COUNTRIES[8:], (50, "new", 1)]
    lake.overwrite("countries", *changed)
    steps = lake.run()
    lake.check_all(steps)
    assert steps["named"].refresh["changed"] == {"countries": 3}
    assert (steps["named"].inserted, steps["named"].deleted) == (4, 4)
    lake.sql("CREATE OR REPLACE TABLE {countries} USING delta AS SELECT * FROM {countries}")
    lake.overwrite("countries", *reversed(changed))
    steps = lake.run()
    lake.check_all(steps)
    assert steps["named"].refresh["changed"] == {"countries": 0}
    lake.check_again()


@pytest.mark.usefixtures("_small_is_large")
def test_a_rule_that_takes_an_input_as_it_was_is_not_used_where_its_old_files_are_gone(lake: Lake) -> None:
    lake.table("orders", "id long, customer long, product long", (1, 1, 1), (2, 2, 2))
    for name in ("customers", "products"):
        lake.table(name, "id long, name string", (1, "a"))
        lake.append(name, (3, "c"))
    lake.view(
        "wide",
        "SELECT o.id, c.name AS customer, p.name AS product FROM orders o "
        "JOIN customers c ON c.id = o.customer JOIN products p ON p.id = o.product",
        "",
    )
    lake.run()

    for name in ("customers", "products"):
        lake.delta(name).optimize.compact()
        lake.append(name, (2, "b"))
    for name in ("customers", "products"):
        lake.delta(name).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    step = lake.run()["wide"]
    lake.check(step, "full")
    assert step.refresh["reason"] == (
        "full refresh: products: version 1 is no longer there (kept for 7 days); set "
        "delta.deletedFileRetentionDuration, or run more often"
    )
    for name in ("customers", "products"):
        lake.append(name, (4, "d"))
    step = lake.run()["wide"]
    lake.check(step, "incremental")
    assert step.refresh["rule"] == "telescoped"
