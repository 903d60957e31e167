"""Changes of mind: a table that was kept in one way, and is declared to be kept in another."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import TYPE_CHECKING

from tidemill.declare.strategies import Append, DeleteInsert, Merge, MergeStrategy, Replace
from tidemill.errors import ArgumentError

if TYPE_CHECKING:
    from tidemill.contracts.snapshots import Snapshot
    from tidemill.declare.strategies import Strategy
    from tidemill.declare.tables import Table
    from tidemill.plan.requests import Request

_STEPS = {"replace", "append", "delete_insert", "incremental_join", *(f"merge {form}" for form in MergeStrategy)}


@dataclass(frozen=True, slots=True)
class ChangeOfMind:
    """`before` is how the table was kept until now. `refused`: it may not be replaced, and that is what it asks for."""

    node: Table
    before: str
    refused: bool = False

    @property
    def notice(self) -> str:
        """What the next run does about it, and what to expect."""
        again = f". Make all of it so with: {self.node.command} --full-refresh"
        return (
            f"{self.node.name} was maintained by {self.before}, and is by {self.node.kept_by} from this run on: "
            f"{_expected(self.node.strategy)}{again if self.node.reset_allowed else ''}"
        )

    @property
    def error(self) -> ArgumentError:
        """The same for a run that must not begin."""
        if self.refused:
            return ArgumentError(
                "table.reset_refused",
                f"{self.node.name} was maintained by {self.before}, and a run would now replace all of it; but its "
                "history is to be kept (reset_allowed = false).",
                "Take the change back, or allow it where the table is declared, and on the table itself, first.",
                origin=self.node.origin,
            )
        rebuild = f"rebuild it ({self.node.command} --full-refresh), or "
        return ArgumentError(
            "plan.changed_mind",
            f"{self.node.name} was maintained by {self.before}, and is now declared as {self.node.kept_by}.",
            f"Take the change back, {rebuild if self.node.reset_allowed else 'or '}go on with its rows as they are: "
            'materialization_change_behavior = "warn" under [flags] in tidemill.toml.',
            origin=self.node.origin,
        )


def change_of_mind(table: Table, snapshot: Snapshot | None, request: Request) -> ChangeOfMind | None:
    """The change since the last commit, where there is one; a full refresh rebuilds the table, so it has none."""
    record = snapshot.record if snapshot else None
    if snapshot is None or record is None or request.full_refresh or record.config_hash == table.config_hash:
        return None
    before = record.kept_by or _of_old_record(record.strategy, record.keys)
    if before is None or before.lower() == table.kept_by.lower():
        return None
    kept = not table.reset_allowed or snapshot.resists_reset
    return ChangeOfMind(table, before, refused=kept and isinstance(table.strategy, Replace))


def _of_old_record(what: str, keys: tuple[str, ...]) -> str | None:
    """Records did not always say it; then a commit that was no step of its strategy tells nothing."""
    if what not in _STEPS:
        return None
    return f"{what} on {', '.join(keys)}" if keys else what


@singledispatch
def _expected(strategy: Strategy) -> str:
    raise NotImplementedError(strategy)


@_expected.register(Replace)
def _(strategy: Replace) -> str:  # noqa: ARG001  dispatched on
    return "rows that its query does not give leave it (tidemill restore brings them back)"


@_expected.register(Append)
def _(strategy: Append) -> str:  # noqa: ARG001  dispatched on
    return "its rows stay, and a row that is corrected enters beside the one that is here"


@_expected.register(DeleteInsert)
def _(strategy: DeleteInsert) -> str:  # noqa: ARG001  dispatched on
    return "its rows stay, but for those of the run's window or condition, which become the query's"


@_expected.register(Merge)
def _(strategy: Merge) -> str:
    keys = ", ".join(strategy.keys)
    match strategy.form:
        case MergeStrategy.FULL_MERGE:
            return f"rows whose {keys} its source does not give leave it"
        case MergeStrategy.DEDUPLICATE:
            return f"its rows stay, and of those of one {keys} one is left once its source gives it"
        case MergeStrategy.INSERT:
            return f"its rows stay as they are, and rows of a new {keys} enter"
        case MergeStrategy.UPDATE:
            return f"its rows stay and follow those of the same {keys}, and no others enter"
        case _:
            return f"its rows stay until one of the same {keys} comes, and a run stops at one that is here twice"
