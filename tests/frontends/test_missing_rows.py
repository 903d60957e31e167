"""Questions to a query: what can make its rows disappear, and of which inputs a window on a column misses changes."""

from __future__ import annotations

import pytest

from tidemill.frontends.sql.lineage import losing_parts, missed_inputs

VIEWS = {"paid": "SELECT o.id, o.at, p.x FROM orders AS o JOIN payments AS p ON o.id = p.id"}


@pytest.mark.parametrize(
    ("query", "parts"),
    [
        ("SELECT id, at FROM a", ()),
        ("SELECT id, at FROM a UNION ALL SELECT id, at FROM b", ()),
        ("SELECT id, at FROM a UNION SELECT id, at FROM b", ("DISTINCT",)),
        ("SELECT DISTINCT id FROM a", ("DISTINCT",)),
        ("SELECT id FROM a EXCEPT ALL SELECT id FROM b", ("a filter",)),
        ("SELECT id, count(*) FROM a GROUP BY id HAVING count(*) > 1", ("GROUP BY", "a filter")),
        ("WITH n AS (SELECT id, count(*) AS n FROM a GROUP BY id) SELECT * FROM n", ("GROUP BY",)),
        ("SELECT a.id FROM a LEFT JOIN b ON a.id = b.id", ("a join",)),
        ("SELECT id FROM a WHERE id IN (SELECT id FROM b)", ("a filter",)),
        ("SELECT id FROM a QUALIFY row_number() OVER (PARTITION BY id ORDER BY at) = 1", ("a filter",)),
        ("SELECT id, (SELECT max(x) FROM b WHERE b.id = a.id) AS x FROM a", ()),
        ("SELECT id FROM a WHERE at >= @start_dt AND at < @end_dt", ()),
        ("SELECT id FROM a WHERE at >= @start_dt AND open", ("a filter",)),
        ("SELEC", ()),
    ],
)
def test_groups_joins_distinct_and_filters_can_make_rows_disappear(query: str, parts: tuple[str, ...]) -> None:
    assert losing_parts(query) == parts


@pytest.mark.parametrize(
    ("query", "missed"),
    [
        ("SELECT o.id, o.at FROM orders AS o LEFT JOIN payments AS p ON p.id = o.id", ("payments",)),
        ("SELECT cast(O.at AS DATE) AS AT FROM orders AS o, payments AS p WHERE p.id = o.id", ("payments",)),
        ("SELECT o.at FROM orders AS o LEFT SEMI JOIN payments AS p ON p.id = o.id", ("payments",)),
        ("SELECT at FROM orders WHERE id IN (SELECT id FROM payments)", ("payments",)),
        ("SELECT o.*, p.x FROM orders AS o JOIN payments AS p ON p.id = o.id", ("payments",)),
        (
            (
                "WITH p AS (SELECT id, sum(x) AS x FROM payments GROUP BY id), o AS (SELECT id, at FROM orders) "
                "SELECT at, x FROM o JOIN p ON p.id = o.id"
            ),
            ("payments",),
        ),
        ("SELECT id, max(at) AS at FROM paid GROUP BY id", ("payments",)),
        ("SELECT greatest(o.at, p.at) AS at FROM orders AS o, payments AS p, shops", ("shops",)),
        ("SELECT at FROM orders UNION ALL SELECT paid_at FROM payments", ()),
        ("SELECT at FROM orders UNION ALL SELECT at FROM b WHERE id NOT IN (SELECT id FROM orders)", ("orders",)),
        ("SELECT coalesce(o.at, p.at) AS at FROM orders AS o, payments AS p", ("orders", "payments")),
        ("SELECT * FROM orders AS o JOIN payments AS p ON p.id = o.id", ("orders", "payments")),
        ("SELECT at FROM orders AS o JOIN payments AS p ON p.id = o.id", ("orders", "payments")),
        ("SELECT a.at FROM orders AS a JOIN orders AS b ON a.id = b.id", ()),
        ("SELECT *, current_timestamp() AS at FROM orders", ()),
        ("SELECT * FROM a.orders, b.orders", ("a.orders", "b.orders")),
        ("SELECT * FROM (SELECT at FROM orders) JOIN (SELECT id FROM payments)", ("payments",)),
        ("(SELECT at FROM orders JOIN (SELECT id FROM payments)) LIMIT 5", ("payments",)),
        ("WITH o AS (SELECT at FROM orders) SELECT p.at FROM O AS p LEFT ANTI JOIN b ON true", ("b",)),
        ("SELEC", None),
    ],
)
def test_a_window_misses_changes_of_inputs_that_do_not_own_its_column(
    query: str, missed: tuple[str, ...] | None
) -> None:
    assert missed_inputs(query, "at", str.lower, VIEWS.get) == missed
