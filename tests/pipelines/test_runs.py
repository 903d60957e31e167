"""Which version of a row a pipeline keeps, and which columns make no rerun write. test_golden has the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.errors import TidemillError

if TYPE_CHECKING:
    from pipelines.conftest import Shop

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


def test_the_newest_of_several_versions_of_a_row_wins_and_ties_are_an_error(shop: Shop) -> None:
    shop.says(ORDERS).data(
        "orders/a.csv",
        COLUMNS,
        (1, "2024-01-01 10:00:00", "2024-01-01 10:00:00", 10),
        (1, "2024-01-01 10:00:00", "2024-01-01 11:00:00", 99),
        (1, "2024-01-01 10:00:00", "2024-01-01 09:00:00", 5),
    )
    result = shop.step("raw_orders")
    assert result.notices == ("2 of 3 rows skipped: one row per key is kept",)
    assert [(row[0], row[3]) for row in shop.rows("raw_orders")] == [(1, 99)]
    shop.data("orders/b.csv", COLUMNS, (1, "2024-01-01 10:00:00", "2024-01-01 11:00:00", 100))
    error = shop.run()["raw_orders"].error
    assert isinstance(error, TidemillError)
    assert error.code == "merge.duplicate_keys"
    assert shop.version("raw_orders") == 0


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
