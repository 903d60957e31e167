"""Queries that take charge of their window by its days: what they give beyond its start is neither lost nor doubled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from models.conftest import Order, write

if TYPE_CHECKING:
    from models.conftest import Shop

BY_DAYS = "SELECT id, updated_at FROM t_project.source_table WHERE updated_at >= @start_date AND updated_at < @end_date"
FURTHER = "SELECT id, updated_at FROM t_project.source_table WHERE updated_at >= @start_dt - INTERVAL 1 DAY"


def incremental(strategy: str) -> str:
    """A sidecar whose window follows the watermark."""
    return (
        f'metadata = {{"materialization": "incremental", "incremental": {{"strategy": "{strategy}", '
        f'"{strategy}": {{"time_column": "updated_at"}}}}}}\n'
    )


def test_a_query_that_starts_at_the_day_of_its_window_takes_each_row_once(shop: Shop) -> None:
    write(
        {
            "added.sql": BY_DAYS,
            "added.py": incremental("append"),
            "redone.sql": BY_DAYS,
            "redone.py": incremental("delete_insert"),
            "wider.sql": FURTHER,
            "wider.py": incremental("append"),
        }
    )
    before = [Order(1, 0, 30.5), Order(2, 0, 34.25)]
    shop.source(*before)
    shop.run()
    shop.source(*before, Order(3, 0, 31), Order(4, 0, 34.25), Order(5, 0, 40))
    found = shop.run()
    for name in ("added", "redone"):
        assert found[name].error is None
        assert shop.rows(name, "id") == [(n,) for n in range(1, 6)]
        assert found[name].result.window.reason == "since 2024-01-02 10:15:00 UTC, from the beginning of that day"
    error = found["wider"].error
    assert error is not None
    assert error.code == "append.outside"
    assert error.problem == (
        "2 rows of the query lie outside (`updated_at` >= TIMESTAMP '2024-01-02T10:15:00.000000Z' OR `updated_at` IS "
        "NULL), and an append looks only there for rows that it has."
    )
    assert shop.rows("wider", "id") == [(1,), (2,)]
