"""Where a run starts whose start is a variable or the current day."""

from __future__ import annotations

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest

from tidemill import Cursor, Table
from tidemill.declarations import Append, Condition, CurrentDate, DeleteInsert, Query, StartVariable, Window
from tidemill.errors import ArgumentError, Origin
from tidemill.model.cursor import cursor
from tidemill.model.table import lookback
from tidemill.planning.starts import Start, end_of, follows_variables, start_of, window_for
from tidemill.results import CursorKind

NOW = datetime(2024, 6, 1, 12, tzinfo=UTC)
THERE = Origin("models/my_schema/daily.py", 9, 5)
SINCE_START = Condition(("updated_at >= ", ""), ("start_date",), THERE)


def at(text: str, kind: CursorKind = CursorKind.TIMESTAMP) -> Cursor:
    return cursor(kind, text)


def start(window: Window, watermark: str | None = None, *, first_run: bool = False, **variables: str) -> Start:
    seen = window_for(Table("t", "t", Append(), window), variables, first_run=first_run)
    return start_of(seen, CursorKind.TIMESTAMP, at(watermark) if watermark else None, variables, NOW)


def conditioned(window: Window) -> Table:
    return Table("my_schema.daily", "daily", DeleteInsert(condition=SINCE_START), window)


def owning(window: Window) -> Table:
    query = Query(("SELECT * FROM e WHERE at >= ", " AND at < ", ""), ("start_dt", "end_date"), THERE)
    return Table("main.hourly", "hourly", DeleteInsert(), window, producer=query, owns_window=True, origin=THERE)


BY_VARIABLE = Window("at", lookback=lookback("3 hours"), moving_start=StartVariable("start_date", THERE))
BY_DAY = Window("at", lookback=lookback("3 hours"), moving_start=CurrentDate())
BY_LITERAL = Window("at", "2024-01-01", lookback("3 hours"))


def test_a_run_starts_at_the_watermark_minus_the_lookback():
    assert start(Window("at", lookback=lookback("3 hours")), "2024-03-01") == Start(at("2024-02-29T21:00:00Z"))
    assert start(Window("at"), first_run=True) == Start(None)


def test_a_literal_bounds_every_run_and_a_bare_date_is_its_midnight():
    assert start(BY_LITERAL, first_run=True) == Start(at("2024-01-01T00:00:00Z"))
    assert start(BY_LITERAL, "2024-03-01") == Start(at("2024-02-29T21:00:00Z"))
    early = start(BY_LITERAL, "2024-01-01T02:00:00Z")
    assert early == Start(at("2024-01-01"), "since 2024-01-01 00:00:00 UTC, its start")


def test_a_variable_is_where_a_later_run_starts_whatever_the_watermark_and_the_lookback():
    found = start(BY_VARIABLE, "2024-03-01", start_date="2024-02-01")
    assert found == Start(at("2024-02-01"), "since 2024-02-01 00:00:00 UTC (from @start_date)", given=True)


def test_a_first_run_neither_uses_nor_needs_the_variable():
    assert start(BY_VARIABLE, first_run=True) == Start(None)
    assert start(BY_VARIABLE, first_run=True, start_date="2024-02-01") == Start(None)


def test_a_run_that_starts_after_the_watermark_says_what_it_leaves_out():
    assert start(BY_VARIABLE, "2024-03-01", start_date="2024-03-02").notice == (
        "this run starts at 2024-03-02 00:00:00 UTC, and its table was read up to 2024-03-01 00:00:00 UTC: "
        "rows in between are not taken"
    )
    assert start(BY_VARIABLE, "2024-03-01", start_date="2024-03-01").notice is None
    assert start(BY_VARIABLE, None, start_date="2024-03-01").notice is None


def test_the_current_date_bounds_every_run_as_a_literal_does():
    assert start(BY_DAY, first_run=True) == Start(at("2024-06-01"))
    assert start(BY_DAY, "2024-06-01T10:00:00Z") == Start(at("2024-06-01T07:00:00Z"))
    late = start(BY_DAY, "2024-05-20")
    assert (late.value, late.reason) == (at("2024-06-01"), "since 2024-06-01 00:00:00 UTC (CURRENT_DATE)")
    assert "rows in between are not taken" in str(late.notice)


def test_days_begin_in_the_zone_of_the_run():
    tokyo = datetime(2024, 6, 1, 20, tzinfo=UTC).astimezone(ZoneInfo("Asia/Tokyo"))
    given = {"start_date": "2024-02-01"}
    assert start_of(BY_VARIABLE, CursorKind.TIMESTAMP, None, given, tokyo).value == at("2024-01-31T15:00:00Z")
    assert start_of(BY_LITERAL, CursorKind.TIMESTAMP, None, {}, tokyo).value == at("2023-12-31T15:00:00Z")
    assert start_of(BY_DAY, CursorKind.TIMESTAMP, None, {}, tokyo).value == at("2024-06-01T15:00:00Z")
    assert start_of(BY_DAY, CursorKind.DATE, None, {}, tokyo).value == at("2024-06-02", CursorKind.DATE)
    end = end_of(owning(BY_LITERAL), CursorKind.TIMESTAMP, {"end_date": "2024-02-03"}, tokyo)
    assert end == at("2024-02-02T15:00:00Z")
    precise = {"start_date": "2024-02-01T00:00:00Z"}
    assert start_of(BY_VARIABLE, CursorKind.TIMESTAMP, None, precise, tokyo).value == at("2024-02-01T00:00:00Z")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (CursorKind.DATE, date(2024, 6, 1)),
        (CursorKind.TIMESTAMP, datetime(2024, 6, 1, tzinfo=UTC)),
        (CursorKind.TIMESTAMP_NTZ, datetime(2024, 6, 1)),  # noqa: DTZ001
    ],
)
def test_the_current_date_has_the_type_of_the_time_column(kind, expected):
    found = start_of(BY_DAY, kind, None, {}, NOW)
    assert found.value == Cursor(kind, expected)


def test_the_current_date_is_no_number():
    with pytest.raises(ArgumentError) as failure:
        start_of(BY_DAY, CursorKind.INTEGER, None, {}, NOW)
    assert str(failure.value) == (
        "[window.bad_start] CURRENT_DATE cannot be where at starts, which is of the kind integer. "
        "Use a time column of dates or timestamps, or another start."
    )


def test_a_value_of_the_wrong_type_names_its_variable_and_its_place():
    with pytest.raises(ArgumentError) as failure:
        start(BY_VARIABLE, "2024-03-01", start_date="'; DROP TABLE t")
    assert str(failure.value) == (
        '[window.bad_value] @start_date is "\'; DROP TABLE t", which is no timestamp. '
        "Write a timestamp as 2024-01-31T10:30:00Z; a bare date is that day in the session's zone."
    )
    assert failure.value.origin == THERE


def test_a_run_that_is_given_its_start_needs_no_variable_and_no_day():
    for window in (BY_VARIABLE, BY_DAY):
        assert window_for(conditioned(window), {}, first_run=False, started=True).moving_start is None


@pytest.mark.parametrize("first_run", [True, False])
@pytest.mark.parametrize(("of", "name"), [(conditioned, "start_date"), (owning, "start_dt")])
def test_a_value_for_a_bound_that_is_asked_for_wins_over_the_bound_in_every_run(of, name, first_run):
    table = of(BY_LITERAL)
    seen = window_for(table, {name: "2024-02-01"}, first_run=first_run)
    found = start_of(seen, CursorKind.TIMESTAMP, at("2024-03-01"), {name: "2024-02-01"}, NOW)
    assert (found.value, found.given) == (at("2024-02-01"), True)
    assert window_for(table, {"end_date": "2024-02-01", "kind": "x"}, first_run=first_run) == BY_LITERAL


def test_a_value_for_the_end_ends_the_window_of_a_query_that_asks_for_it():
    given = {"end_date": "2024-02-03"}
    assert end_of(owning(BY_LITERAL), CursorKind.TIMESTAMP, given, NOW) == at("2024-02-03")
    assert end_of(owning(BY_LITERAL), CursorKind.TIMESTAMP, {}, NOW) is None
    assert end_of(conditioned(BY_LITERAL), CursorKind.TIMESTAMP, given, NOW) is None
    with pytest.raises(ArgumentError) as failure:
        end_of(owning(BY_LITERAL), CursorKind.DATE, {"end_date": "soon"}, NOW)
    assert failure.value.problem == "@end_date is 'soon', which is no date."


def test_what_a_run_takes_depends_on_what_it_is_given():
    region = Condition(("region = ", ""), ("region",))
    by_region = Table("t", "t", DeleteInsert(condition=region))
    assert follows_variables(by_region, {"region": "eu"}, first_run=True)
    assert follows_variables(conditioned(BY_VARIABLE), {"start_date": "2024-02-01"}, first_run=False)
    assert not follows_variables(conditioned(BY_VARIABLE), {"start_date": "2024-02-01"}, first_run=True)
    assert not follows_variables(conditioned(BY_LITERAL), {"kind": "x"}, first_run=False)
