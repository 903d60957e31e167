"""Which materialized views keep sums beside their rows, so that later changes can be added to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.formats import DEFAULT_FORMAT, Capability, can
from tidemill.ivm import Local, NotIncremental, Summed
from tidemill.model.strategy import Refresh
from tidemill.planning.costs import are_small
from tidemill.planning.refresh import check_declaration, view_of

if TYPE_CHECKING:
    from tidemill.ivm import Rule, ViewQuery
    from tidemill.model.table import Table
    from tidemill.planning.refresh import InputState, ViewInputs

_FEW_GROUPS = 0.1  # of the rows of the input: where there are more, their rows are read again as soon


def sums_to_keep(table: Table, inputs: ViewInputs, rows: int) -> tuple[ViewQuery, Summed] | None:
    """The query of a view that is computed whole, and the rule that gives its sums; None where it keeps none.

    It keeps sums where they are the best rule for a change of one of its inputs, by their kinds. Where its groups, of
    which it has `rows`, could be computed again by their key as well, they have to be few.
    """
    is_refused = table.strategy.refresh is Refresh.AUTO and are_small(inputs)
    if is_refused or not can(table.format or DEFAULT_FORMAT, Capability.TIME_TRAVEL):
        return None
    try:
        check_declaration(table)
        view = view_of(inputs)
    except NotIncremental:
        return None
    followed = (each for each in inputs.states if each.written and each.content is not None)
    found = (_sums_for(view.rules(frozenset(each.written)), each, rows) for each in followed)
    rule = next((each for each in found if each is not None), None)
    return (view, rule) if rule else None


def _sums_for(rules: tuple[Rule, ...], state: InputState, rows: int) -> Summed | None:
    """The rule that adds to sums, where it is the best one for a change of this input."""
    best = rules[0] if rules else None
    if not isinstance(best, Summed):
        return None
    has_key = any(isinstance(each, Local) and each.on for each in rules)
    return None if has_key and state.rows is not None and rows > _FEW_GROUPS * state.rows else best
