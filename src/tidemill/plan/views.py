"""What a run would do to a view, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.plan.steps import PlannedStep

if TYPE_CHECKING:
    from tidemill.contracts import Record
    from tidemill.declare.views import View


def plan_view(view: View, record: Record | None) -> PlannedStep:
    """When its query is checked, as far as its own record tells."""
    return PlannedStep(view.name, view.strategy, _reason(view, record))


def _reason(view: View, record: Record | None) -> str:
    if record is None:
        return "first run"
    if record.sql_hash != view.sql_hash:
        return "its query changed, and is checked"
    return "its query is checked when what it reads has changed"
