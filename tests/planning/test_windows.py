"""The window of a run whose start, or end, the run is given."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from support import NOW

from tidemill import Cursor, Record, Table
from tidemill.declarations import Append, DeleteInsert, Merge, Query, StartVariable, Window
from tidemill.model.cursor import cursor
from tidemill.model.record import Snapshot
from tidemill.model.table import lookback
from tidemill.planning import backfill_of
from tidemill.planning.windows import WindowPlan, plan_window
from tidemill.results import CursorKind

if TYPE_CHECKING:
    from datetime import datetime

    from tidemill.model.strategy import Strategy

BY_VARIABLE = Window("at", lookback=lookback("3 hours"), moving_start=StartVariable("start_date"))


def at(text: str) -> Cursor:
    return cursor(CursorKind.TIMESTAMP, text)


def window(
    strategy: Strategy, watermark: str | None, backfill: tuple[str | None, str | None] | None = None, **variables: str
) -> WindowPlan:
    """The window of a table that was read up to this watermark, by another query; None for a first run."""
    record = Record("r", "t", 1, str(strategy), "", progress={"source": at(watermark or "2024-01-01")}, sql_hash="old")
    asked = backfill_of(*backfill, None) if backfill else None
    (part,) = asked.parts(CursorKind.TIMESTAMP, NOW, {}) if asked else (None,)
    return plan_window(
        Table("t", "t", strategy, BY_VARIABLE, sql_hash="new"),
        CursorKind.TIMESTAMP,
        (),
        Snapshot(0, 1, record, 0) if watermark else None,
        lambda _: None,
        NOW,
        part,
        variables,
    )


def test_a_run_from_a_given_start_on_is_bounded_by_it_and_open_above():
    found = window(Merge(("id",)), "2024-03-01", start_date="2024-02-01")
    assert (found.start, found.end, found.exclusive) == (at("2024-02-01"), None, False)
    assert found.reason == "since 2024-02-01 00:00:00 UTC (from @start_date)"
    assert found.next_watermark(at("2024-03-05"), NOW) == at("2024-03-05")
    assert (found.is_partial, found.is_backfill) == (True, False)
    first = window(Merge(("id",)), None, start_date="2024-02-01")
    assert (first.start, first.reason, first.is_partial) == (None, "first run", False)


def test_a_start_above_the_watermark_leaves_a_gap_and_does_not_move_it():
    found = window(Merge(("id",)), "2024-03-01", start_date="2024-03-02")
    assert found.next_watermark(at("2024-03-05"), NOW) == at("2024-03-01")
    assert found.notice is not None
    assert found.notice.endswith("rows in between are not taken")


@pytest.mark.parametrize("variables", [{}, {"start_date": "2024-02-01"}])
def test_an_asked_start_wins_over_the_declared_one(variables):
    found = window(Merge(("id",)), "2024-03-01", ("2024-01-10", None), **variables)
    assert (found.start, found.reason) == (at("2024-01-10"), "backfill 2024-01-10 00:00:00 UTC … the end")


def test_an_asked_end_leaves_the_start_to_the_variable():
    found = window(Merge(("id",)), "2024-03-01", (None, "2024-02-10"), start_date="2024-02-01")
    assert (found.start, found.end) == (at("2024-02-01"), at("2024-02-11"))


def test_an_append_reaches_below_the_change_of_its_query_where_it_is_given_such_a_start():
    below = window(Append(), "2024-03-01", start_date="2024-02-01")
    assert (below.start, below.exclusive, below.floor) == (at("2024-02-01"), False, at("2024-03-01"))
    assert below.notice == (
        "its query or its columns changed: rows up to 2024-03-01 00:00:00 UTC were made by the old query, "
        "and such as the new one gives otherwise enter beside them"
    )
    assert "rows in between are not taken" in str(window(Append(), "2024-03-01", start_date="2024-03-02").notice)


def test_a_given_end_ends_the_window_of_a_query_in_charge_of_it_so_that_no_row_behind_it_is_deleted():
    query = Query(("SELECT * FROM e WHERE at >= ", " AND at < ", ""), ("start_dt", "end_dt"))
    table = Table("t", "t", DeleteInsert(), Window("at"), producer=query, owns_window=True)
    record = Record("r", "t", 1, "delete_insert", "", progress={"source": at("2024-03-01")})

    def planned(**variables: str) -> WindowPlan:
        return plan_window(
            table, CursorKind.TIMESTAMP, (), Snapshot(0, 1, record, 0), lambda _: None, NOW, variables=variables
        )

    assert planned(end_dt="2024-03-05").predicate == (
        "(`at` >= TIMESTAMP '2024-03-01T00:00:00.000000Z' AND `at` < TIMESTAMP '2024-03-05T00:00:00.000000Z' "
        "OR `at` IS NULL)"
    )
    assert (planned(start_dt="2024-02-01").start, planned().end) == (at("2024-02-01"), None)


def test_the_window_of_a_query_that_goes_by_days_has_whole_days_as_the_query_does():
    query = Query(("SELECT * FROM e WHERE at >= ", " AND at < ", ""), ("start_date", "end_date"))
    record = Record("r", "t", 1, "append", "", progress={"source": at("2024-03-10T10:30:00Z")})
    table = Table("t", "t", Append(), Window("at"), producer=query, owns_window=True)

    def planned(now: datetime, known: Record = record, **variables: str) -> WindowPlan:
        snapshot = Snapshot(0, 1, known, 0)
        return plan_window(table, CursorKind.TIMESTAMP, (), snapshot, lambda _: None, now, variables=variables)

    found = planned(NOW, end_date="2024-03-12T01:00:00Z")
    assert (found.start, found.end) == (at("2024-03-10"), at("2024-03-13"))
    assert found.reason == "since 2024-03-10 10:30:00 UTC, from the beginning of that day"
    new_york = NOW.astimezone(ZoneInfo("America/New_York"))  # on that day clocks are put forward
    found = planned(new_york, end_date="2024-03-10T12:00:00Z")
    assert (found.start, found.end) == (at("2024-03-10T05:00:00Z"), at("2024-03-11T04:00:00Z"))
    changed = planned(NOW, replace(record, sql_hash="old"))
    assert (changed.start, changed.exclusive) == (at("2024-03-10T10:30:00Z"), True)
