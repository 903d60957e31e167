"""Models on real Spark: each strategy through days of new, corrected and late rows, with `verify` after them."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest
from models.conftest import SIDECAR, Order, write

from tidemill.errors import TidemillError
from tidemill.execution import StepResult
from tidemill.planning import Request, backfill_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from models.conftest import Shop

    from tidemill.execution import Outcome

    Counted = Callable[[Outcome], tuple[int, ...]]

ORDERS = "SELECT id, amount, created_at, updated_at FROM t_project.source_table WHERE active"
ALL = ("merged", "placed", "reloaded")
HOUR_96 = {"start_date": "2024-01-05"}


def source() -> list[Order]:
    """256 active orders and 44 that are not, one an hour: the last is of hour 300."""
    return [Order(n, n, n, active=n % 7 != 0 and n > 2) for n in range(1, 301)]


def active(orders: list[Order], since: float) -> int:
    return sum(order.active and order.updated >= since for order in orders)


def of_each(run: dict[str, Outcome], counts: Counted) -> dict[str, tuple[int, ...]]:
    return {name: counts(outcome) for name, outcome in run.items()}


def test_three_strategies_take_each_row_once_and_what_comes_later_than_the_lookback_is_shown_and_taken_by_a_backfill(
    shop: Shop, counts: Counted
) -> None:
    write(
        {
            "merged.sql": ORDERS,
            "merged.py": f"{SIDECAR}merge",
            "placed.sql": "SELECT id, created_at FROM t_project.source_table WHERE active",
            "placed.py": f"{SIDECAR}append",
            "reloaded.sql": ORDERS,
            "reloaded.py": f"{SIDECAR}delete_insert",
        }
    )
    orders = source()
    shop.source(*orders)
    assert of_each(shop.run(), counts) == dict.fromkeys(ALL, (256, 0, 0, 0))

    shop.source(*reversed(orders))  # nothing new: the same rows in another file
    again = shop.run(**HOUR_96)
    assert {name: outcome.result.status for name, outcome in again.items()} == dict.fromkeys(ALL, "unchanged")
    assert of_each(again, counts) == {
        "merged": (0, 0, 0, active(orders, 297)),
        "placed": (0, 0, 0, active(orders, 132)),
        "reloaded": (0, 0, 0, active(orders, 96)),
    }
    assert again["merged"].result.window.reason == "since 2024-01-13 12:00:00 UTC, lookback 3 hours"
    assert again["reloaded"].result.window.reason == "since 2024-01-05 00:00:00 UTC (from @start_date)"
    assert [shop.version(name) for name in ALL] == [0, 1, 0]  # the description of placed is a commit of its own

    shop.source(*orders, *(new := [Order(n, n, n) for n in range(301, 321)]))
    assert of_each(shop.run(**HOUR_96), counts) == {
        "merged": (20, 0, 0, active(orders, 297)),
        "placed": (20, 0, 0, active(orders, 132)),
        "reloaded": (20, 0, 0, active(orders, 96)),
    }

    # Corrections, of which one ties with the watermark, and a new row that ties with it too.
    orders = [*orders, *new]
    orders[309], orders[99] = orders[309].corrected(320), orders[99].corrected(321)
    orders.append(Order(321, 320, 320))
    shop.source(*orders)
    assert of_each(shop.run(**HOUR_96), counts) == {
        "merged": (1, 2, 0, active(orders, 317) - 3),
        "placed": (1, 0, 0, sum(order.active and order.created >= 152 for order in orders) - 1),
        "reloaded": (3, 0, 2, active(orders, 96) - 3),
    }

    orders.append(Order(400, 309, 309))  # twelve hours late
    shop.source(*orders)
    late = of_each(shop.run(**HOUR_96), counts)
    assert {name: found[:3] for name, found in late.items()} == {
        "merged": (0, 0, 0),
        "placed": (1, 0, 0),
        "reloaded": (1, 0, 0),
    }
    verified = shop.verify()
    assert {name: each.equal for name, each in verified.items()} == {**dict.fromkeys(ALL, True), "merged": False}
    assert (verified["merged"].missing.count, verified["merged"].missing.late) == (1, 1)
    assert [sample.row["id"] for sample in verified["merged"].missing.samples] == ["400"]
    assert "a backfill (tidemill run --start) takes these" in verified["merged"].remedies[0]

    backfill = shop.run("merged", request=Request(backfill=backfill_of("2024-01-13", None, None)))
    assert counts(backfill["merged"])[:3] == (1, 0, 0)
    assert {len(shop.rows(name, "id")) for name in ALL} == {278}

    write({"merged.py": f"{SIDECAR.replace('3 hours', '1 day')}merge"})
    orders.append(Order(401, 309, 309))  # twelve hours late again
    for taken in (1, 0):
        shop.source(*orders)
        assert counts(shop.run("merged")["merged"])[:3] == (taken, 0, 0)

    shop.spark.sql(f"UPDATE delta.`{shop.path('merged')}` SET amount = 99 WHERE id = 5")  # behind Tidemill's back
    (found,) = shop.verify("merged").values()
    assert (found.missing.count, found.extra.count, found.different.count) == (0, 0, 1)
    (sample,) = found.different.samples
    assert (sample.row, sample.instead) == ({"id": "5", "amount": "99"}, {"amount": "10"})


def test_an_append_that_looks_back_seven_days_holds_each_row_once_after_five_runs(shop: Shop) -> None:
    write({"placed.sql": ORDERS, "placed.py": f"{SIDECAR}append"})
    orders = source()
    for _ in range(5):
        shop.source(*orders)
        shop.run()
    assert [row[0] for row in sorted(shop.rows("placed", "id"))] == [order.id for order in orders if order.active]
    assert shop.version("placed") == 1


BY_DAY = """metadata = {"materialization": "incremental", "incremental": {
    "strategy": "append", "append": {"time_column": "day", "lookback": "3 hours"}}}
"""


def test_an_empty_first_run_is_followed_by_rows_and_hours_before_a_date_reach_into_the_day_before(
    shop: Shop, counts: Counted
) -> None:
    write(
        {
            "days.sql": "SELECT id, date(created_at) AS day FROM t_project.source_table",
            "days.py": BY_DAY,
            "reloaded.sql": ORDERS,
            "reloaded.py": f"{SIDECAR}delete_insert",
        }
    )
    shop.source()
    assert of_each(shop.run(), counts) == {"days": (0, 0, 0, 0), "reloaded": (0, 0, 0, 0)}
    with pytest.raises(TidemillError, match=r"my_schema\.reloaded needs @start_date"):
        shop.run()
    orders = [Order(1, 30, 30), Order(2, 60, 60)]
    shop.source(*orders)
    found = shop.run(start_date="2024-01-02")
    assert of_each(found, counts) == {"days": (2, 0, 0, 0), "reloaded": (2, 0, 0, 0)}
    assert found["days"].result.window.reason == "the table is empty: everything is read"
    # The last day is 2024-01-03: three hours before it is the day before, and not the one before that.
    shop.source(*orders, Order(3, 40, 40), Order(4, 10, 10))
    assert of_each(shop.run(start_date="2024-01-02"), counts) == {"days": (1, 0, 0, 2), "reloaded": (1, 0, 0, 2)}
    assert shop.rows("days") == [(1, date(2024, 1, 2)), (2, date(2024, 1, 3)), (3, date(2024, 1, 2))]


STRICT = "SELECT id, if(amount < 1000, amount, raise_error('an order is that large')) AS amount FROM my_schema.merged"


@pytest.mark.usefixtures("spark")
def test_a_model_that_fails_leaves_its_table_and_all_downstream_as_they_were_and_the_next_run_finishes_the_rest(
    shop: Shop, cli
) -> None:
    write(
        {
            "merged.sql": ORDERS,
            "merged.py": f"{SIDECAR}merge",
            "strict.sql": STRICT,
            "report.sql": "SELECT count(*) AS orders, sum(amount) AS amount FROM my_schema.strict",
        }
    )
    shop.source(Order(1, 1, 1), Order(2, 2, 2))
    assert cli("run").exit_code == 0
    shop.source(Order(1, 1, 1), Order(2, 2, 2), Order(3, 3, 3, amount=5000))
    failed = cli("run")
    assert failed.exit_code == 1
    assert "an order is that large" in failed.stdout
    assert "\n    models/my_schema/strict.sql:1:1\n    Fix the query, or what it reads, and run again." in failed.stdout
    assert "not run: it reads my_schema.strict, which this run could not make" in failed.stdout
    assert [shop.version(name) for name in ("merged", "strict", "report")] == [1, 0, 0]
    assert (len(shop.rows("strict")), shop.rows("report")) == (2, [(2, 20)])
    shop.source(Order(1, 1, 1), Order(2, 2, 2), Order(3, 3, 4, amount=500))
    assert cli("run").exit_code == 0
    assert [shop.version(name) for name in ("merged", "strict", "report")] == [2, 1, 1]
    assert shop.rows("report") == [(3, 520)]


BY_STATUS = """metadata = {"materialization": "incremental", "incremental": {
    "strategy": "delete_insert", "delete_insert": {"where_condition": "status = @kind"}}}
"""


def test_a_quote_and_a_semicolon_in_a_value_are_a_value_and_another_value_is_another_run(
    shop: Shop, counts: Counted
) -> None:
    write({"by_status.sql": "SELECT id, status FROM t_project.source_table", "by_status.py": BY_STATUS})
    odd = "o'pen; DROP TABLE t; -- \\"
    shop.source(Order(1, 1, 1), Order(2, 2, 2, status=odd), Order(3, 3, 3, status="shut"))
    assert of_each(shop.run(kind="open"), counts) == {"by_status": (1, 0, 0, 0)}
    assert of_each(shop.run(kind=odd), counts) == {"by_status": (1, 0, 0, 0)}  # though its inputs are what they were
    assert shop.rows("by_status") == [(1, "open"), (2, odd)]


IN_CHARGE = """metadata = {"materialization": "incremental", "incremental": {
    "strategy": "delete_insert", "delete_insert": {"time_column": "updated_at", "start_date": "2024-01-02"}}}
"""


def test_a_query_in_charge_of_its_window_is_bounded_by_the_start_of_the_model_and_by_what_the_run_is_given(
    shop: Shop, counts: Counted
) -> None:
    write({"recent.sql": f"{ORDERS} AND updated_at >= @start_dt", "recent.py": IN_CHARGE})
    orders = [Order(n, n, n) for n in (10, 30, 50, 70)]
    shop.source(*orders)
    assert of_each(shop.run(), counts) == {"recent": (3, 0, 0, 0)}
    shop.source(*orders, Order(90, 90, 90))
    later = shop.run(start_dt="2024-01-04T12:00:00Z")  # hour 84: what lies before it is not replaced by nothing
    assert of_each(later, counts) == {"recent": (1, 0, 0, 0)}
    assert [row[0] for row in shop.rows("recent")] == [30, 50, 70, 90]
    assert shop.verify()["recent"].equal


def test_a_change_of_mind_keeps_history_and_goes_on_by_the_new_time_column(shop: Shop, counts: Counted) -> None:
    write({"orders.sql": ORDERS, "orders.py": f"{SIDECAR}merge"})
    shop.source(Order(1, 1, 200), Order(2, 2, 2))
    shop.run()
    write({"orders.py": SIDECAR.replace("2024-01-01", "auto").replace('"description": "…", ', "") + "append"})
    found = shop.run()["orders"]
    assert isinstance(found.result, StepResult)
    assert (counts(found), found.result.status, found.result.version) == ((0, 0, 0, 2), "unchanged", 1)
    assert found.result.window.reason == "since its highest created_at 2024-01-01 02:00:00 UTC, lookback 7 days"
    (notice,) = found.result.notices
    assert notice.startswith("my_schema.orders was maintained by merge upsert on id, and is by append from this run on")
    again = shop.run()["orders"].result  # it is reported once, though nothing came
    assert (again.status, again.version, again.notices) == ("up to date", 1, ())
    shop.source(Order(1, 1, 200), Order(2, 2, 2).corrected(201), Order(3, 3, 3))
    assert counts(shop.run()["orders"]) == (2, 0, 0, 1)
    assert [row[:2] for row in shop.rows("orders")] == [(1, 10), (2, 10), (2, 11), (3, 10)]
    write({"orders.py": 'metadata = {"materialization": "table"}\n'})
    assert counts(shop.run()["orders"]) == (0, 0, 1, 3)
    assert shop.run()["orders"].result.notices == ()
