"""Values that engines see differently, in what views hold, group by and join on."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from views.conftest import bag

if TYPE_CHECKING:
    from views.conftest import Lake

COLUMNS = "id long, price decimal(28,10), share double, day date, at timestamp, name string, flags array<string>"
NAN = float("nan")
GREAT, SMALL = Decimal("999999999999999999.9999999999"), Decimal("0.0000000001")


def moment(hour: int) -> datetime:
    return datetime(2024, 3, 31, hour, 30, tzinfo=UTC)


ROWS = (
    (1, GREAT, NAN, date(1582, 10, 4), moment(0), "bob", ["a", None]),
    (2, SMALL, -0.0, date(2024, 2, 29), moment(1), "BOB", []),
    (3, -SMALL, 0.0, date(9999, 12, 31), moment(2), "", None),
    (4, None, None, None, None, None, ["b"]),
    (5, Decimal(1), float("inf"), date(2024, 2, 29), moment(1), "bob ", ["b"]),
    (6, Decimal(1), 0.1, date(2024, 2, 29), None, None, ["b"]),
)
VIEWS = {
    # by content: every value of a row that leaves has to be found again
    "whole": "SELECT price, share, day, at, name, flags FROM items WHERE id > 0",
    "by_name": (
        "SELECT name, count(*) AS n, sum(price) AS price, sum(share) AS share, min(day) AS day, max(at) AS at,\n"
        "count(DISTINCT day) AS days, sort_array(collect_list(id)) AS ids FROM items GROUP BY name"
    ),
    "by_day": "SELECT day, min(name) AS name, avg(price) AS price FROM items GROUP BY day",
    "by_price": "SELECT i.price, i.id, j.id AS other FROM items i LEFT JOIN others j ON i.price = j.price",
}


def test_views_hold_values_of_every_kind(lake: Lake) -> None:
    lake.table("items", COLUMNS, *ROWS)
    lake.table("others", "id long, price decimal(28,10)", (1, GREAT), (2, Decimal(1)), (3, None))
    for name, query in VIEWS.items():
        lake.view(name, query)
    lake.check_all(lake.run(), None)

    lake.sql("DELETE FROM {items} WHERE id IN (1, 3, 6)")
    lake.append(
        "items", (7, SMALL, NAN, date(1, 1, 1), moment(3), "ß", ["a", None]), (8, None, -0.0, None, None, None, None)
    )
    lake.check_all(lake.run())

    lake.sql("UPDATE {items} SET share = -share, price = -price, name = upper(name), at = at + INTERVAL 1 HOUR")
    lake.append("others", (4, -SMALL))
    lake.check_all(lake.run())
    lake.check_again()


def test_a_change_between_values_that_are_only_called_equal_is_a_change(lake: Lake) -> None:
    lake.spark_table("odd", "id BIGINT, share DOUBLE, shares ARRAY<DOUBLE>")
    lake.sql("INSERT INTO {odd} VALUES (1, 0.0, array(1.0)), (2, 0.0, array(0.0)), (3, -1.0, NULL)")
    lake.view("texts", "SELECT id, CAST(share AS STRING) AS share, CAST(shares[0] AS STRING) AS first FROM odd")
    lake.check_all(lake.run(), None)
    lake.sql("UPDATE {odd} SET share = -share WHERE id IN (1, 3)")
    lake.sql("UPDATE {odd} SET shares = array(-shares[0]) WHERE id = 2")
    steps = lake.run()
    lake.check(steps["texts"])
    assert (steps["texts"].deleted, steps["texts"].refresh["changed"]) == (3, {"odd": 6})


def test_rows_that_differ_as_the_oracle_sees_them_are_distinguished() -> None:
    assert bag([(NAN,), (0.0,)]) == bag([(-0.0,), (NAN,)])
    assert bag([("a",), ("A",)]) != bag([("a",), ("a",)])
    assert bag([([1, None],)]) != bag([([None, 1],)])


def test_a_row_keeps_the_load_time_and_the_chance_of_the_run_that_wrote_it(lake: Lake) -> None:
    """Columns without data in them take no part in what a row holds, nor in whether its query may be rewritten."""
    lake.table("items", "id long, name string", (1, "a"), (2, "b"))
    lake.view("stamped", "SELECT id, current_timestamp() AS loaded_at, uuid() AS run, upper(name) AS name FROM items")
    lake.run()
    before = {row[0]: row for row in lake.held("stamped")}

    lake.append("items", (3, "c"))
    lake.delta("items").delete("id = 2")
    step = lake.run()["stamped"]
    assert (step.refresh or {}).get("mode") == "incremental", step
    assert (step.inserted, step.deleted) == (1, 1)
    after = {row[0]: row for row in lake.held("stamped")}
    assert after[1] == before[1]
    assert after[3][1] > before[1][1]
    assert {(row[0], row[3]) for row in after.values()} == {(1, "A"), (3, "C")}
    assert len({row[2] for row in (*before.values(), after[3])}) == 3
