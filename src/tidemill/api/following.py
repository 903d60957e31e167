"""What views of a project have yet to follow of their inputs, and for how long the logs of these say it. No Spark."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidemill.api.planning import catalog_of
from tidemill.errors import TidemillError
from tidemill.execution.pins import version_in
from tidemill.execution.producers import source_of
from tidemill.execution.query_source import ViewSource
from tidemill.formats.base import Follower
from tidemill.formats.registry import log_of
from tidemill.model import absolute
from tidemill.model.strategy import Refresh
from tidemill.planning.refresh import plan_refresh, recorded_versions
from tidemill.planning.windows import known_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidemill.api.workspace import Workspace
    from tidemill.execution.catalog import Catalog
    from tidemill.execution.pins import VersionLog
    from tidemill.formats.port import HistoryEnd
    from tidemill.model.table import Table
    from tidemill.planning.refresh import RefreshPlan


@dataclass(frozen=True, slots=True)
class HistoryNotice:
    """What is to be known of an input of a view before its changes since `version` can no longer be followed.

    They may be removed from `until` on, and the input's property `setting` keeps them for longer. Where they are gone,
    `gone` says how the next run of the view goes, and why.
    """

    input: str
    version: int
    until: str | None = None
    setting: str | None = None
    gone: str | None = None


def history_notices(workspace: Workspace, now: datetime | None = None) -> dict[str, tuple[HistoryNotice, ...]]:
    """Those on each view of the project that has some, by the name of the view."""
    catalog, moment = catalog_of(workspace), now or datetime.now(UTC)
    found: dict[str, tuple[HistoryNotice, ...]] = {}
    for table in _views(workspace):
        with suppress(TidemillError):  # an input that cannot be looked at fails in the step of the view
            found[table.name] = tuple(_worded(workspace, each) for each in _notices(table, catalog, moment))
    return {name: notices for name, notices in found.items() if notices}


def _worded(workspace: Workspace, notice: HistoryNotice) -> HistoryNotice:
    """As users read it: short names, and no secrets."""
    gone = notice.gone and workspace.masking.mask(workspace.wording.text(notice.gone))
    return replace(notice, input=workspace.short(notice.input), gone=gone)


def followers_of(workspace: Workspace, path: str) -> tuple[Follower, ...]:
    """The views whose next run would read the rows of the table at a path that came and went since their last one."""
    catalog = catalog_of(workspace)
    found = []
    for table in _views(workspace):
        versions = [each.version for each in _inputs(table, catalog) if absolute(each.path) == absolute(path)]
        if versions and _refresh(table, catalog).rule is not None:
            found.append(Follower(workspace.short(table.name), min(versions), workspace.command("run")))
    return tuple(found)


def _views(workspace: Workspace) -> list[Table]:
    return [table for table in workspace.tables if table.strategy.refresh not in {None, Refresh.FULL}]


@dataclass(frozen=True, slots=True)
class _Input:
    """A table that was at `version` when a view was last refreshed, and has other commits since."""

    name: str
    path: str
    version: int
    content: str
    log: VersionLog

    def is_due(self, now: datetime) -> bool:
        """Whether something of what says its changes is gone, or may soon be."""
        if self.end(now) is not None:
            return True
        changes = self.log.changes_since(self.version, content=self.content)
        return changes.gone or changes.unreadable is not None

    def end(self, now: datetime) -> HistoryEnd | None:
        return self.log.history_end(self.version, now)


def _inputs(table: Table, catalog: Catalog) -> Iterator[_Input]:
    """Those of a view whose versions its record names."""
    snapshot = log_of(table).snapshot()
    for name, content in recorded_versions(snapshot.record if snapshot else None, table.input).items():
        version, place = version_in(content), catalog.place(name)
        seen = place.look() if place and version is not None else None
        if place and seen and version is not None and seen[0].version() > version:
            yield _Input(name, place.path, version, content, seen[0])


def _notices(table: Table, catalog: Catalog, now: datetime) -> tuple[HistoryNotice, ...]:
    """None where the next run computes the view whole for another reason."""
    due = [each for each in _inputs(table, catalog) if each.is_due(now)]
    plan = _refresh(table, catalog) if due else None
    if plan is None:
        return ()
    if plan.rule is None:
        return tuple(HistoryNotice(each.name, each.version, gone=plan.reason) for each in due if _is_why(plan, each))
    ends = ((each, each.end(now)) for each in due)
    return tuple(
        HistoryNotice(each.name, each.version, _written(end.at), end.setting) for each, end in ends if end is not None
    )


def _written(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def _is_why(plan: RefreshPlan, lost: _Input) -> bool:
    """Whether the view is computed whole because what says the changes of this input is gone."""
    states = plan.inputs.states if plan.inputs else ()
    changes = next((each.changes for each in states if each.name == lost.name), None)
    reason = changes and (changes.unreadable or (changes.refusal if changes.gone else None))
    return bool(reason) and plan.why.endswith(str(reason))


def _refresh(table: Table, catalog: Catalog) -> RefreshPlan:
    """How the next run goes, as far as logs tell."""
    snapshot = known_of(table, log_of(table).snapshot())
    source = source_of(table, catalog, datetime.now(UTC), {})
    assert isinstance(source, ViewSource)  # noqa: S101  asked of views only
    return plan_refresh(table, snapshot, source.view_inputs(snapshot))
