"""A pipeline's first run loads, its second moves only what is new, and a rerun does nothing."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from tidemill.errors import TidemillError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipelines.conftest import Shop

    from tidemill.run.results import StepResult

    Counted = Callable[[StepResult], tuple[int, ...]]

ORDERS = """
SOURCE orders TYPE CSV PARAMS { "path": "data/orders/*.csv" } INCREMENTAL BY updated_at LOOKBACK 2 HOURS;
LOAD raw_orders FROM orders MODE MERGE ON order_id;
CREATE TABLE daily MODE INCREMENTAL_MERGE ON day AS
SELECT date(created_at) AS day, count(*) AS orders, sum(amount) AS amount FROM raw_orders GROUP BY 1;
"""
COLUMNS = "order_id created_at updated_at amount"
DAY_1 = [
    (1, "2024-01-01 10:00:00", "2024-01-01 10:00:00", 10),
    (2, "2024-01-01 11:00:00", "2024-01-01 12:00:00", 20),
    (3, "2024-01-02 09:00:00", "2024-01-02 09:00:00", 30),
]


def test_a_first_run_loads_everything_and_a_second_with_nothing_new_reads_nothing(shop: Shop, counts: Counted) -> None:
    shop.says(ORDERS).data("orders/day1.csv", COLUMNS, *DAY_1)
    first = shop.run()
    assert [(name, outcome.ok) for name, outcome in first.items()] == [("raw_orders", True), ("daily", True)]
    assert counts(first["raw_orders"].result) == (3, 0, 0, 0)
    assert len(shop.rows("daily")) == 2
    again = shop.run()
    assert [outcome.result.status for outcome in again.values()] == ["up to date", "up to date"]
    assert (shop.version("raw_orders"), shop.version("daily")) == (0, 0)


def test_new_rows_corrections_ties_and_late_rows_enter_once(shop: Shop, counts: Counted) -> None:
    shop.says(ORDERS).data("orders/day1.csv", COLUMNS, *DAY_1)
    shop.run()
    shop.data(
        "orders/day2.csv",
        COLUMNS,
        (4, "2024-01-02 09:00:00", "2024-01-02 09:00:00", 40),  # ties with the watermark
        (5, "2024-01-02 08:00:00", "2024-01-02 08:00:00", 50),  # late, within the lookback
        (6, "2024-01-01 00:00:00", "2024-01-01 00:00:00", 60),  # later than the lookback
        (1, "2024-01-01 10:00:00", "2024-01-03 10:00:00", 11),  # a correction
    )
    result = shop.run()
    loaded = result["raw_orders"].result
    assert counts(loaded) == (2, 1, 0, 1)
    assert loaded.window.reason == "since 2024-01-02 09:00:00 UTC, less 2 hours"
    assert [row[0] for row in shop.rows("raw_orders")] == [1, 2, 3, 4, 5]
    assert counts(result["daily"].result) == (0, 2, 0, 0)


def test_the_newest_of_several_versions_of_a_row_wins_and_ties_are_an_error(shop: Shop) -> None:
    shop.says(ORDERS).data(
        "orders/a.csv",
        COLUMNS,
        (1, "2024-01-01 10:00:00", "2024-01-01 10:00:00", 10),
        (1, "2024-01-01 10:00:00", "2024-01-01 11:00:00", 99),
        (1, "2024-01-01 10:00:00", "2024-01-01 09:00:00", 5),
    )
    result = shop.step("raw_orders")
    assert result.notices == ("2 of 3 rows passed over: one row per key is kept",)
    assert [(row[0], row[3]) for row in shop.rows("raw_orders")] == [(1, 99)]
    shop.data("orders/b.csv", COLUMNS, (1, "2024-01-01 10:00:00", "2024-01-01 11:00:00", 100))
    error = shop.run()["raw_orders"].error
    assert isinstance(error, TidemillError)
    assert error.code == "merge.duplicate_keys"
    assert shop.version("raw_orders") == 0


def test_a_window_of_a_query_is_replaced_in_one_commit(shop: Shop, counts: Counted) -> None:
    shop.says(
        """
        SOURCE events TYPE CSV PARAMS { "path": "data/events.csv" } INCREMENTAL BY at;
        LOAD raw_events FROM events MODE APPEND;
        CREATE TABLE hourly MODE INCREMENTAL BY hour LOOKBACK 1 HOUR AS
        SELECT date_trunc('HOUR', at) AS hour, count(*) AS n FROM raw_events
        WHERE at >= @start_dt AND at < @end_dt GROUP BY 1;
        """
    ).data("events.csv", "id at", (1, "2024-01-01 10:10:00"), (2, "2024-01-01 11:10:00"))
    shop.run()
    shop.data("events.csv", "id at", (1, "2024-01-01 10:10:00"), (2, "2024-01-01 11:10:00"), (3, "2024-01-01 11:20:00"))
    result = shop.run()
    assert counts(result["raw_events"].result) == (1, 0, 0, 1)
    assert counts(result["hourly"].result) == (1, 0, 1, 1)
    at = datetime.fromisoformat
    assert shop.rows("hourly") == [(at("2024-01-01 10:00:00"), 1), (at("2024-01-01 11:00:00"), 2)]


def test_a_failed_step_stops_what_reads_it_and_the_rest_goes_on(shop: Shop) -> None:
    shop.says(
        ORDERS
        + """
        SOURCE broken TYPE CSV PARAMS { "path": "data/not_there.csv" };
        LOAD raw_broken FROM broken;
        CREATE TABLE report AS SELECT * FROM raw_broken;
        CREATE TABLE other AS SELECT count(*) AS n FROM raw_orders;
        """
    ).data("orders/day1.csv", COLUMNS, *DAY_1)
    result = shop.run()
    assert {name for name, outcome in result.items() if outcome.ok} == {"raw_orders", "daily", "other"}
    assert result["raw_broken"].error is not None
    assert "broken" in str(result["raw_broken"].error)
    assert (result["report"].ok, result["report"].waits_for) == (False, "main.raw_broken")
    assert shop.last is not None
    assert not shop.last.ok


def test_rows_gone_from_the_source_stay_under_merge_and_go_under_full_merge(shop: Shop, counts: Counted) -> None:
    text = """
        SOURCE customers TYPE CSV PARAMS { "path": "data/customers.csv" };
        LOAD kept FROM customers MODE MERGE ON id;
        LOAD synced FROM customers MODE FULL_MERGE ON id;
        LOAD replaced FROM customers;
    """
    shop.says(text).data("customers.csv", "id name", (1, "a"), (2, None))
    shop.run()
    shop.data("customers.csv", "id name", (2, None), (3, "c"))
    result = shop.run()
    found = {name: counts(outcome.result) for name, outcome in result.items()}
    assert found == {"kept": (1, 0, 0, 1), "synced": (1, 0, 1, 1), "replaced": (1, 0, 1, 1)}
    assert [row[0] for row in shop.rows("kept")] == [1, 2, 3]
    assert [row[0] for row in shop.rows("synced")] == [2, 3]
    assert shop.rows("synced") == shop.rows("replaced")


def test_a_load_time_in_a_query_makes_no_rerun_write(shop: Shop) -> None:
    shop.says(
        ORDERS
        + """
        CREATE TABLE stamped MODE MERGE ON order_id AS
        SELECT *, current_timestamp() AS loaded_at FROM raw_orders WHERE updated_at <= current_timestamp();
        """
    ).data("orders/day1.csv", COLUMNS, *DAY_1)
    shop.run()
    again = shop.run()["stamped"].result
    assert (again.status, again.counts.unchanged, shop.version("stamped")) == ("unchanged", 3, 0)


def test_a_changed_query_keeps_history_and_a_dropped_table_is_made_again(shop: Shop) -> None:
    shop.says(ORDERS).data("orders/day1.csv", COLUMNS, *DAY_1)
    shop.run()
    shop.says(ORDERS.replace("count(*) AS orders", "count(*) * 10 AS orders"))
    assert shop.load().plan()[1].notices == (
        "main.daily: its query changed since the last run; the next run makes it anew",
    )
    assert shop.step("daily").counts.updated == 2
    for file in sorted(shop.path("daily").rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    assert shop.step("daily").first_run
