"""A join as a table of a pipeline: runs join what both sides have in full, and give the history of one window."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest
from oracle import Meaning, Row

from tidemill.plan.backfills import backfill_of
from tidemill.plan.requests import Request
from tidemill.run.results import StepResult
from tidemill.state.delta_log import DeltaLog

if TYPE_CHECKING:
    from pipelines.conftest import Shop

    from tidemill.verify.result import Verified

PAYMENTS = """
CREATE TABLE payments AS
INCREMENTAL LEFT JOIN bank AS a BY process_date WITH sepa AS b BY process_date
ON a.reference = b.reference LOOK BACK 6 DAYS LOOK FORWARD 10 DAYS
SELECT a.*, b.amount AS sepa_amount;
"""
Given = tuple[int, int]  # a reference and a day of March


class Bank:
    """Two tables that others keep in the warehouse, and the join of a pipeline file over them."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.rows: dict[str, list[Given]] = {"bank": [], "sepa": []}

    def gets(self, table: str, *rows: Given) -> None:
        schema = pa.schema([("reference", pa.int64()), ("process_date", pa.date32()), ("amount", pa.int64())])
        coming = [(key, date(2024, 3, 1).replace(day=day), key * 100 + day) for key, day in rows]
        found = [dict(zip(schema.names, row, strict=True)) for row in coming]
        deltalake.write_deltalake(str(self.shop.path(table)), pa.Table.from_pylist(found, schema=schema), mode="append")
        self.rows[table] += rows

    def run(self, **asked: str) -> StepResult:
        request = Request(backfill=backfill_of(asked.get("start"), asked.get("end"), asked.get("batch")))
        (outcome,) = self.shop.load().run(self.shop.spark, request=request).outcomes
        assert isinstance(outcome.result, StepResult), outcome.error
        return outcome.result

    def verify(self) -> Verified:
        (found,) = self.shop.load().verify((), self.shop.spark)
        assert found.error is None
        return found

    def plan(self) -> str:
        (step,) = self.shop.load().plan()
        return step.reason

    def held(self) -> list[tuple[Any, ...]]:
        columns = ("reference", "process_date", "sepa_amount", "target_time", "join_status")
        found = self.shop.spark.read.format("delta").load(str(self.shop.path("payments"))).select(*columns).collect()
        return sorted((tuple(row) for row in found), key=repr)

    def meant(self, last: int) -> list[tuple[Any, ...]]:
        """What the join means up to a day of March, by the oracle."""
        a, b = ([Row(n, key, day) for n, (key, day) in enumerate(self.rows[name])] for name in ("bank", "sepa"))
        found = []
        for out in Meaning(a, b, 6, 10).rows("left", lambda t: t <= last):
            assert out.a is not None
            amount = None if out.b is None else b[out.b].key * 100 + b[out.b].t
            found.append((a[out.a].key, day_of(a[out.a].t), amount, day_of(out.target), out.status))
        return sorted(found, key=repr)

    def state(self) -> tuple[int, str]:
        """The version of the table, and how far it says that it has come."""
        snapshot = DeltaLog(str(self.shop.path("payments"))).snapshot()
        assert snapshot is not None
        assert snapshot.record is not None
        return snapshot.version, str(snapshot.record.progress["shop"])


def day_of(number: int) -> date:
    return date(2024, 3, number)


@pytest.fixture
def bank(shop: Shop) -> Bank:
    return Bank(shop.says(PAYMENTS))


def test_every_run_joins_what_both_sides_have_in_full_and_the_history_is_that_of_one_window(bank: Bank) -> None:
    bank.gets("bank", (1, 2), (2, 3), (3, 6), (4, 6), (5, 8))
    bank.gets("sepa", (1, 1), (2, 3), (3, 8))
    assert bank.plan() == "first run: 2024-03-01 … 2024-03-07"
    first = bank.run()
    assert first.window is not None
    assert (first.window.reason, first.status) == ("first run: 2024-03-01 … 2024-03-07", "created")
    assert first.joined is not None
    assert first.joined.to_json() == {"matched": 2, "late": 1, "outdated": 0, "waiting": 2, "oldest": "2024-03-06"}
    assert bank.held() == bank.meant(7)
    assert bank.state() == (0, "2024-03-07")
    assert (bank.run().status, bank.plan()) == ("up to date", "up to date: its inputs are unchanged")

    # the eighth was half filled, and one side goes quiet while the other one goes on for a week
    bank.gets("bank", (4, 8), (6, 8), (6, 9), (7, 15))
    quiet = (
        "nothing new: joined up to 2024-03-07 · sepa holds it back: its newest is 2024-03-08, that of bank 2024-03-15"
    )
    assert bank.plan() == quiet
    waits = bank.run()
    assert waits.window is not None
    assert (waits.window.reason, waits.status, bank.state()) == (quiet, "unchanged", (0, "2024-03-07"))

    bank.gets("sepa", (5, 8), (6, 14), (7, 20))
    assert bank.plan().startswith("2024-03-08 … 2024-03-14 · bank holds it back: its newest is 2024-03-15")
    second = bank.run()
    assert (second.status, second.counts.inserted, second.counts.deleted) == ("changed", 4, 0)
    assert bank.held() == bank.meant(14)

    # days without rows are joined too: what was never met becomes outdated in them
    bank.gets("bank", (8, 29))
    bank.gets("sepa", (9, 29))
    bank.run()
    assert bank.state() == (2, "2024-03-28")
    assert bank.held() == bank.meant(28)
    assert [row[4] for row in bank.held()].count("outdated") == 2

    again = bank.run(start="2024-03-01", end="2024-03-31", batch="7 days")
    assert (again.status, again.counts.inserted, again.counts.deleted) == ("unchanged", 0, 0)
    assert bank.state() == (2, "2024-03-28")
    assert bank.verify().equal
    assert bank.verify().against == "one window over all of it"

    # a row below what was joined: two outdated rows have found their partner
    bank.gets("sepa", (4, 12))
    late = bank.verify()
    assert (late.missing.count, late.extra.count) == (2, 2)
    assert late.remedies[0] == (
        "2 rows belong to windows joined before them: rows of its sides came or changed behind it. A backfill over "
        "those windows (the samples have their target_time) joins them again: tidemill run -s main.payments --start …"
    )
    mended = bank.run(start="2024-03-10")
    assert (mended.counts.inserted, mended.counts.deleted) == (2, 2)
    assert bank.held() == bank.meant(28)
    assert bank.verify().equal
