"""What the condition of a delete_insert, and the @names in it, are in one run."""

from __future__ import annotations

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest
from support import NOW

from tidemill import Cursor, Table
from tidemill.declarations import Append, Condition, DeleteInsert, Merge, NullTime, StartVariable, Window
from tidemill.model.cursor import cursor
from tidemill.model.table import lookback
from tidemill.planning.starts import literals_of, strategy_of, table_for
from tidemill.planning.windows import WindowPlan
from tidemill.results import CursorKind

SINCE_START = Condition(("updated_at >= ", ""), ("start_date",))
BY_VARIABLE = Window("at", moving_start=StartVariable("start_date"))
BY_LITERAL = Window("at", "2024-01-01", lookback("3 hours"))


def table(strategy=None, **more) -> Table:
    return Table("my_schema.daily", "daily", strategy or DeleteInsert(condition=SINCE_START), **more)


def test_a_condition_has_literals_in_the_place_of_its_variables():
    condition = Condition(("status = ", " AND day >= ", ""), ("kind", "start_date"))
    found = strategy_of(
        table(DeleteInsert(condition=condition)), {"kind": "'x'", "start_date": "DATE '2024-01-01'"}, first_run=False
    )
    assert found == DeleteInsert("status = 'x' AND day >= DATE '2024-01-01'")


def test_a_condition_on_the_start_has_no_part_in_a_first_run():
    windowed = table(window=BY_VARIABLE)
    assert strategy_of(windowed, {"start_date": "'2024-02-01'"}, first_run=True) == DeleteInsert()
    assert strategy_of(windowed, {"start_date": "'2024-02-01'"}, first_run=False) == DeleteInsert(
        "updated_at >= '2024-02-01'"
    )
    bounded = table(window=BY_LITERAL)
    assert strategy_of(bounded, {"start_date": "'2024-02-01'"}, first_run=True).predicate is not None


@pytest.mark.parametrize("strategy", [Append(), Merge(("id",)), DeleteInsert("day > 1"), DeleteInsert()])
def test_other_strategies_stay_as_they_are(strategy):
    assert strategy_of(table(strategy), {}, first_run=False) == strategy


def since(moment: str, null_time: NullTime = NullTime.SKIP) -> WindowPlan:
    return WindowPlan("at", CursorKind.TIMESTAMP, "", null_time, cursor("timestamp", moment))


def test_a_quote_and_a_semicolon_inside_a_value_stay_a_value():
    kind = Condition(("status = ", ""), ("kind",))
    found = table_for(table(DeleteInsert(condition=kind)), None, {"kind": "x'; DROP TABLE t; --"}, NOW, first_run=False)
    assert found.strategy == DeleteInsert("status = 'x\\'; DROP TABLE t; --'")


def test_the_variable_at_which_runs_start_is_the_start_of_the_window():
    condition = Condition(("at >= ", " AND region = ", ""), ("day", "region"))
    by_day = table(DeleteInsert(condition=condition), window=Window("at", moving_start=StartVariable("day")))
    found = table_for(by_day, since("2024-01-01"), {"day": "2024-02-01", "region": "eu"}, NOW, first_run=False)
    assert found.strategy == DeleteInsert("at >= TIMESTAMP '2024-01-01T00:00:00.000000Z' AND region = 'eu'")
    assert found.config_hash != by_day.config_hash, "which is why no record may be made of it"


def test_rows_without_a_time_match_a_condition_that_cannot_tell_unless_they_are_skipped():
    eu = table(DeleteInsert("region = 'eu'"), window=BY_LITERAL)
    for null_time in (NullTime.FAIL, NullTime.INCLUDE):
        found = table_for(eu, since("2024-01-01", null_time), {}, NOW, first_run=False)
        assert found.strategy == DeleteInsert("(region = 'eu') OR ((region = 'eu') IS NULL AND `at` IS NULL)")
    assert table_for(eu, since("2024-01-01", NullTime.SKIP), {}, NOW, first_run=False) == eu
    assert table_for(eu, None, {}, NOW, first_run=False) == eu


def test_bounds_of_the_window_come_first_then_what_is_given_then_the_beginning_and_the_run():
    given = {"start_dt": "'a'", "end_date": "'b'", "kind": "'c'"}
    assert literals_of(None, None, NOW, given) == {
        "start_dt": "'a'",
        "start_date": "DATE '1900-01-01'",
        "end_dt": "TIMESTAMP '2024-06-01T12:00:00.000000Z'",
        "end_date": "'b'",
        "kind": "'c'",
    }
    start = Cursor(CursorKind.TIMESTAMP_NTZ, datetime(2024, 1, 31, 10, 30))  # noqa: DTZ001
    end = Cursor(CursorKind.DATE, date(2024, 2, 3))
    assert literals_of(start, end, NOW, given) == {
        "start_dt": "TIMESTAMP '2024-01-31T10:30:00.000000Z'",
        "start_date": "DATE '2024-01-31'",
        "end_dt": "TIMESTAMP '2024-02-03T00:00:00.000000Z'",
        "end_date": "DATE '2024-02-03'",
        "kind": "'c'",
    }


def test_days_are_those_of_the_zone_in_which_the_run_begins():
    new_york = datetime(2024, 6, 2, 2, tzinfo=UTC).astimezone(ZoneInfo("America/New_York"))
    found = literals_of(cursor("timestamp", "2024-02-01T02:00:00Z"), None, new_york, {})
    assert found["start_date"] == "DATE '2024-01-31'", "a day that began before the window does"
    assert found["start_dt"] == "TIMESTAMP '2024-02-01T02:00:00.000000Z'"
    assert found["end_date"] == "DATE '2024-06-02'", "the day after that of the run"
    assert found["end_dt"] == "TIMESTAMP '2024-06-02T02:00:00.000000Z'"
    by_days = literals_of(cursor("date", "2024-02-01"), cursor("timestamp", "2024-02-02T05:00:00Z"), new_york, {})
    assert (by_days["start_date"], by_days["end_date"]) == ("DATE '2024-02-01'", "DATE '2024-02-02'")
    assert by_days["start_dt"] == "TIMESTAMP '2024-02-01T05:00:00.000000Z'"


@pytest.mark.parametrize(
    ("start", "name", "literal"),
    [
        (None, "day", "TIMESTAMP '1900-01-01T00:00:00.000000Z'"),
        (None, "start_date", "DATE '1900-01-01'"),
        (cursor("date", "2024-02-01"), "day", "DATE '2024-02-01'"),
        (cursor("timestamp", "2024-02-01"), "start_date", "DATE '2024-02-01'"),
        (cursor("integer", "17"), "start_date", "17"),
    ],
)
def test_the_variable_of_the_start_is_never_what_is_given_but_what_the_window_made_of_it(start, name, literal):
    assert literals_of(start, None, NOW, {name: "'given'"}, name)[name] == literal
