"""Where a run starts whose start is a variable or the current day, and what of its variables it needs."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from tidemill.declare.cursors import Cursor, CursorKind, cursor
from tidemill.declare.producers import Query
from tidemill.declare.starts import CurrentDate, StartVariable
from tidemill.declare.strategies import Append, DeleteInsert, Merge
from tidemill.declare.tables import Table, Window, lookback
from tidemill.declare.templates import Condition
from tidemill.errors import ArgumentError, Origin
from tidemill.plan.starts import Start, missing_variables, start_of, strategy_of

NOW = datetime(2024, 6, 1, 12, tzinfo=UTC)
THERE = Origin("models/my_schema/daily.py", 9, 5)
SINCE_START = Condition(("updated_at >= ", ""), ("start_date",), THERE)


def at(text: str, kind: CursorKind = CursorKind.TIMESTAMP) -> Cursor:
    return cursor(kind, text)


def start(window: Window, watermark: str | None = None, *, first_run: bool = False, **variables: str) -> Start:
    return start_of(
        window, CursorKind.TIMESTAMP, at(watermark) if watermark else None, variables, NOW, first_run=first_run
    )


def table(strategy=None, **more) -> Table:
    return Table("my_schema.daily", "daily", strategy or DeleteInsert(condition=SINCE_START), **more)


BY_VARIABLE = Window("at", lookback=lookback("3 hours"), moving_start=StartVariable("start_date", THERE))
BY_DAY = Window("at", lookback=lookback("3 hours"), moving_start=CurrentDate())
BY_LITERAL = Window("at", "2024-01-01", lookback("3 hours"))


def test_a_run_starts_at_the_watermark_less_the_lookback():
    assert start(Window("at", lookback=lookback("3 hours")), "2024-03-01") == Start(at("2024-02-29T21:00:00Z"))
    assert start(Window("at"), first_run=True) == Start(None)


def test_a_literal_bounds_every_run_and_a_bare_date_is_its_midnight():
    assert start(BY_LITERAL, first_run=True) == Start(at("2024-01-01T00:00:00Z"))
    assert start(BY_LITERAL, "2024-03-01") == Start(at("2024-02-29T21:00:00Z"))
    early = start(BY_LITERAL, "2024-01-01T02:00:00Z")
    assert early == Start(at("2024-01-01"), "since 2024-01-01 00:00:00 UTC, its start")


def test_a_variable_is_where_a_later_run_starts_whatever_the_watermark_and_the_lookback():
    found = start(BY_VARIABLE, "2024-03-01", start_date="2024-02-01")
    assert found == Start(at("2024-02-01"), "since 2024-02-01 00:00:00 UTC (from @start_date)")


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


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (CursorKind.DATE, date(2024, 6, 1)),
        (CursorKind.TIMESTAMP, datetime(2024, 6, 1, tzinfo=UTC)),
        (CursorKind.TIMESTAMP_NTZ, datetime(2024, 6, 1)),  # noqa: DTZ001
    ],
)
def test_the_current_date_has_the_type_of_the_time_column(kind, expected):
    found = start_of(BY_DAY, kind, None, {}, NOW, first_run=True)
    assert found.value == Cursor(kind, expected)


def test_the_current_date_is_no_number():
    with pytest.raises(ArgumentError) as failure:
        start_of(BY_DAY, CursorKind.INTEGER, None, {}, NOW, first_run=True)
    assert str(failure.value) == (
        "[window.bad_start] CURRENT_DATE cannot be where at starts, which is of the kind integer. "
        "Use a time column of dates or timestamps, or another start."
    )


def test_a_value_of_the_wrong_type_names_its_variable_and_its_place():
    with pytest.raises(ArgumentError) as failure:
        start(BY_VARIABLE, "2024-03-01", start_date="'; DROP TABLE t")
    assert str(failure.value) == (
        '[window.bad_value] @start_date is "\'; DROP TABLE t", which is no timestamp. '
        "Write a timestamp as 2024-01-31T10:30:00Z; a bare date is its midnight in UTC."
    )
    assert failure.value.origin == THERE


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


def test_a_variable_that_is_missing_is_an_error_that_shows_how_to_give_it():
    (error,) = missing_variables(table(window=BY_VARIABLE), {}, first_run=False)
    assert str(error) == (
        "[variables.missing] my_schema.daily needs @start_date. Give it on the command line: "
        'tidemill run -s my_schema.daily --vars \'{"start_date": "2024-02-01"}\''
    )
    assert error.origin == THERE
    assert missing_variables(table(window=BY_VARIABLE), {}, first_run=True) == []
    assert missing_variables(table(window=BY_VARIABLE), {"start_date": "x"}, first_run=False) == []


def test_a_misspelled_variable_is_recognized():
    (error,) = missing_variables(table(window=BY_VARIABLE), {"strat_date": "2024-02-01"}, first_run=False)
    assert error.remedy.startswith("strat_date is given: did you mean start_date? Give it on the command line:")


def test_variables_of_conditions_and_queries_are_needed_in_every_run_and_each_is_told_once():
    condition = Condition(("region = ", " AND day < ", ""), ("region", "end_date"), THERE)
    query = Query(
        ("SELECT ", " WHERE day >= ", " AND region = ", ""), ("kind", "start_dt", "region"), Origin("q.sql", 2)
    )
    asking = table(DeleteInsert(condition=condition), producer=query)
    for first_run in (True, False):
        found = missing_variables(asking, {}, first_run=first_run)
        assert [error.problem for error in found] == ["my_schema.daily needs @region.", "my_schema.daily needs @kind."]
        assert '--vars \'{"kind": "…"}\'' in found[1].remedy
        assert missing_variables(asking, {"region": "eu", "kind": "x"}, first_run=first_run) == []


def test_a_bound_that_no_window_gives_has_to_be_given():
    assert [error.problem for error in missing_variables(table(), {}, first_run=True)] == [
        "my_schema.daily needs @start_date."
    ]
    assert missing_variables(table(window=BY_LITERAL), {}, first_run=False) == []
