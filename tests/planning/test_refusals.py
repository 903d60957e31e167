"""What a table does not allow is known before a run begins."""

from __future__ import annotations

from tidemill import MergeStrategy, Table
from tidemill.declarations import Append, Merge
from tidemill.errors import Origin
from tidemill.model import RESET_ALLOWED
from tidemill.model.record import Snapshot
from tidemill.planning import USUAL, Request
from tidemill.planning.refusals import refusals

REFRESH = Request(full_refresh=True)
THERE = Snapshot(3, 4, None, None, rows=7)
KEPT = Snapshot(3, 4, None, None, properties={RESET_ALLOWED: "False"})


def table(strategy=None, **more) -> Table:
    return Table("shop.orders", "orders", strategy or Append(), origin=Origin("models/shop/orders.sql", 1), **more)


def told(declared: Table, snapshot: Snapshot | None, request: Request = REFRESH) -> list[str]:
    found = list(refusals(declared, snapshot, request))
    assert all(each.exit_code == 2 and each.origin == declared.origin for each in found)
    return [each.problem for each in found]


def test_history_that_is_to_be_kept_is_not_refreshed_whoever_says_so():
    assert told(table(reset_allowed=False), THERE) == [
        "shop.orders is declared reset_allowed = false: 7 rows of history would be replaced."
    ]
    assert told(table(), KEPT) == [
        "shop.orders has the property pipelines.reset.allowed = false: its rows of history would be replaced."
    ]
    assert told(table(reset_allowed=False), None) == []
    assert told(table(reset_allowed=False), THERE, USUAL) == []
    assert told(table(), THERE) == []


def test_an_update_neither_creates_nor_rebuilds_a_table():
    updating = table(Merge(("id",), MergeStrategy.UPDATE))
    assert told(updating, None, USUAL) == ["shop.orders is not there, and update changes only rows that are."]
    assert told(updating, THERE, USUAL) == []
    (problem,) = told(updating, THERE)
    assert problem.startswith("shop.orders cannot be rebuilt: update changes only rows that are there")
