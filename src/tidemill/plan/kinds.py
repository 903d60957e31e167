"""A name that was a table and is a view now, or the other way round: told before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.declare.mistakes import FileErrors
from tidemill.declare.names import KEPT_FROM_RESET, RESET_ALLOWED
from tidemill.declare.views import View
from tidemill.errors import ArgumentError
from tidemill.state.logs import log_at, log_of
from tidemill.state.views import view_record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidemill.contracts import Snapshot
    from tidemill.declare.tables import Table
    from tidemill.errors import Origin


def changes_of_kind(nodes: Iterable[Table | View], behavior: str) -> dict[str, tuple[str, ...]]:
    """What is to be told of each, by name: that it is of another kind than at its last run, and what to expect.

    Raises `FileErrors` with all changes that are refused: by `behavior`, which is the project's
    `materialization_change_behavior`, or because a table that must not be reset would go out of sight.
    """
    found: dict[str, tuple[str, ...]] = {}
    errors: list[ArgumentError] = []
    for node in nodes:
        try:
            found[node.name] = _view(node, behavior) if isinstance(node, View) else _table(node, behavior)
        except ArgumentError as refused:
            errors.append(refused)
    if errors:
        raise FileErrors(errors)
    return found


def _table(table: Table, behavior: str) -> tuple[str, ...]:
    if view_record(table.path) is None:
        return ()
    stayed = log_of(table).snapshot() is not None
    goes_on = "the table that stayed on disk goes on from where it was" if stayed else "this run makes it"
    return as_told(behavior, f"{table.name} was a view, and is a table now: {goes_on}", table.origin)


def _view(view: View, behavior: str) -> tuple[str, ...]:
    held = log_at(view.path).snapshot()
    if held is None:
        return ()
    _refuse_hiding(view, held)
    if view_record(view.path) is not None:
        return ()
    notice = (
        f"{view.name} was a table, and is a view now: its rows are those of its query. The table stays on disk "
        f"with its history; drop it by deleting {view.path}"
    )
    return as_told(behavior, notice, view.origin)


def as_told(behavior: str, notice: str, origin: Origin | None) -> tuple[str, ...]:
    """What comes of a change of mind: a notice, nothing, or an error, as `materialization_change_behavior` says."""
    if behavior == "error":
        raise ArgumentError(
            "plan.materialization_changed",
            f"{notice}.",
            'Declare it as it was, or let it change: materialization_change_behavior = "warn" in tidemill.toml, '
            "under [flags].",
            origin=origin,
        )
    return () if behavior == "ignore" else (notice,)


def _refuse_hiding(view: View, held: Snapshot) -> None:
    ways = {
        RESET_ALLOWED: f"set the property {RESET_ALLOWED} of {view.path} to true first",
        KEPT_FROM_RESET: "run it once as a table with reset_allowed = true first",
    }
    found = [way for name, way in ways.items() if held.properties.get(name, "true").lower() == "false"]
    if not found:
        return
    rows = "its" if held.rows is None else f"{held.rows:,}"
    raise ArgumentError(
        "table.reset_refused",
        f"{view.name} is a table with reset_allowed = false: as a view it would hide {rows} rows of history.",
        f"Declare it a table again. If a view is what you want, {' and '.join(found)}.",
        origin=view.origin,
    )
