"""Which materialized views keep sums beside their rows, so that later changes can be added to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.formats import DEFAULT_FORMAT, Capability, can
from tidemill.ivm import Local, NotIncremental, Summed
from tidemill.model.strategy import Refresh
from tidemill.planning.costs import are_small
from tidemill.planning.refresh import check_declaration, view_of

if TYPE_CHECKING:
    from tidemill.ivm import ViewQuery
    from tidemill.model.table import Table
    from tidemill.planning.refresh import InputState, ViewInputs

_FEW_GROUPS = 0.1  # of the rows that are summed: where there are more, those of some groups are read again as soon


@dataclass(frozen=True, slots=True)
class SumsToKeep:
    """The sums that a view is to keep: its query, and the rule that gives them. `few`: its groups have to be few."""

    view: ViewQuery
    rule: Summed
    few: bool

    def are_worth(self, groups: int, rows: int | None) -> bool:
        """Whether so many groups, of so many rows, are worth it."""
        return not self.few or rows is None or groups <= _FEW_GROUPS * rows


def sums_to_keep(table: Table, inputs: ViewInputs, groups: int) -> SumsToKeep | None:
    """The sums of a view that is computed whole, and has so many groups at least; None where it keeps none.

    It keeps sums where they are the best rule for a change of one of its inputs. Where its groups could be computed
    again by their key as well, they have to be few.
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
    found = (_sums_for(view, each) for each in followed)
    return next((each for each, rows in found if each is not None and each.are_worth(groups, rows)), None)


def _sums_for(view: ViewQuery, state: InputState) -> tuple[SumsToKeep | None, int | None]:
    """The sums, where adding to them is the best rule for a change of this input, and the rows that this has."""
    best, *others = view.rules(frozenset(state.written)) or (None,)
    has_key = any(isinstance(each, Local) and each.on for each in others)
    return SumsToKeep(view, best, has_key) if isinstance(best, Summed) else None, state.rows
