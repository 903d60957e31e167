"""A plan says what a run would read, and why."""

from __future__ import annotations

import pytest
from support import NOW

from tidemill import Record, Table
from tidemill.declarations import Append, Condition, CurrentDate, DeleteInsert, Merge, StartVariable, Window
from tidemill.model.cursor import cursor
from tidemill.model.record import Snapshot
from tidemill.model.table import lookback
from tidemill.planning import USUAL, Mode, Request, StepPlan, backfill_of, fill, plan_step
from tidemill.planning.notices import Facts, Gap
from tidemill.results import CursorKind

BY_VARIABLE = Window("updated_at", moving_start=StartVariable("start_date"))
SINCE_START = DeleteInsert(condition=Condition(("updated_at >= ", ""), ("start_date",)))
MERGE = Merge(("id",))


def step(strategy, window: Window | None, watermark: str = "2024-01-15T10:30:00Z", request=USUAL, **given) -> StepPlan:
    record = Record("r", "t", 1, str(strategy), "", progress={"source": cursor("timestamp", watermark)})
    return plan_step(Table("my_schema.daily", "t", strategy, window), Snapshot(0, 1, record, 0), request, given, NOW)


@pytest.mark.parametrize(
    ("strategy", "window", "reason"),
    [
        (MERGE, Window("at", lookback=lookback("3 hours")), "since 2024-01-15 10:30:00 UTC, lookback 3 hours"),
        (
            Append(),
            Window("at", "2024-01-01", lookback("7 days")),
            "since 2024-01-15 10:30:00 UTC, lookback 7 days",
        ),
        (MERGE, Window("at", "2024-01-20"), "since 2024-01-20 00:00:00 UTC, its start"),
        (MERGE, Window("at", moving_start=CurrentDate()), "since 2024-06-01 00:00:00 UTC (CURRENT_DATE)"),
        (MERGE, BY_VARIABLE, "since 2024-02-01 00:00:00 UTC (from @start_date)"),
        (SINCE_START, BY_VARIABLE, "since 2024-02-01 00:00:00 UTC (from @start_date)"),
        (SINCE_START, None, "updated_at >= 2024-02-01 (from --vars)"),
        (
            DeleteInsert(condition=Condition(("at < ", " AND region = ", ""), ("end_date", "region"))),
            Window("at"),
            "since 2024-01-15 10:30:00 UTC · at < @end_date AND region = eu (from --vars)",
        ),
    ],
)
def test_the_reason_is_the_watermark_or_what_the_run_is_given(strategy, window, reason):
    assert step(strategy, window, start_date="2024-02-01", region="eu").reason == reason


def test_a_full_refresh_is_no_first_run_in_its_window_either():
    window = step(MERGE, Window("at"), request=Request(full_refresh=True)).window
    assert window is not None
    assert (window.start, window.reason) == (None, "full refresh")


def test_a_condition_on_the_window_alone_goes_by_the_watermark():
    by_day = "since 2024-01-15 10:30:00 UTC, from the beginning of that day"
    assert step(SINCE_START, Window("updated_at")).reason == by_day


def test_a_gap_between_the_watermark_and_the_start_is_a_notice():
    (notice,) = step(MERGE, BY_VARIABLE, start_date="2024-02-01").notices
    assert notice == (
        "my_schema.daily: this run starts at 2024-02-01 00:00:00 UTC, and its table was read up to "
        "2024-01-15 10:30:00 UTC: rows in between are not taken"
    )
    assert step(MERGE, BY_VARIABLE, start_date="2024-01-15").notices == ()


def test_a_first_run_and_one_that_is_given_its_start_have_no_use_for_the_variable():
    first = plan_step(Table("t", "t", SINCE_START, BY_VARIABLE), None)
    assert first.reason == "first run"
    asked = Request(backfill=backfill_of("2024-01-01", None, None))
    assert step(SINCE_START, BY_VARIABLE, request=asked).reason == "backfill from 2024-01-01"


APPENDED = Table("t", "t", Append(), Window("at", lookback=lookback("7 days")), sql_hash="new")
READ = Record("r", "t", 1, "append", "", progress={"source": cursor("timestamp", "2024-01-15")}, sql_hash="old")


def test_an_append_whose_query_changed_is_planned_from_behind_its_watermark_on():
    plan = plan_step(APPENDED, Snapshot(0, 1, READ, 0), now=NOW)
    assert (plan.mode, plan.gap) == (Mode.INCREMENTAL, None)
    assert plan.reason == "after 2024-01-15 00:00:00 UTC, where its query changed"
    assert plan.window is not None
    assert plan.window.predicate == "(`at` > TIMESTAMP '2024-01-15T00:00:00.000000Z' OR `at` IS NULL)"
    (notice,) = plan.notices
    assert notice.startswith("t: its query or its columns changed: rows up to 2024-01-15 00:00:00 UTC stay")


def test_a_plan_that_is_filled_with_the_facts_it_was_made_of_stays_as_it_is():
    facts = Facts(CursorKind.TIMESTAMP, ("id", "at"), lambda _: cursor("timestamp", "2024-01-10"))
    for record in (READ, READ.with_(sql_hash="new", columns=("id", "at")), READ.with_(reset=("source",))):
        plan = plan_step(APPENDED, Snapshot(0, 1, record, 0), now=NOW, facts=facts)
        assert fill(plan, facts) == plan
        assert plan.gap is None


def test_what_only_rows_or_the_source_can_tell_is_a_gap_that_facts_fill():
    adopted = plan_step(APPENDED, Snapshot(0, 0, None, None), now=NOW)
    assert (adopted.gap, adopted.reason) == (Gap.CURSOR_TYPE, "adopted: since its highest at")
    by_type = fill(adopted, Facts(CursorKind.TIMESTAMP))
    assert (by_type.gap, by_type.reason) == (Gap.HIGHEST, "adopted: since its highest at")
    filled = fill(adopted, Facts(CursorKind.TIMESTAMP, ("at",), lambda _: cursor("timestamp", "2024-01-10")))
    assert (filled.gap, filled.reason) == (
        None,
        "adopted: since its highest at 2024-01-10 00:00:00 UTC, lookback 7 days",
    )


def test_a_backfill_has_its_batches_once_the_type_of_its_time_is_known():
    request = Request(backfill=backfill_of("2024-01-01", "2024-01-03", "1 day"))
    plan = plan_step(APPENDED, None, request, now=NOW)
    assert (plan.mode, plan.gap, plan.batches) == (Mode.BACKFILL, Gap.CURSOR_TYPE, ())
    assert [str(part) for part in fill(plan, Facts(CursorKind.DATE)).batches] == [
        "2024-01-01 … 2024-01-02",
        "2024-01-02 … 2024-01-03",
        "2024-01-03 … 2024-01-04",
    ]
