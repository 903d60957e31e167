"""A join as a table of a pipeline: runs join what both sides have in full, and give the history of one window."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest
from delta_rows import delta_rows
from oracle import Meaning, Row
from support import moment

from tidemill.api.workspace import Workspace
from tidemill.execution import StepResult
from tidemill.formats.delta.log import DeltaLog
from tidemill.planning import Request, backfill_of

if TYPE_CHECKING:
    from cli.conftest import Cli
    from pipelines.conftest import Shop

    from tidemill import Verified

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
        return " · ".join([step.reason, *step.notices])

    def held(self) -> list[tuple[Any, ...]]:
        columns = ("reference", "process_date", "sepa_amount", "target_time", "join_status")
        return sorted(delta_rows(self.shop.path("payments"), *columns), key=repr)

    def size(self, table: str, last: int) -> int:
        """The size of the files that begin before a day of March, or on it."""
        files = pa.table(deltalake.DeltaTable(str(self.shop.path(table))).get_add_actions(flatten=True)).to_pylist()
        return sum(file["size_bytes"] for file in files if file["min.process_date"].day <= last)

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


def test_every_run_joins_what_both_sides_have_in_full_and_the_history_is_that_of_one_window(
    bank: Bank, cli: Cli
) -> None:
    bank.gets("bank", (1, 2), (2, 3), (3, 6), (4, 6), (5, 8))
    bank.gets("sepa", (1, 1), (2, 3), (3, 8))
    assert bank.plan() == "first run: 2024-03-01 … 2024-03-07"
    first = cli("run", "shop.sql").output
    assert (
        "joined           2 rows   first run: 2024-03-01 … 2024-03-07 · 2 matched · 1 arrived late · 2 waiting" in first
    )
    assert bank.held() == bank.meant(7)
    assert bank.state() == (0, "2024-03-07")
    assert "2 since 2024-03-06 (1 day)" in cli("status", "shop.sql").output
    assert (bank.run().status, bank.plan()) == ("up to date", "up to date: its inputs are unchanged")

    # the eighth was half filled, and one side goes quiet while the other one goes on for a week
    bank.gets("bank", (4, 8), (6, 8), (6, 9), (7, 15))
    behind = "sepa holds it back: its newest is 2024-03-08, that of bank 2024-03-15"
    assert bank.plan() == f"nothing new: joined up to 2024-03-07 · {behind}"

    # days without rows are joined too: what was never met becomes outdated in them
    bank.gets("sepa", (5, 8), (6, 14), (7, 20), (9, 29))
    bank.gets("bank", (8, 30))
    planned = bank.plan()
    assert planned.startswith("2024-03-08 … 2024-03-28 · sepa holds it back: its newest is 2024-03-29")
    second = bank.run()
    assert planned.startswith(f"{second.reason} · "), "what the plan says is what the run does"
    assert (second.status, second.counts.inserted, second.counts.deleted) == ("changed", 7, 0)
    assert second.bytes_read == bank.size("bank", 28) + bank.size("sepa", 28)
    assert bank.size("bank", 28) < bank.size("bank", 31)
    assert bank.held() == bank.meant(28)
    assert bank.state() == (1, "2024-03-28")
    assert [row[4] for row in bank.held()].count("outdated") == 2

    again = bank.run(start="2024-03-01", end="2024-03-31")
    assert (again.status, again.counts.inserted, again.counts.deleted) == ("unchanged", 0, 0)
    assert bank.state() == (1, "2024-03-28")

    # a row below what was joined: two outdated rows have found their partner
    bank.gets("sepa", (4, 12))
    late = bank.verify()
    assert (late.against, late.missing.count, late.extra.count) == ("one window over all of it", 2, 2)
    assert late.remedies[0] == (
        "2 rows belong to windows joined before them: rows of its sides came or changed behind it. A backfill over "
        "those windows (the samples have their target_time) joins them again: "
        f"tidemill run {bank.shop.file} -s payments --start …"
    )
    mended = bank.run(start="2024-03-10")
    assert (mended.counts.inserted, mended.counts.deleted) == (2, 2)
    assert bank.held() == bank.meant(28)

    found = cli("join-stats", "payments", "shop.sql", "--within", "5 days", "--format", "json", "--svg", "payments.svg")
    near = json.loads(found.output)
    assert (near["matches"], near["apart"]) == (7, {"-1": 1, "0": 2, "2": 1, "4": 1, "5": 2})
    assert Path("payments.svg").read_text().startswith("<svg")


def test_only_a_join_has_arrivals(bank: Bank, cli: Cli) -> None:
    bank.gets("bank", (1, 2))
    bank.gets("sepa", (1, 2))
    assert "No table bank is declared.\n  The tables are payments." in cli("join-stats", "bank", "shop.sql").stderr
    bank.shop.says(f"{PAYMENTS} CREATE TABLE other AS SELECT 1 AS one;")
    assert "other is no incremental join." in cli("join-stats", "other", "shop.sql").stderr


HOURS = {
    "tidemill.toml": 'name = "bank"',
    "pipelines/met.sql": """
        CREATE TABLE met AS
        INCREMENTAL FULL JOIN bank AS x BY at WITH sepa AS y BY at ON x.k = y.k AND x.k < @below
        LOOK BACK 1 HOUR LOOK FORWARD 2 HOURS UP TO @moment TIME AS met_at STATUS AS how_so SUFFIXES ('', '_other')
        SELECT *, @below AS below, current_timestamp() AS loaded_at;
    """,
    "models/main/again.sql": "SELECT a.k, b.at, @below AS below",
    "models/main/again.py": """metadata = {
        "materialization": "incremental_join",
        "incremental_join": {
            "a": "met", "a_time": "met_at", "b": "bank", "b_time": "at", "how": "inner",
            "on": [["k", "K"], "a.k < @below"], "look_back": "9 hours", "look_forward": "0 hours", "time": "found_at",
        },
    }""",
}


def stamps(shop: Shop, table: str, *rows: tuple[int, int]) -> None:
    """Rows of a key and the hour at which it came."""
    found = [{"k": key, "at": moment(hour)} for key, hour in rows]
    schema = pa.schema([("k", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))])
    deltalake.write_deltalake(str(shop.path(table)), pa.Table.from_pylist(found, schema=schema), mode="append")


def test_windows_of_timestamps_are_half_open_and_a_model_that_joins_a_join_knows_that_its_windows_are_final(
    shop: Shop,
) -> None:
    for name, text in HOURS.items():
        (shop.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (shop.folder / name).write_text(text)
    stamps(shop, "bank", (1, 0), (2, 1), (3, 4), (9, 9))
    stamps(shop, "sepa", (1, 2), (4, 1), (3, 4))

    def run(moment: str) -> None:
        outcome = Workspace.load(shop.folder, given={"moment": moment, "below": "9"}).run(shop.spark)
        assert outcome.ok, outcome.outcomes

    def held(table: str, *named: str) -> list[tuple[Any, ...]]:
        rows = shop.spark.read.format("delta").load(str(shop.path(table))).selectExpr(*named).collect()
        return sorted((tuple(row) for row in rows), key=repr)

    columns = "hour(met_at)", "k", "k_other", "how_so"
    run("2024-01-01T04:00:00Z")
    before = [(2, 1, 1, "b_late"), (2, None, 4, "outdated"), (3, 2, None, "outdated")]
    assert held("met", *columns) == before
    assert held("again", "k", "hour(found_at)", "below") == [(1, 2, "9"), (2, 3, "9")]
    run("2024-01-01T05:00:00Z")
    assert held("met", *columns) == [*before, (4, 3, 3, "same_time")]
    assert held("met", "below", "at_other IS NULL", "waited")[0] == ("9", False, 0)
    assert held("again", "k", "hour(found_at)", "below") == [(1, 2, "9"), (2, 3, "9"), (3, 4, "9")]


def test_what_is_wrong_with_a_join_leaves_its_table_as_it_was(bank: Bank) -> None:
    bank.gets("bank", (1, 2), (2, 9))
    bank.gets("sepa", (1, 1), (2, 9))
    shop = bank.shop

    def error() -> str:
        (outcome,) = shop.load().run(shop.spark).outcomes
        assert outcome.error is not None
        return f"[{outcome.error.code}] {outcome.error.problem}"

    shop.says(PAYMENTS.replace("a.*,", "a.*, 1 AS waited,"))
    assert error() == (
        "[join.column_taken] The SELECT of payments gives a column waited, which is one of the join's own."
    )
    shop.says(PAYMENTS.replace("b.amount AS sepa_amount", "b.*"))
    assert error() == "[join.column_taken] The SELECT of payments gives two columns of the name reference."
    shop.says(PAYMENTS.replace("b.amount", "b.amuont"))
    assert error().startswith("[join.bad_select] The SELECT of payments cannot be read: ")
    shop.says(PAYMENTS.replace("6 DAYS", "6 HOURS"))
    assert error().startswith("[join.bad_length] look_back is 6 hours, which is no length between times of type date.")
    shop.says(PAYMENTS.replace("b.reference", "b.ref"))
    assert error().startswith("[join.bad_condition] The condition of the join does not fit its rows: ")
    nameless = pa.table({"reference": [7], "process_date": pa.array([None], pa.date32()), "amount": [1]})
    deltalake.write_deltalake(str(shop.path("sepa")), nameless, mode="append")
    shop.says(PAYMENTS)
    assert error().startswith("[join.null_times] 1 row of b has no process_date: nobody can say when it came")
    assert not shop.path("payments").exists()
