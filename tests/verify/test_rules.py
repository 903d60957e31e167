"""What a strategy keeps or ignores by its meaning is no difference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidemill import MergeStrategy
from tidemill.declarations import Append, DeleteInsert, Merge, Replace
from tidemill.results import Kind
from tidemill.verify.result import Rule, bounds_of, rule_for

if TYPE_CHECKING:
    from tidemill.model.strategy import Strategy

K = ("id",)


@pytest.mark.parametrize(
    ("strategy", "rule"),
    [
        (Replace(), Rule()),
        (Append(), Rule()),
        (DeleteInsert(), Rule()),
        (Merge(K, MergeStrategy.FULL_MERGE), Rule(K)),
        (Merge(K), Rule(K, only_here=Kind.KEPT)),
        (Merge(K, MergeStrategy.DEDUPLICATE), Rule(K, only_here=Kind.KEPT)),
        (Merge(K, MergeStrategy.INSERT), Rule(K, Kind.IGNORED, only_here=Kind.KEPT)),
        (Merge(K, only_newer="at"), Rule(K, only_newer="at", only_here=Kind.KEPT)),
        (Merge(K, MergeStrategy.UPDATE), Rule(K, only_here=Kind.KEPT, only_full=Kind.IGNORED)),
    ],
    ids=str,
)
def test_each_strategy_is_compared_by_what_it_promises(strategy: Strategy, rule: Rule) -> None:
    assert rule_for(strategy) == rule


def test_a_start_bounds_the_table_as_it_bounds_the_source_but_keys_may_move_in_time() -> None:
    assert bounds_of(Append(), "at >= 1") == "at >= 1"
    assert bounds_of(DeleteInsert("region = 1"), "at >= 1") == "(region = 1) AND (at >= 1)"
    assert bounds_of(Merge(K), "at >= 1") == bounds_of(Replace(), None) == "true"
