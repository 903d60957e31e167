"""A caller's session with a zone of its own: days are that zone's, and no row is lost between them and UTC."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from models.conftest import Order, Shop, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY = "SELECT id, amount, updated_at FROM t_project.source_table"
MODEL = """metadata = {{
    "materialization": "incremental",
    "incremental": {{"strategy": "delete_insert", "delete_insert": {{
        "where_condition": "updated_at >= @start_date", "time_column": "updated_at", "start_date": "{start}"}}}},
}}
"""


def shop_in(spark: SparkSession, zone: str, start: str) -> Shop:
    """A shop on a session of this zone, with one model."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    write({"orders.sql": QUERY, "orders.py": MODEL.format(start=start)})
    return Shop(session)


def test_a_condition_on_the_day_of_the_window_takes_all_rows_of_the_window(spark: SparkSession) -> None:
    """The watermark is 02:00 in UTC, and the day of New York that it lies in began 21 hours before."""
    shop = shop_in(spark, "America/New_York", "auto")
    shop.source(Order(1, 0, 26))
    shop.run()
    shop.source(Order(1, 0, 26), Order(2, 0, 27), Order(3, 0, 30))
    assert shop.run()["orders"].error is None
    assert shop.rows("orders", "id") == [(1,), (2,), (3,)]
    assert shop.verify("orders")["orders"].equal


def test_a_bare_date_is_the_midnight_of_the_session(spark: SparkSession) -> None:
    """The second of January begins in Tokyo at hour 15 of the first."""
    shop = shop_in(spark, "Asia/Tokyo", "@start_date")
    before = [Order(1, 0, 14), Order(2, 0, 16), Order(3, 0, 30)]
    shop.source(*before)
    shop.run()
    shop.source(*(replace(order, amount=11) for order in before))
    result = shop.run(start_date="2024-01-02")["orders"].result
    assert shop.rows("orders", "id", "amount") == [(1, 10), (2, 11), (3, 11)]
    assert result.window.reason == "since 2024-01-01 15:00:00 UTC (from @start_date)"
