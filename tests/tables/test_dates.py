"""Which dates a function is asked for: from its progress minus the lookback to today, whatever rows came."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest

from tidemill import Commit, Cursor, Record, Run, Table
from tidemill.declarations import Function, Merge, Window
from tidemill.errors import ArgumentError, StateError, TableError
from tidemill.model.cursor import duration
from tidemill.model.record import Snapshot
from tidemill.planning import Request, backfill_of, plan_step
from tidemill.planning.dates import fetches_of, progress_of, whole_of
from tidemill.results import CursorKind

if TYPE_CHECKING:
    from tidemill.planning.dates import Fetch

NOON = datetime(2026, 2, 4, 12, tzinfo=UTC)
FOREIGN = Commit(5, "", "CREATE OR REPLACE TABLE AS SELECT", {}, None, adds_rows=True, removes_rows=True)


def table(
    start: str | None = "2026-01-01", lookback: str | None = None, zone: str = "UTC", batch: str | None = None
) -> Table:
    function = Function(list, ZoneInfo(zone), duration(batch) if batch else None)
    window = Window("gameDate", start, duration(lookback) if lookback else None)
    return Table("bronze.games", "games", Merge(("id",)), window, input="function", producer=function)


def fetched(until: str | None, *foreign: Commit, **more: object) -> Snapshot:
    """A table that was fetched until a date, and what others did to it since."""
    progress = {"function": day(until)} if until else {}
    record = Record("run-0", "bronze.games", 1, "merge", "2026-02-01T06:00:00Z", progress=progress, **more)  # type: ignore[arg-type]
    return Snapshot(5, 1, record, 4, foreign)


def day(text: str) -> Cursor:
    return Cursor(CursorKind.DATE, date.fromisoformat(text))


def planned(
    of: Table, snapshot: Snapshot | None, *asked: str | None, held: Cursor | None = None, now: datetime = NOON
) -> list[Fetch]:
    progress = progress_of(of, snapshot, lambda _: held, now)
    done = snapshot.record.backfill if snapshot and snapshot.record else {}
    return fetches_of(of, progress, now, backfill_of(*(*asked, None, None, None)[:3]), done)  # type: ignore[arg-type]


def spans(fetches: list[Fetch]) -> list[str]:
    return [f"{each.first} … {each.last}" for each in fetches]


def reached(fetch: Fetch, now: datetime = NOON) -> str:
    found = fetch.next_watermark(day("2099-01-01"), now)
    return str(found)


def test_a_first_run_goes_from_the_start_to_today_both_included() -> None:
    (fetch,) = planned(table(), None)
    assert (spans([fetch]), fetch.mode, fetch.count) == (["2026-01-01 … 2026-02-04"], "first", 35)
    assert spans(planned(table(start=None), None)) == ["2026-02-03 … 2026-02-04"]


def test_later_runs_go_on_at_the_last_date_fetched_minus_the_lookback() -> None:
    (fetch,) = planned(table(), fetched("2026-02-03"))
    assert (spans([fetch]), fetch.mode) == (["2026-02-03 … 2026-02-04"], "incremental")
    assert spans(planned(table(lookback="3 days"), fetched("2026-02-03"))) == ["2026-01-31 … 2026-02-04"]
    assert spans(planned(table("2026-02-02", "3 weeks"), fetched("2026-02-03"))) == ["2026-02-02 … 2026-02-04"]


def test_progress_is_what_was_asked_for_and_not_what_rows_came() -> None:
    """60 days without a game: each run asks for two dates, and a schedule of next year does not run ahead."""
    known = fetched("2025-12-01")
    for number in range(60):
        now = datetime(2025, 12, 2, 12, tzinfo=UTC) + timedelta(days=number)
        (fetch,) = planned(table("2025-10-01"), known, now=now)
        assert fetch.count == 2
        assert fetch.next_watermark(None, now) == fetch.next_watermark(day("2099-01-01"), now)
        known = fetched(reached(fetch, now))
    assert known.record is not None
    assert str(known.record.progress["function"]) == "2026-01-30"


def test_today_is_a_day_of_the_declared_time_zone() -> None:
    night = datetime(2026, 2, 4, 3, tzinfo=UTC)
    assert spans(planned(table(start=None), None, now=night)) == ["2026-02-03 … 2026-02-04"]
    eastern = table(start=None, zone="America/New_York")
    assert spans(planned(eastern, None, now=night)) == ["2026-02-02 … 2026-02-03"]


def test_a_long_range_is_cut_into_batches_of_whole_dates() -> None:
    assert spans(planned(table(batch="2 weeks"), None)) == [
        "2026-01-01 … 2026-01-14",
        "2026-01-15 … 2026-01-28",
        "2026-01-29 … 2026-02-04",
    ]
    assert spans(planned(table("2026-01-29", batch="7 days"), None)) == ["2026-01-29 … 2026-02-04"]
    assert spans(planned(table("2025-12-31", batch="1 month"), None))[0] == "2025-12-31 … 2026-01-30"
    first, *_, last = planned(table(batch="2 weeks"), None)
    assert (reached(first), reached(last)) == ("2026-01-14", "2026-02-04")


def test_a_backfill_asks_for_the_dates_that_it_is_given() -> None:
    (fetch,) = planned(table(), fetched("2026-02-03"), "2026-01-10", "2026-01-12")
    assert (spans([fetch]), fetch.mode, fetch.count) == (["2026-01-10 … 2026-01-12"], "backfill", 3)
    assert reached(fetch) == "2026-02-03"  # never moved back
    assert spans(planned(table(), fetched("2026-02-01"), None, "2026-02-02")) == ["2026-02-01 … 2026-02-02"]
    (gap,) = planned(table(), fetched("2026-01-05"), "2026-01-10")
    assert (spans([gap]), reached(gap)) == (["2026-01-10 … 2026-02-04"], "2026-01-05")
    (ahead,) = planned(table(), fetched("2026-02-03"), "2026-02-03", "2026-03-01")
    assert reached(ahead) == "2026-02-04"  # dates to come are not complete
    with pytest.raises(ArgumentError, match="Nothing lies between 2026-01-12 and 2026-01-10"):
        planned(table(), fetched("2026-02-03"), "2026-01-12", "2026-01-10")
    with pytest.raises(ArgumentError, match="Dates cannot be cut into batches of 7"):
        planned(table(), None, "2026-01-01", None, "7")


def test_a_backfill_that_was_cut_short_goes_on_behind_its_last_batch() -> None:
    asked = ("2026-01-01", "2026-01-20", "7 days")
    first, second, last = planned(table(), fetched("2026-02-03"), *asked)
    assert (first.mark, last.mark) == (
        {"start": "2026-01-01", "end": "2026-01-20", "batch": "7 days", "reached": "2026-01-08"},
        {},
    )
    assert second.mark is not None
    cut = fetched("2026-02-03", backfill=second.mark)
    assert spans(planned(table(), cut, *asked)) == ["2026-01-15 … 2026-01-20"]
    assert len(planned(table(), cut, *asked[:2], "5 days")) == 4  # another one starts over


def test_a_table_without_a_record_goes_on_from_its_highest_time() -> None:
    bare = Snapshot(0, 0, None, None)
    assert spans(planned(table(), bare, held=day("2026-02-02"))) == ["2026-02-02 … 2026-02-04"]
    assert spans(planned(table(), bare, held=day("2026-09-01"))) == ["2026-02-04 … 2026-02-04"]  # a schedule
    moment = Cursor(CursorKind.TIMESTAMP, datetime(2026, 2, 2, 3, tzinfo=UTC))
    eastern = table(zone="America/New_York")
    assert spans(planned(eastern, bare, held=moment)) == ["2026-02-01 … 2026-02-04"]
    text = Cursor(CursorKind.STRING, "2026-02-03T19:00:00")
    assert spans(planned(table(), bare, held=text)) == ["2026-02-03 … 2026-02-04"]
    (empty,) = planned(table(), bare)
    assert (spans([empty]), empty.mode) == (["2026-01-01 … 2026-02-04"], "first")
    with pytest.raises(StateError, match=r"tidemill set-watermark function bronze\.games 2024-01-31"):
        planned(table(), bare, held=Cursor(CursorKind.INTEGER, 17))


def test_a_table_that_somebody_replaced_goes_on_from_the_lower_of_record_and_rows() -> None:
    backup = fetched("2026-02-04", FOREIGN)
    (fetch,) = planned(table(), backup, held=day("2026-02-03"))
    assert (spans([fetch]), fetch.reason) == (
        ["2026-02-03 … 2026-02-04"],
        "somebody else changed rows: since 2026-02-03",
    )
    assert spans(planned(table(), backup, held=day("2026-12-01"))) == ["2026-02-04 … 2026-02-04"]
    assert spans(planned(table(), backup)) == ["2026-01-01 … 2026-02-04"]


def test_a_table_that_is_taken_back_while_dates_are_fetched_skips_none() -> None:
    (fetch,) = planned(table(), fetched("2026-02-02"))
    assert reached(replace(fetch, watermark=day("2026-02-03"))) == "2026-02-04"  # another run came first
    assert reached(replace(fetch, watermark=day("2026-01-20"))) == "2026-01-20"  # somebody restored it


def test_a_watermark_that_was_reset_begins_at_the_start_again() -> None:
    (fetch,) = planned(table(), fetched("2026-02-03", reset=("function",)))
    assert (spans([fetch]), fetch.mode) == (["2026-01-01 … 2026-02-04"], "incremental")


def test_a_start_ahead_of_today_is_an_error() -> None:
    with pytest.raises(ArgumentError, match="2026-03-01 lies after 2026-02-04"):
        planned(table("2026-03-01"), None)


def test_a_rebuild_asks_for_all_dates_and_needs_to_know_where_they_begin() -> None:
    assert spans([whole_of(table(batch="7 days"), NOON)]) == ["2026-01-01 … 2026-02-04"]
    with pytest.raises(TableError, match="all but yesterday and today would be lost"):
        whole_of(table(start=None), NOON)


def test_a_plan_tells_the_dates_as_far_as_the_log_does() -> None:
    def told(of: Table, snapshot: Snapshot | None, *asked: str) -> str:
        given = backfill_of(*(*asked, None, None, None)[:3]) if asked else None  # type: ignore[arg-type]
        return plan_step(of, snapshot, Request(backfill=given), now=NOON).reason

    assert told(table(batch="7 days"), None) == "first run: 2026-01-01 … 2026-02-04, 35 dates in 5 batches"
    since = told(table(lookback="1 day"), fetched("2026-02-03"))
    assert since == "since 2026-02-03, lookback 1 day: 2026-02-02 … 2026-02-04, 3 dates"
    assert told(table(), fetched("2026-02-04")) == "since 2026-02-04: 2026-02-04, 1 date"
    assert told(table(), Snapshot(0, 0, None, None)) == "adopted: since its highest gameDate, to today"
    assert told(table(), fetched("2026-02-04", FOREIGN)) == "since its highest gameDate, to today"
    end = Request(backfill=backfill_of(None, "2026-02-03", None))
    until = plan_step(table(), Snapshot(0, 0, None, None), end, now=NOON).reason
    assert until == "adopted: since its highest gameDate, to 2026-02-03"
    backfill = told(table(), Snapshot(0, 0, None, None), "2026-01-01", "2026-01-02")
    assert backfill == "backfill from 2026-01-01 to 2026-01-02: 2026-01-01 … 2026-01-02, 2 dates"
    once = replace(table(), window=None)
    assert told(once, None) == "first run: its function is called once"


def test_a_run_has_its_dates_and_reports_them_as_they_come() -> None:
    told: list[date] = []
    run = Run(date(2026, 1, 30), date(2026, 2, 2), report=told.append)
    assert (len(run.dates), run.dates[-1], run.dates[1:3]) == (
        4,
        date(2026, 2, 2),
        [date(2026, 1, 31), date(2026, 2, 1)],
    )
    assert not told
    assert list(run.dates) == told
    assert not list(Run().dates)
    assert repr(run.dates) == "Dates(2026-01-30 … 2026-02-02)"
    with pytest.raises(LookupError, match="no Spark session"):
        _ = Run().spark
