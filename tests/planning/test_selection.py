"""A run is about what is selected, and a selector that means nothing is an error."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tidemill.errors import ArgumentError, Origin
from tidemill.model.graph import Graph
from tidemill.planning.selection import chosen


@dataclass(frozen=True)
class Node:
    name: str
    inputs: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    origin: Origin | None = None


GRAPH = Graph.of(
    [
        Node("main.raw_orders", tags=("raw",)),
        Node("main.raw_customers", tags=("raw", "small")),
        Node("main.daily", ("main.raw_orders",)),
        Node("gold.report", ("main.daily", "main.raw_customers")),
    ]
)


def short(name: str) -> str:
    return name.removeprefix("main.")


def names(select: str = "", exclude: str = "") -> list[str]:
    graph = chosen(GRAPH, select.split(), exclude.split(), short)
    return [short(node.name) for node in graph.in_order()]


@pytest.mark.parametrize(
    ("select", "exclude", "found"),
    [
        ("", "", ["raw_orders", "raw_customers", "daily", "gold.report"]),
        ("daily", "", ["daily"]),
        ("MAIN.Daily", "", ["daily"]),
        ("raw_*", "", ["raw_orders", "raw_customers"]),
        ("gold.*", "", ["gold.report"]),
        ("tag:raw", "", ["raw_orders", "raw_customers"]),
        ("+daily", "", ["raw_orders", "daily"]),
        ("raw_orders+", "", ["raw_orders", "daily", "gold.report"]),
        ("+daily+", "", ["raw_orders", "daily", "gold.report"]),
        ("daily raw_customers", "", ["raw_customers", "daily"]),
        ("", "daily+", ["raw_orders", "raw_customers"]),
        ("+gold.report", "tag:small", ["raw_orders", "daily", "gold.report"]),
    ],
)
def test_a_selector_is_a_name_a_wildcard_or_a_tag_with_what_stands_before_or_behind_it(select, exclude, found):
    assert names(select, exclude) == found


@pytest.mark.parametrize(
    ("select", "text"),
    [
        ("dayly", "[plan.nothing_selected] Nothing is selected by dayly. Did you mean daily?"),
        ("+dayly", "[plan.nothing_selected] Nothing is selected by +dayly. Did you mean daily?"),
        ("tag:rwa", "[plan.nothing_selected] Nothing is selected by tag:rwa. Did you mean raw?"),
        ("tag:zzz", "[plan.nothing_selected] Nothing is selected by tag:zzz. The tags are raw, small."),
        (
            "x_*",
            (
                "[plan.nothing_selected] Nothing is selected by x_*. "
                "The tables are raw_orders, raw_customers, daily, gold.report."
            ),
        ),
    ],
)
def test_a_selector_that_means_nothing_is_an_error(select, text):
    with pytest.raises(ArgumentError) as caught:
        names(select)
    assert str(caught.value) == text
    with pytest.raises(ArgumentError):
        names("", select)
