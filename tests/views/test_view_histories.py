"""A chain of views under every kind of commit that its inputs can see: it stays what its queries give, exactly."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from views.conftest import FEED, MARKS, NO_MARKS

if TYPE_CHECKING:
    from collections.abc import Callable

    from views.conftest import Lake

ORDERS, CUSTOMERS = "id long, customer long, amount decimal(12,2), note string", "customer long, region string"
VIEWS = {
    "enriched": (
        "SELECT o.customer, o.amount, o.note, c.region FROM orders o LEFT JOIN customers c ON o.customer = c.customer"
    ),
    "per_customer": (
        "SELECT customer, region, count(*) AS n, sum(amount) AS amount, min(note) AS note\n"
        "FROM enriched GROUP BY customer, region"
    ),
    "known": (
        "SELECT c.customer, c.region, p.n, p.amount FROM customers c LEFT JOIN per_customer p\n"
        "ON c.customer = p.customer WHERE c.region <> 'nowhere'"
    ),
}


def order(key: int, customer: int | None, amount: str | None = "1.50", note: str | None = "a") -> tuple[object, ...]:
    return key, customer, None if amount is None else Decimal(amount), note


def append_delete_and_update(lake: Lake) -> None:
    """Duplicates and NULL keys come, one of several equal rows goes, and rows move to other keys."""
    lake.append("orders", order(20, 1), order(21, 1), order(22, None), order(23, None, None), order(24, 9, None, None))
    lake.sql("DELETE FROM {orders} WHERE id IN (20, 1)")
    lake.delta("orders").update(predicate="id = 2", updates={"customer": "3"})
    lake.sql("UPDATE {orders} SET customer = NULL WHERE id = 3")


def merge(lake: Lake) -> None:
    lake.sql(
        "MERGE INTO {orders} t USING (SELECT explode(array(4, 5, 30)) AS id) s ON t.id = s.id "
        "WHEN MATCHED AND t.id = 4 THEN DELETE WHEN MATCHED THEN UPDATE SET t.amount = t.amount + 1 "
        "WHEN NOT MATCHED THEN INSERT (id, customer, amount, note) VALUES (s.id, 2, 7.25, 'merged')"
    )


def overwrite(lake: Lake) -> None:
    lake.overwrite("orders", order(5, 1, "2.50"), order(6, 2), order(6, 2), order(40, 4))


def tidy(lake: Lake) -> None:
    """Nothing of that changes a row."""
    lake.delta("customers").optimize.compact()
    lake.sql("OPTIMIZE {orders}")


def restore_and_widen(lake: Lake) -> None:
    """Back to what was before the overwriting, and a column more, which no view reads."""
    lake.sql(f"RESTORE TABLE {{orders}} TO VERSION AS OF {lake.version('orders') - 2}")
    lake.sql("ALTER TABLE {orders} ADD COLUMN (more STRING)")
    lake.sql("UPDATE {orders} SET more = 'x' WHERE id = 5")
    lake.sql("INSERT INTO {orders} VALUES (50, 1, 3, 'n', 'more')")
    lake.tables["orders"] += ", more string"


def change_the_other_side(lake: Lake) -> None:
    """A customer moves, one vanishes, one comes twice, and one comes for whom there were orders before."""
    lake.sql("UPDATE {customers} SET region = 'asia' WHERE customer = 1")
    lake.delta("customers").delete("customer = 2")
    lake.append("customers", (3, "again"), (9, "late"), (None, "nobody"), (11, "nowhere"))


def change_all(lake: Lake) -> None:
    """Several commits on both sides between two runs, some of which take each other back; and a vacuum after."""
    lake.sql("DELETE FROM {orders} WHERE customer = 3")
    lake.append("orders", (*order(60, 9), None), (*order(61, 2), "more"))
    lake.sql("DELETE FROM {orders} WHERE id = 60")
    lake.sql("UPDATE {customers} SET region = NULL WHERE customer = 9")
    lake.delta("customers").update(predicate="customer = 1", updates={"region": "'eu'"})
    lake.delta("customers").vacuum(retention_hours=24 * 7, dry_run=False)


HISTORY = (
    append_delete_and_update,
    merge,
    overwrite,
    tidy,
    restore_and_widen,
    change_the_other_side,
    change_all,
)


@pytest.mark.parametrize(
    "properties", [MARKS, pytest.param({**NO_MARKS, **FEED}, marks=pytest.mark.slow)], ids=["marks", "feed"]
)
def test_a_chain_stays_exact_under_every_kind_of_commit(lake: Lake, properties: dict[str, str]) -> None:
    lake.spark_table(
        "orders", ORDERS, *(order(n, n % 4 or None) for n in range(1, 13)), order(7, 3), properties=properties
    )
    lake.spark_table("customers", CUSTOMERS, *((n, f"r{n % 2}") for n in range(1, 6)), properties=properties)
    for name, query in VIEWS.items():
        lake.view(name, query)
    lake.check_all(lake.run(), None)
    for happens in HISTORY:
        check_after(lake, happens)
    lake.check_again()


def check_after(lake: Lake, happens: Callable[[Lake], None]) -> None:
    happens(lake)
    steps = lake.run()
    lake.check_all(steps)
    assert happens is tidy or steps["enriched"].status == "changed", happens
