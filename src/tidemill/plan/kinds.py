"""A name that was a table and is a view now, or the other way round: reported before anything runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.declare.names import KEPT_FROM_RESET, RESET_ALLOWED
from tidemill.declare.views import View
from tidemill.errors import ArgumentError
from tidemill.state.logs import log_at, log_of
from tidemill.state.views import view_record

if TYPE_CHECKING:
    from tidemill.contracts.snapshots import Snapshot
    from tidemill.declare.tables import Table


@dataclass(frozen=True, slots=True)
class ChangeOfKind:
    """`notice` says what to expect. `refusal` is why it may not be: a table that must not be reset would be hidden."""

    node: Table | View
    notice: str
    refusal: ArgumentError | None = None

    @property
    def refused(self) -> bool:
        return self.refusal is not None

    @property
    def error(self) -> ArgumentError:
        """The same for a run that must not begin."""
        return self.refusal or ArgumentError(
            "plan.materialization_changed",
            f"{self.notice}.",
            'Declare it as it was, or let it change: materialization_change_behavior = "warn" in tidemill.toml, '
            "under [flags].",
            origin=self.node.origin,
        )


def change_of_kind(node: Table | View) -> ChangeOfKind | None:
    """The change since its last run, where there is one. Raises where a log cannot be read."""
    return _to_view(node) if isinstance(node, View) else _to_table(node)


def _to_table(table: Table) -> ChangeOfKind | None:
    if view_record(table.path) is None:
        return None
    stayed = log_of(table).snapshot() is not None
    goes_on = "the table that stayed on disk goes on from where it was" if stayed else "this run makes it"
    return ChangeOfKind(table, f"{table.name} was a view, and is a table now: {goes_on}")


def _to_view(view: View) -> ChangeOfKind | None:
    held = log_at(view.path).snapshot()
    if held is None:
        return None
    refusal = _refusal(view, held)
    if view_record(view.path) is not None and refusal is None:
        return None
    notice = (
        f"{view.name} was a table, and is a view now: its rows are those of its query. The table stays on disk "
        f"with its history; drop it by deleting {view.path}"
    )
    return ChangeOfKind(view, notice, refusal)


def _refusal(view: View, held: Snapshot) -> ArgumentError | None:
    ways = {
        RESET_ALLOWED: f"set the property {RESET_ALLOWED} of {view.path} to true first",
        KEPT_FROM_RESET: "run it once as a table with reset_allowed = true first",
    }
    found = [way for name, way in ways.items() if held.properties.get(name, "true").lower() == "false"]
    if not found:
        return None
    rows = "its" if held.rows is None else f"{held.rows:,}"
    return ArgumentError(
        "table.reset_refused",
        f"{view.name} is a table with reset_allowed = false: as a view it would hide {rows} rows of history.",
        f"Declare it a table again. If a view is what you want, {' and '.join(found)}.",
        origin=view.origin,
    )
