"""A strategy says what it does to a table; nobody has to ask which one it is."""

from __future__ import annotations

import pytest

from tidemill import MergeStrategy
from tidemill.declarations import Append, DeleteInsert, Merge, Replace
from tidemill.model.strategy import IncrementalJoin, one_predicate

FULL = Merge(("id",), MergeStrategy.FULL_MERGE, max_shrink=0.2)


@pytest.mark.parametrize(
    ("strategy", "facts"),
    [
        (Replace(), {"replaces", "is_whole"}),
        (Append(), {"appends", "stays_in_window"}),
        (Merge(("id",)), {"keeps_rows"}),
        (FULL, {"is_whole"}),
        (DeleteInsert(), {"stays_in_window"}),
        (IncrementalJoin(), set()),
    ],
)
def test_each_strategy_states_what_it_does_to_rows(strategy, facts):
    names = ("replaces", "appends", "is_whole", "keeps_rows", "stays_in_window")
    assert {name for name in names if getattr(strategy, name)} == facts


def test_what_a_strategy_has_not_is_nothing_and_no_error():
    assert (Append().keys, Append().form, Append().only_newer, Append().newest_by) == ((), None, None, None)
    assert (Append().predicate, Append().condition, Append().max_shrink) == (None, None, None)
    assert one_predicate(Append(), "day > 1") == "day > 1"
    assert one_predicate(DeleteInsert("day = 2"), "day > 1") == "(day = 2) AND (day > 1)"


def test_a_label_has_the_keys_of_a_strategy_that_has_some():
    assert [each.label for each in (Append(), FULL)] == ["append", "merge full_merge on id"]


def test_a_loss_that_only_a_default_allows_is_not_allowed_by_the_user():
    given = [each.allowed_loss for each in (Replace(0.1), Replace(0.1, by_default=True), FULL, Append())]
    assert given == [0.1, None, 0.2, None]
