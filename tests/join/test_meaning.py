"""The scope that a window reads decides all of it, and windows without gaps give one history: shown without Spark."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from cases import CASES, Case
from hypothesis import given, settings

from tidemill.model.join import Scope, Span, Waits, join_type, scope_of

if TYPE_CHECKING:
    from oracle import Row


def within(rows: tuple[Row, ...], span: Span) -> tuple[Row, ...]:
    return tuple(row for row in rows if span.start <= row.t < span.end)


@settings(max_examples=600, deadline=None)
@given(CASES)
def test_what_lies_outside_of_the_scope_changes_nothing(case: Case) -> None:
    for window in case.windows:
        scope = scope_of(join_type(case.how), window, case.waits)
        scoped = replace(case, a=within(case.a, scope.a), b=within(case.b, scope.b), cuts=(window.start, window.end))
        whole = replace(case, cuts=(window.start, window.end))
        assert Counter(scoped.history) == Counter(whole.history)

        scope = scope_of(join_type(case.how), window, case.waits, waiting=True)
        scoped = replace(scoped, a=within(case.a, scope.a), b=within(case.b, scope.b))
        assert Counter(scoped.history) == Counter(whole.history)
        assert Counter(scoped.waiting(window)) == Counter(whole.waiting(window))


@settings(max_examples=300, deadline=None)
@given(CASES)
def test_windows_without_gaps_give_what_one_window_gives(case: Case) -> None:
    parts = [replace(case, cuts=(window.start, window.end)).history for window in case.windows]
    assert Counter(out for part in parts for out in part) == Counter(case.history)


def test_a_scope_is_no_larger_than_its_type_of_join_needs() -> None:
    found = {how: scope_of(join_type(how), Span(100, 101), Waits(6, 10)) for how in ("inner", "left", "right", "full")}
    assert found == {
        "inner": Scope(Span(90, 101), Span(94, 101)),
        "left": Scope(Span(90, 101), Span(84, 101)),
        "right": Scope(Span(84, 101), Span(94, 101)),
        "full": Scope(Span(84, 101), Span(84, 101)),
    }
    assert scope_of(join_type("left anti"), Span(100, 101), Waits(6, 10)) == Scope(Span(90, 91), Span(84, 101))
    assert scope_of(join_type("right_anti"), Span(100, 101), Waits(6, 10)) == Scope(Span(84, 101), Span(94, 95))
