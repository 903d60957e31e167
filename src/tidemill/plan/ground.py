"""What a run stands on: its tables as they are, and everything that is wrong with it before it begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.declare.mistakes import FileErrors
from tidemill.errors import TidemillError
from tidemill.plan.changes import change_of_mind
from tidemill.plan.variables import bad_variables
from tidemill.plan.windows import known_of
from tidemill.state.logs import log_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from tidemill.contracts import Snapshot
    from tidemill.declare.tables import Table
    from tidemill.plan.requests import Request


@dataclass(frozen=True, slots=True)
class Ground:
    """By the names of tables: what their logs tell, None where there is none yet, and what there is to say of them.

    A table whose log is `unreadable` fails in its own step.
    """

    snapshots: Mapping[str, Snapshot | None]
    notices: Mapping[str, tuple[str, ...]]
    unreadable: tuple[TidemillError, ...] = ()


def ground_of(
    tables: Iterable[Table], request: Request, variables: Mapping[str, str], now: datetime, on_change: str
) -> Ground:
    """Raises everything for which a run of these tables may not begin.

    `on_change` is the project's materialization_change_behavior: "warn", "error" or "ignore".
    """
    found, unreadable = _looked_at(tables)
    changes = [change for table, snapshot in found if (change := change_of_mind(table, snapshot, request))]
    wrong = [each for table, snapshot in found for each in bad_variables(table, snapshot, request, variables, now)]
    refuse([*wrong, *(each.error for each in changes if each.refused or on_change == "error")])
    told = {} if on_change == "ignore" else {each.table.name: (each.notice,) for each in changes}
    return Ground({table.name: snapshot for table, snapshot in found}, told, tuple(unreadable))


def _looked_at(tables: Iterable[Table]) -> tuple[list[tuple[Table, Snapshot | None]], list[TidemillError]]:
    found: list[tuple[Table, Snapshot | None]] = []
    unreadable: list[TidemillError] = []
    for table in tables:
        try:
            found.append((table, known_of(table, log_of(table).snapshot())))
        except TidemillError as failure:
            unreadable.append(failure)
    return found, unreadable


def refuse(errors: Iterable[TidemillError]) -> None:
    """Raises what is wrong, if anything is."""
    found = list(errors)
    if found:
        raise found[0] if len(found) == 1 else FileErrors(found)
