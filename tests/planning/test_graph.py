"""What is read is made before what reads it, and what cannot be is reported before anything runs."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.errors import Origin
from tidemill.model.graph import Graph

HERE = Origin("shop.sql", 3)


@dataclass(frozen=True)
class Node:
    name: str
    inputs: tuple[str, ...] = ()
    origin: Origin | None = HERE


def graph(**reads: str) -> Graph:
    return Graph.of(
        Node(f"main.{name}", tuple(f"main.{each}" for each in text.split())) for name, text in reads.items()
    )


def nothing_outside(name: str) -> bool:
    return name == "outside.there"


def test_a_table_stands_after_what_it_reads_and_else_where_it_is_declared() -> None:
    order = graph(report="daily", z="", daily="raw", raw="", a="").in_order()
    assert [node.name for node in order] == ["main.raw", "main.daily", "main.report", "main.z", "main.a"]


def test_a_name_that_nobody_knows_is_an_error_at_its_place() -> None:
    found = Graph.of([Node("main.raw"), Node("main.daily", ("main.rwa", "outside.there"))]).check(nothing_outside)
    assert len(found) == 1
    assert str(found[0]) == (
        "[plan.unknown_table] main.daily reads main.rwa, which nothing declares and the warehouse does not hold. "
        'Did you mean main.raw? Declare it, or name outside data in tidemill.toml under [sources."main.rwa"].'
    )
    assert str(found[0].origin) == "shop.sql:3"


def test_a_circle_is_an_error_that_shows_it() -> None:
    found = graph(a="c", b="a", c="b").check(nothing_outside)
    assert [error.code for error in found] == ["plan.cycle"]
    assert set(found[0].problem.removesuffix(".").split(": ")[1].split(" → ")) == {"main.a", "main.b", "main.c"}
    assert graph(a="a").check(nothing_outside)[0].problem == ("Tables read each other in a circle: main.a → main.a.")


def test_a_graph_without_mistakes_has_none() -> None:
    assert graph(raw="", daily="raw").check(nothing_outside) == []
