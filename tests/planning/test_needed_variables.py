"""Which variables a run needs, and what is wrong with those that it is given."""

from __future__ import annotations

import pytest
from support import NOW

from tidemill import Record, Table
from tidemill.declarations import Condition, DeleteInsert, Query, StartVariable, Window
from tidemill.errors import Origin
from tidemill.model.cursor import cursor
from tidemill.model.record import Snapshot
from tidemill.model.table import lookback
from tidemill.planning import USUAL, Request, backfill_of
from tidemill.planning.refusals import bad_variables, missing_variables

THERE = Origin("models/my_schema/daily.py", 9, 5)
SINCE_START = Condition(("updated_at >= ", ""), ("start_date",), THERE)
BY_VARIABLE = Window("at", moving_start=StartVariable("start_date", THERE))
BY_LITERAL = Window("at", "2024-01-01", lookback("3 hours"))


def table(strategy=None, **more) -> Table:
    return Table("my_schema.daily", "daily", strategy or DeleteInsert(condition=SINCE_START), **more)


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


def test_variables_of_conditions_and_queries_are_needed_in_every_run_and_each_is_reported_once():
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


def test_a_run_that_is_given_its_start_needs_no_variable_for_that():
    query = Query(("SELECT * FROM e WHERE at >= ", ""), ("start_date",))
    asking = table(window=BY_VARIABLE, producer=query)
    assert missing_variables(asking, {}, first_run=False, started=True) == []
    region = Condition(("at >= ", " AND region = ", ""), ("day", "region"), THERE)
    by_day = table(DeleteInsert(condition=region), window=Window("at", moving_start=StartVariable("day", THERE)))
    found = missing_variables(by_day, {}, first_run=False, started=True)
    assert [error.problem for error in found] == ["my_schema.daily needs @region."]


def read_up_to(moment: str) -> Snapshot:
    progress = {"source": cursor("timestamp", moment)}
    return Snapshot(0, 1, Record("r", "my_schema.daily", 1, "delete_insert", "", progress=progress), 0)


@pytest.mark.parametrize(
    ("request_", "snapshot", "wrong"),
    [
        (USUAL, read_up_to("2024-01-31"), True),
        (USUAL, None, False),
        (Request(full_refresh=True), read_up_to("2024-01-31"), False),
        (Request(backfill=backfill_of("2024-01-01", None, None)), read_up_to("2024-01-31"), False),
        (Request(backfill=backfill_of(None, "2024-01-01", None)), read_up_to("2024-01-31"), True),
    ],
    ids=["usual", "first run", "full refresh", "--start", "--end"],
)
def test_a_value_of_the_wrong_type_is_reported_before_the_run_where_the_log_has_the_type(request_, snapshot, wrong):
    declared, given = table(window=BY_VARIABLE), {"start_date": "yesterday"}
    found = bad_variables(declared, snapshot, request_, given, NOW)
    assert [error.problem for error in found] == ["@start_date is 'yesterday', which is no timestamp."] * wrong
    assert bool(bad_variables(declared, snapshot, request_, {}, NOW)) is wrong
    assert bad_variables(declared, snapshot, request_, {"start_date": "2024-02-01"}, NOW) == []
