"""Plans of tables and views as `tidemill plan` prints them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.planning.plan import UP_TO_DATE

if TYPE_CHECKING:
    from tidemill.model.query import View
    from tidemill.model.record import Record
    from tidemill.planning.plan import StepPlan


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step of a plan: what a run would do to a table, and why.

    >>> step = tidemill.Project.load("shop").plan(select="daily")[0]
    >>> step.table, step.reason
    ('daily', 'up to date: its inputs are unchanged')
    """

    table: str
    strategy: str
    reason: str
    notices: tuple[str, ...] = ()


def explain(plan: StepPlan) -> PlannedStep:
    """What a run will do to a table, and why."""
    return PlannedStep(plan.table.name, plan.table.declared_strategy, plan.reason, plan.notices)


def explain_view(view: View, record: Record | None, *, up_to_date: bool = False) -> PlannedStep:
    """When the query of a view, and its checks if it has any, are tried, as far as its own record says."""
    return PlannedStep(view.name, view.strategy, UP_TO_DATE if up_to_date else _view_reason(view, record))


def _view_reason(view: View, record: Record | None) -> str:
    if record is None:
        return "first run"
    if record.sql_hash != view.sql_hash:
        return "its query changed, and is checked"
    if record.config_hash != view.config_hash:
        return "its checks changed, and are run"
    what = "its checks are run" if view.checks else "its query is checked"
    return f"{what} when what it reads has changed"
