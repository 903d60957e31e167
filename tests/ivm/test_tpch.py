"""TPC-H under new and deleted orders: which rule each query gets, and that five refreshes leave it exact."""

from __future__ import annotations

import pytest
from duck import Duck, same
from tpch import CHANGED, QUERIES, REFUSED, SCHEMA, UP_TO_DATE, VERDICTS, Database

from tidemill.ivm import NotIncremental, analyse

_CYCLES = 5


@pytest.mark.parametrize("number", sorted(VERDICTS))
def test_the_verdict_of_a_query(number: int) -> None:
    first, rows, key = VERDICTS[number]
    view = analyse(QUERIES[number], SCHEMA)
    rules = view.rules(CHANGED & frozenset(view.tables))
    assert rules[0].name == first, [each.name for each in rules]
    assert [each.name for each in rules[0].terms] == [rows]
    assert rules[0].terms[0].key == key


@pytest.mark.parametrize("number", sorted(REFUSED))
def test_a_maximum_of_sums_is_refused(number: int) -> None:
    with pytest.raises(NotIncremental):
        analyse(QUERIES[number], SCHEMA).rule(frozenset({"lineitem"}))


def test_queries_without_orders_stay_up_to_date() -> None:
    for number in UP_TO_DATE:
        assert not CHANGED & frozenset(analyse(QUERIES[number], SCHEMA).tables)


@pytest.mark.parametrize("number", sorted(VERDICTS))
def test_five_refreshes_leave_a_query_exact(number: int) -> None:
    text, database = QUERIES[number], Database(number + 1)
    view = analyse(text, SCHEMA)
    duck = Duck(SCHEMA, dict(database.rows))
    held = duck.full(text)
    differ = 0
    for _ in range(_CYCLES):
        changed = duck.change(*database.refresh()) & frozenset(view.tables)
        full = duck.full(text)
        for rule in view.rules(changed):
            assert same(duck.refreshed(rule, held, view.output), full), (rule.name, rule.key)
        duck.advance()
        differ += held != full
        held = full
    assert differ, "no refresh changed the result: the test would see nothing"
