"""What a run would do to a view, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.plan.steps import PlannedStep

if TYPE_CHECKING:
    from tidemill.contracts.records import Record
    from tidemill.declare.views import View


def plan_view(view: View, record: Record | None) -> PlannedStep:
    """When its query, and its checks if it has any, are tried, as far as its own record tells."""
    return PlannedStep(view.name, view.strategy, _reason(view, record))


def _reason(view: View, record: Record | None) -> str:
    if record is None:
        return "first run"
    if record.sql_hash != view.sql_hash:
        return "its query changed, and is checked"
    if record.config_hash != view.config_hash:
        return "its checks changed, and are run"
    what = "its checks are run" if view.checks else "its query is checked"
    return f"{what} when what it reads has changed"
