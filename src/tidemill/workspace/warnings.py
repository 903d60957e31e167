"""What tables of a project will not see by their declaration: the same for validate, plan and run, without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.declare.producers import Query
from tidemill.declare.views import through
from tidemill.language.losing import losing_parts
from tidemill.language.owners import missed_inputs
from tidemill.plan.missed import may_miss, missed_changes, rows_will_stay
from tidemill.plan.windows import known_of
from tidemill.state.logs import log_of
from tidemill.workspace.means import catalog_of

if TYPE_CHECKING:
    from tidemill.declare.tables import Table
    from tidemill.workspace.workspace import Workspace


def kept_warnings(workspace: Workspace, table: Table) -> tuple[str, ...]:
    """That rows will stay which its query, or a view that it reads, no longer returns."""
    if not isinstance(table.producer, Query):
        return ()
    views = workspace.all_views
    read = [views[name.lower()].query for name in through(table.inputs, views) if name.lower() in views]
    parts = dict.fromkeys(part for query in (table.producer, *read) for part in losing_parts(query.text))
    warning = rows_will_stay(table, list(parts))
    return (warning,) if warning else ()


def missed_of(workspace: Workspace, table: Table) -> tuple[str, ...]:
    """The inputs of which its window does not see changes."""
    if not isinstance(table.producer, Query) or table.window is None or not table.reads_windows:
        return ()
    naming, views = workspace.project.warehouse.naming, workspace.all_views

    def view(name: str) -> str | None:
        found = views.get(name.lower())
        return found.query.text if found else None

    found = missed_inputs(table.producer.text, table.window.time_column, naming.key, view)
    if found is None:  # only its author knows what it reads
        return table.inputs if len(table.inputs) > 1 else ()
    return found


def warnings_of(workspace: Workspace, table: Table) -> tuple[str, ...]:
    """All of a table, run or not: of one that has run, which inputs have changed since, else which may be missed."""
    kept, missed = kept_warnings(workspace, table), missed_of(workspace, table)
    if not missed:
        return kept
    snapshot = known_of(table, log_of(table).snapshot())
    changed = missed_changes(table, missed, snapshot, lambda name: catalog_of(workspace).version(name))
    return (*kept, *(changed or (may_miss(table, missed),)))
