"""The 22 queries of TPC-H as views: through new, deleted and changed rows each stays what its query gives."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
CYCLES = 5
FULL = {15, 22}  # a maximum of sums; an average over all customers, whose balances change
UP_TO_DATE = {2, 11, 16}
SAMPLE = (1, 3, 13, 20)

Warehouse = Any  # the folder of benchmarks is no package


@pytest.fixture
def warehouse(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[float], Warehouse]:
    monkeypatch.setattr(sys, "path", [*sys.path, str(BENCHMARKS)])
    import tpch_views  # noqa: PLC0415  the folder of benchmarks is no package

    def built(scale: float, layout: str) -> Warehouse:
        found = tpch_views.Warehouse(spark, tmp_path / layout, scale, layout)
        found.build()
        return found

    return built


def refreshed(warehouse: Warehouse, queries: tuple[int, ...], cycles: int) -> dict[int, set[str]]:
    """How each query was refreshed in so many cycles; after each, the rows are those of a statement by hand."""
    views = {number: warehouse.views(number, ("incremental", "full")) for number in queries}
    for each in views.values():
        each.declare()
        for way in each.all().values():
            way()
    how: dict[int, set[str]] = {number: set() for number in queries}
    for cycle in range(cycles):
        warehouse.change(cycle, customers=True)
        for number, each in views.items():
            ways = each.all()
            how[number].add(str(ways.pop(f"q{number}_incremental")()))
            for way in ways.values():
                way()
            if how[number] == {"refused"}:
                views[number] = warehouse.views(number, ("full",))
            views[number].check()
    return how


@pytest.mark.parametrize("layout", ["spread", "local"])
def test_some_queries_follow_a_cycle(warehouse: Callable[..., Warehouse], layout: str):
    how = refreshed(warehouse(0.01, layout), SAMPLE, 1)
    assert all(each.startswith("incremental") for found in how.values() for each in found), how


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["spread", "local"])
def test_all_queries_follow_five_cycles(warehouse: Callable[..., Warehouse], layout: str):
    how = refreshed(warehouse(0.01, layout), tuple(range(1, 23)), CYCLES)
    assert {number for number, found in how.items() if found == {"up to date"}} == UP_TO_DATE
    assert {number for number, found in how.items() if "refused" in found} == FULL
