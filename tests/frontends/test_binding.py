"""Tables in a query become their paths, or their names without the catalog; the rest of the text stays as written."""

from __future__ import annotations

import pytest

from tidemill.frontends.sql.binding import bind_tables
from tidemill.model import Naming

NAMING = Naming("main", "lake")


def at(name: str) -> str | None:
    return f"/wh/{name}" if name in {"main.orders", "dev.orders", "dev.users"} else None


def text_of(query: str) -> str:
    return bind_tables(query, at, NAMING).text


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM orders", "SELECT * FROM delta.`/wh/main.orders` AS orders"),
        ("SELECT o.id FROM dev.orders o", "SELECT o.id FROM delta.`/wh/dev.orders` o"),
        ("SELECT * FROM lake.dev.orders", "SELECT * FROM delta.`/wh/dev.orders` AS orders"),
        ("SELECT * FROM LAKE.`dev`.`Orders`", "SELECT * FROM delta.`/wh/dev.orders` AS `Orders`"),
        (
            "-- dev.orders\nSELECT orders.id,  'dev.orders' -- é\nFROM dev.orders\n  JOIN other.dev.users USING (id)",
            (
                "-- dev.orders\nSELECT orders.id,  'dev.orders' -- é\nFROM delta.`/wh/dev.orders` AS orders\n"
                "  JOIN other.dev.users USING (id)"
            ),
        ),
        ("WITH orders AS (SELECT 1 AS x) SELECT x FROM orders", "WITH orders AS (SELECT 1 AS x) SELECT x FROM orders"),
        ("SELECT * FROM lake.dev.gone", "SELECT * FROM `dev`.`gone`"),
        ("SELECT dev.orders.id FROM dev.orders", "SELECT dev.orders.id FROM dev.orders"),
        ("SELECT lake.dev.orders.id FROM lake.dev.orders", "SELECT dev.orders.id FROM `dev`.`orders`"),
        ("SELECT * FROM dev.orders VERSION AS OF 1", "SELECT * FROM dev.orders VERSION AS OF 1"),
        ("SELECT * FROM dev.orders TABLESAMPLE (5 ROWS)", "SELECT * FROM dev.orders TABLESAMPLE (5 ROWS)"),
        (
            "SELECT * FROM dev.orders LATERAL VIEW explode(xs) AS x",
            "SELECT * FROM delta.`/wh/dev.orders` AS orders LATERAL VIEW explode(xs) AS x",
        ),
        ("FROM dev.orders SELEC nonsense (", "FROM dev.orders SELEC nonsense ("),
    ],
)
def test_only_the_names_of_tables_change(query: str, expected: str) -> None:
    assert text_of(query) == expected


def test_what_is_read_by_its_path_everywhere_needs_no_name() -> None:
    query = "SELECT u.id FROM dev.orders VERSION AS OF 1 JOIN dev.users u JOIN dev.orders o JOIN dev.gone"
    assert bind_tables(query, at, NAMING).paths == {"dev.users"}


def test_a_name_is_read_with_its_catalog_and_without() -> None:
    assert [NAMING.full(each) for each in ("t", "dev.t", "lake.dev.t", "`Lake`.dev.t", "other.dev.t", "lake.t")] == [
        *("main.t", "dev.t", "dev.t", "dev.t", "other.dev.t", "lake.t"),
    ]
    assert Naming("main").full("lake.dev.t") == "lake.dev.t"
