"""Sums beside a view: changes are added to them, exactly, and they go with the rows of the view whatever happens."""

from __future__ import annotations

import shutil
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable
from support import together
from views.test_view_failures import run_and_kill

from tidemill.execution.sums import sums_path
from tidemill.formats import registry
from tidemill.formats.base import VacuumRequest
from tidemill.formats.delta.log import DeltaLog
from tidemill.maintenance.files import vacuum
from tidemill.model.cursor import duration

if TYPE_CHECKING:
    from views.conftest import Lake

    from tidemill.api.results import RunStep

SALES = "id long, region string, price decimal(12,2), units int"
VIEWS = {
    "by_region": (
        "SELECT upper(region) AS region, count(*) AS n, count(price) AS priced, sum(price) AS price,\n"
        "avg(price) AS mean, avg(units) AS units, sum(units) / count(*) AS ratio, count_if(units > 2) AS many,\n"
        "sum(price * (1 - price) * (1 + price)) AS charge FROM sales GROUP BY upper(region)"
    ),
    "in_all": "SELECT count(*) AS n, sum(price) AS price, avg(units) AS units FROM sales WHERE id < 100",
    "often": "SELECT sum(units) AS units, count(*) AS n FROM sales GROUP BY region HAVING count(*) > 1",
    "by_part": "SELECT region, sum(units) AS units, avg(price) AS mean FROM sales GROUP BY region, units % 2",
}
REGIONS = ("eu", "us", None, "nulls")


def sale(key: int, region: str | None, price: str | None = "1.55", units: int | None = 2) -> tuple[object, ...]:
    return key, region, None if price is None else Decimal(price), units


def sales(lake: Lake, name: str = "sales") -> None:
    """Four regions of thirty sales, one of them NULL, and one without any price; each sale is there twice."""
    rows = [sale(n, REGIONS[n % 4], None if n % 4 == 3 else f"{n}.{n:02}", n % 5) for n in (*range(60), *range(60))]
    lake.table(name, SALES, *rows)


def all_summed(steps: dict[str, RunStep]) -> None:
    rules = {name: (step.refresh or {}).get("rule") for name, step in steps.items()}
    assert set(rules.values()) == {"summed"}, rules


def sums(lake: Lake, view: str) -> int:
    """The version of the sums that the record of a view names."""
    record = lake.snapshot(view).record
    assert record is not None
    assert record.sums is not None
    return int(record.sums.rpartition("@")[2].partition(".")[0])


def version_of_sums(lake: Lake, view: str) -> int:
    return DeltaLog(sums_path(lake.path(view))).version()


def test_changes_are_added_up_exactly(lake: Lake) -> None:
    sales(lake)
    for name, query in VIEWS.items():
        lake.view(name, query)
    lake.check_all(lake.run(), None)

    # a region comes, one goes, one is left with NULLs, rows move to others, some of them equal ones
    lake.append("sales", sale(60, "new"), sale(61, "new"), sale(62, None, None, None), sale(63, "EU", "-7.05", 1))
    lake.delta("sales").delete("region = 'us' OR region IS NULL AND price IS NOT NULL")
    lake.delta("sales").update(predicate="id IN (4, 8)", updates={"region": "'new'", "units": "NULL"})
    check(lake)
    lake.delta("sales").delete()
    check(lake)
    assert lake.held("in_all") == {(0, None, None): 1}
    lake.append("sales", *(sale(n, "us", "99999999.99") for n in range(80, 83)), sale(90, None, "0.01"))
    check(lake)  # groups that were gone return
    lake.check_again()


def check(lake: Lake) -> None:
    steps = lake.run()
    lake.check_all(steps)
    all_summed(steps)


@pytest.fixture
def one(lake: Lake) -> Lake:
    """A view that only sums can follow, and one that others may write to; made once, and changed once."""
    sales(lake)
    lake.view("by_region", VIEWS["by_region"])
    lake.check_all(lake.run(), None)
    lake.append("sales", sale(60, "eu"), sale(61, "new"))
    check(lake)
    return lake


def test_a_run_killed_between_the_sums_and_the_rows_counts_nothing_twice(one: Lake) -> None:
    before, named = one.held("by_region"), sums(one, "by_region")
    one.delta("sales").delete("id IN (60, 5)")
    run_and_kill(one.folder, "by_region")
    assert (one.held("by_region"), sums(one, "by_region")) == (before, named)
    assert version_of_sums(one, "by_region") == named + 1  # they were written, and nobody needs them

    one.append("sales", sale(62, "us"))
    check(one)
    assert sums(one, "by_region") == version_of_sums(one, "by_region") == named + 3  # back, and on from there
    one.check_again()

    one.append("sales", sale(63, "us"), sale(64, None))
    project, ended = one.project(), []
    assert together(*[lambda: ended.append(project.run(spark=one.spark)) for _ in range(2)]) == []
    assert [step.error for run in ended for step in run.steps] == [None] * 2
    assert one.held("by_region") == one.right_now("by_region")
    one.append("sales", sale(65, "us"))
    check(one)


def test_a_view_goes_back_with_its_sums(one: Lake) -> None:
    first, project = one.held("by_region", 0), one.project()
    project.backup("by_region", to="copy", spark=one.spark)
    one.delta("sales").delete("region = 'eu'")
    check(one)

    project.restore("by_region", to=0, spark=one.spark)
    assert (one.held("by_region"), sums(one, "by_region")) == (first, 0)
    check(one)
    project.restore("by_region", backup="copy", spark=one.spark)
    check(one)

    one.sql("DELETE FROM {by_region} WHERE region = 'US'")  # what others do to its rows is made good by its sums
    one.sql("INSERT INTO {by_region} (region, n) VALUES ('EU', 5), ('nowhere', 1)")
    one.append("sales", sale(70, "nulls", None))
    foreign = one.version("by_region")
    check(one)
    one.check_again()

    project.restore("by_region", to=foreign, spark=one.spark)
    assert one.recorded("by_region") == {}  # its rows are those of no inputs, so that the next run computes it whole


def test_sums_that_are_not_there_are_computed_again_with_the_rows(one: Lake) -> None:
    path = one.path("by_region")
    shutil.rmtree(sums_path(path))
    one.append("sales", sale(70, "us"))
    step = one.run()["by_region"]
    assert step.error is not None
    assert "the sums that are kept beside it are not there any more" in step.error.problem

    assert one.run(full_refresh=True)["by_region"].error is None
    made = one.version("by_region")
    one.append("sales", *(sale(80 + n, region) for n, region in enumerate((*REGIONS, "new"))))
    check(one)

    asked, delta = VacuumRequest(duration("0 days"), confirmed=True), registry.format_named("delta")
    files = len(list(Path(sums_path(path)).glob("*.parquet")))
    delta.vacuum(sums_path(path), asked, lambda work: work(one.spark))
    assert len(list(Path(sums_path(path)).glob("*.parquet"))) < files
    one.append("sales", sale(90, None))
    check(one)  # what its record names stays
    assert vacuum(delta, path, replace(asked, dry_run=True), lambda work: work(one.spark)).files > 1
    one.project().restore("by_region", to=made, spark=one.spark)
    step = one.run()["by_region"]
    assert step.error is not None
    assert "the sums that are kept beside it are not there any more" in step.error.problem


@pytest.mark.usefixtures("_small_is_large")
def test_sums_are_kept_where_they_are_worth_it(lake: Lake) -> None:
    sales(lake)
    lake.table("large", "v long", (1,), (5,))
    lake.table("huge", "v long", (2**62,), (2**62,))
    lake.view("by_region", VIEWS["by_region"], "")
    lake.view("by_id", "SELECT id, count(*) AS n, sum(price) AS price FROM sales GROUP BY id", "")
    lake.view("latest", "SELECT region, max(id) AS id FROM sales GROUP BY region", "")
    lake.view("mean", "SELECT avg(v) AS v FROM large", "")
    lake.view("too_large", "SELECT avg(v) AS v FROM huge", "")
    lake.run()
    kept = {view for view in lake.queries if Path(sums_path(lake.path(view))).is_dir()}
    assert kept == {"by_region", "mean"}

    lake.append("sales", sale(60, "eu"))
    lake.append("large", (2**53,))
    steps = lake.run()
    lake.check_all({name: steps[name] for name in ("by_region", "by_id", "latest")})
    assert steps["by_region"].refresh["rule"] == "summed"
    assert (steps["by_region"].refresh["changed"], steps["by_region"].refresh["keys"]) == ({"sales": 1}, 1)
    assert "sums are added up" in steps["by_region"].refresh["reason"]
    assert steps["by_id"].refresh["rule"] == "local"
    lake.check(steps["mean"], "full")
    assert "too large to be added up exactly" in steps["mean"].refresh["reason"]
    assert lake.snapshot("mean").record.sums is None
    assert not Path(sums_path(lake.path("mean"))).exists()

    shutil.rmtree(sums_path(lake.path("by_region")))
    lake.table_of_query("mean", lake.queries["mean"])
    lake.delta("large").delete("v > 5")
    lake.append("sales", sale(61, "us"))
    steps = lake.run()
    lake.check(steps["by_region"], "full")
    assert "not there any more" in steps["by_region"].refresh["reason"]

    lake.table_of_query("by_region", lake.queries["by_region"])
    lake.run()
    assert not Path(sums_path(lake.path("by_region"))).exists()
    assert DeltaTable(lake.path("by_region")).version() > 0
