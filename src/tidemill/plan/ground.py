"""What a run stands on: its tables as they are, and everything that is wrong with it before it begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.declare.mistakes import FileErrors
from tidemill.declare.tables import Table
from tidemill.errors import TidemillError
from tidemill.plan.changes import change_of_mind
from tidemill.plan.kinds import change_of_kind
from tidemill.plan.refusals import refusals
from tidemill.plan.variables import bad_variables
from tidemill.plan.windows import known_of
from tidemill.state.logs import log_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from tidemill.contracts.snapshots import Snapshot
    from tidemill.declare.views import View
    from tidemill.errors import ArgumentError
    from tidemill.plan.changes import ChangeOfMind
    from tidemill.plan.kinds import ChangeOfKind
    from tidemill.plan.requests import Request


@dataclass(frozen=True, slots=True)
class Ground:
    """By name: what the logs of tables tell, None where there is none yet, and what there is to say of each.

    A table whose log is `unreadable` fails in its own step.
    """

    snapshots: Mapping[str, Snapshot | None]
    notices: Mapping[str, tuple[str, ...]]
    unreadable: tuple[TidemillError, ...] = ()


def ground_of(
    nodes: Iterable[Table | View],
    request: Request,
    variables: Mapping[str, str],
    now: datetime,
    on_change: str,
    known: Iterable[ArgumentError] = (),
) -> Ground:
    """Raises everything for which a run of these tables and views may not begin; some of it may be known already.

    `on_change` is the project's materialization_change_behavior: "warn", "error" or "ignore".
    """
    looking = _Looking(request, variables, now)
    looking.wrong += known
    for node in nodes:
        looking.at(node)
    wrong = {str(each): each for each in looking.wrong}  # of a flag, several tables say the same
    refuse([*wrong.values(), *(each.error for each in looking.changes if each.refused or on_change == "error")])
    notices: dict[str, tuple[str, ...]] = {}
    for change in looking.changes if on_change != "ignore" else ():
        notices[change.node.name] = (*notices.get(change.node.name, ()), change.notice)
    return Ground(looking.snapshots, notices, tuple(looking.unreadable))


class _Looking:
    """Looks at one table or view after the other, and collects what it finds."""

    def __init__(self, request: Request, variables: Mapping[str, str], now: datetime) -> None:
        self.request, self.variables, self.now = request, variables, now
        self.snapshots: dict[str, Snapshot | None] = {}
        self.changes: list[ChangeOfKind | ChangeOfMind] = []
        self.wrong: list[ArgumentError] = []
        self.unreadable: list[TidemillError] = []

    def at(self, node: Table | View) -> None:
        try:
            self._changed(change_of_kind(node))
            if isinstance(node, Table):
                self._at_table(node)
        except TidemillError as failure:
            self.unreadable += [failure] if isinstance(node, Table) else []  # a view has no need of what is there

    def _at_table(self, table: Table) -> None:
        snapshot = known_of(table, log_of(table).snapshot())
        self.snapshots[table.name] = snapshot
        self.wrong += refusals(table, snapshot, self.request)
        self._changed(change_of_mind(table, snapshot, self.request))
        self.wrong += bad_variables(table, snapshot, self.request, self.variables, self.now)

    def _changed(self, change: ChangeOfKind | ChangeOfMind | None) -> None:
        self.changes += [change] if change else []


def refuse(errors: Iterable[TidemillError]) -> None:
    """Raises what is wrong, if anything is."""
    found = list(errors)
    if found:
        raise found[0] if len(found) == 1 else FileErrors(found)
