"""What a run stands on, and everything that is wrong with it before it begins: variables that nobody gives,
protected history, changed strategies, tables that became views.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError, TidemillError, did_you_mean
from tidemill.formats.registry import log_at, log_of, view_record
from tidemill.model import KEPT_FROM_RESET, RESET_ALLOWED, FileErrors
from tidemill.model.cursor import WINDOW_PARAMETERS
from tidemill.model.query import Query, View
from tidemill.model.strategy import Append, DeleteInsert, Merge, MergeStrategy, Replace
from tidemill.model.table import Table
from tidemill.planning.starts import start_of, start_variable, window_for
from tidemill.planning.windows import known_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from tidemill.errors import Origin
    from tidemill.model.record import Snapshot
    from tidemill.model.strategy import Strategy
    from tidemill.planning import Request

_ENDS = ("end_dt", "end_date")  # the start of the run, which needs no window


def bad_variables(
    table: Table, snapshot: Snapshot | None, request: Request, variables: Mapping[str, str], now: datetime
) -> list[ArgumentError]:
    """What is wrong with the variables and bounds that a run of this table is given, as far as its log tells."""
    first_run = snapshot is None or request.full_refresh
    started = request.starts(table)
    missing = missing_variables(table, variables, first_run=first_run, started=started)
    record = snapshot.record if snapshot else None
    known = record.progress.get(table.input) if record else None
    if missing or known is None or table.window is None:
        return missing
    window = window_for(table, variables, first_run=first_run, started=started)
    try:
        if request.backfill and table.reads_windows:
            request.backfill.bounds(known.kind, now.tzinfo)
        start_of(window, known.kind, known, variables, now)
    except ArgumentError as wrong_type:
        return [wrong_type]
    return []


def missing_variables(
    table: Table, variables: Mapping[str, str], *, first_run: bool, started: bool = False
) -> list[ArgumentError]:
    """An error for each variable that this run needs and that nobody gives; `variables` are those that are given.

    `started`: the run is given its start, so that it needs no variable for that.
    """
    asked = _needed(table, first_run=first_run, started=started)
    found = {name: origin for name, origin in asked if name not in variables}
    return [_missing(table, name, origin, variables) for name, origin in found.items()]


def _needed(table: Table, *, first_run: bool, started: bool) -> Iterator[tuple[str, Origin | None]]:
    """Names and where they are asked for; bounds that the window of the run gives need not be given."""
    start = start_variable(table)
    free = {start.name} if start and (first_run or started) else set()
    if start and start.name not in free:
        yield start.name, start.origin
    condition = table.strategy.condition
    if condition and not (first_run and free & set(condition.parameters)):
        known = free.union(WINDOW_PARAMETERS if table.window else _ENDS)
        yield from ((name, condition.origin) for name in condition.parameters if name not in known)
    if table.join:
        yield from table.join.variables()
    if isinstance(table.producer, Query):
        known = free.union(WINDOW_PARAMETERS)
        yield from ((name, table.producer.origin) for name in table.producer.parameters if name not in known)


def _missing(table: Table, name: str, origin: Origin | None, given: Mapping[str, str]) -> ArgumentError:
    close = did_you_mean(name, given)
    hint = f"{close} is given: did you mean {name}? " if close else ""
    start = start_variable(table)
    value = "2024-02-01" if name in WINDOW_PARAMETERS or (start and name == start.name) else "…"
    return ArgumentError(
        "variables.missing",
        f"{table.name} needs @{name}.",
        f'{hint}Give it on the command line: {table.command} --vars \'{{"{name}": "{value}"}}\'',
        origin=origin,
    )


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
            f"{self.node.name} was maintained by {self.before}, and is by {self.node.declared_strategy} from this run "
            f"on: {_expected(self.node.strategy)}{again if self.node.reset_allowed else ''}"
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
            f"{self.node.name} was maintained by {self.before}, and is now declared as {self.node.declared_strategy}.",
            f"Take the change back, {rebuild if self.node.reset_allowed else 'or '}go on with its rows as they are: "
            'materialization_change_behavior = "warn" under [flags] in tidemill.toml.',
            origin=self.node.origin,
        )


def change_of_mind(table: Table, snapshot: Snapshot | None, request: Request) -> ChangeOfMind | None:
    """The change since the last commit, where there is one; a full refresh rebuilds the table, so it has none."""
    record = snapshot.record if snapshot else None
    if snapshot is None or record is None or request.full_refresh or record.config_hash == table.config_hash:
        return None
    before = record.declared_strategy or _of_old_record(record.strategy, record.keys)
    if before is None or before.lower() == table.declared_strategy.lower():
        return None
    kept = not table.reset_allowed or snapshot.resists_reset
    return ChangeOfMind(table, before, refused=kept and table.strategy.replaces)


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


def refusals(table: Table, snapshot: Snapshot | None, request: Request) -> Iterator[ArgumentError]:
    """Why the table may not be run as it is asked for."""
    updates = table.strategy.form is MergeStrategy.UPDATE
    if snapshot is None:
        yield from [_missing_table(table)] if updates else []
    elif request.full_refresh:
        if not table.reset_allowed:
            yield _kept(table, snapshot, "is declared reset_allowed = false", "where it is declared")
        elif snapshot.resists_reset:
            yield _kept(table, snapshot, f"has the property {RESET_ALLOWED} = false", "on the table")
        if updates:
            yield _cannot_be_rebuilt(table)


def protection(snapshot: Snapshot, declared: Table | None) -> tuple[str, str] | None:
    """What says that the table's history is to be kept, and how that is lifted deliberately."""
    if declared is not None and not declared.reset_allowed:
        return "is declared reset_allowed = false", "set reset_allowed to true where it is declared"
    if snapshot.resists_reset:
        lifted = "set that property to true: where it is declared, followed by a run, or with ALTER TABLE"
        return f"has the property {RESET_ALLOWED} = false", lifted
    is_declared = declared is not None and declared.producer is not None
    if not is_declared and snapshot.properties.get(KEPT_FROM_RESET, "true").lower() == "false":
        return "was declared reset_allowed = false", "declare it with reset_allowed = true and run it once"
    return None


def _kept(table: Table, snapshot: Snapshot, said: str, where: str) -> ArgumentError:
    rows = "its rows" if snapshot.rows is None else f"{snapshot.rows:,} row{'' if snapshot.rows == 1 else 's'}"
    return ArgumentError(
        "table.reset_refused",
        f"{table.name} {said}: {rows} of history would be replaced.",
        f"Leave it out with --exclude {table.name}. If its history is to go, take a backup (tidemill backup "
        f"{table.name}), then allow it {where}.",
        origin=table.origin,
    )


def _cannot_be_rebuilt(table: Table) -> ArgumentError:
    return ArgumentError(
        "table.no_rebuild",
        f"{table.name} cannot be rebuilt: update changes only rows that are there, and its source gives no others.",
        f"Leave it out with --exclude {table.name}, or use upsert.",
        origin=table.origin,
    )


def _missing_table(table: Table) -> ArgumentError:
    return ArgumentError(
        "table.missing",
        f"{table.name} is not there, and update changes only rows that are.",
        "Use upsert to make it, or give the path of a table that is there.",
        origin=table.origin,
    )


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
