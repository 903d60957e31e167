"""What a run has to be given: variables that are missing, and values of the wrong type, reported before it begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.declare.joins import Join
from tidemill.declare.producers import Query
from tidemill.declare.strategies import DeleteInsert
from tidemill.declare.templates import WINDOW_PARAMETERS
from tidemill.errors import ArgumentError, did_you_mean
from tidemill.plan.starts import start_of, start_variable, window_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from tidemill.contracts.snapshots import Snapshot
    from tidemill.declare.tables import Table
    from tidemill.errors import Origin
    from tidemill.plan.requests import Request

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
    condition = table.strategy.condition if isinstance(table.strategy, DeleteInsert) else None
    if condition and not (first_run and free & set(condition.parameters)):
        known = free.union(WINDOW_PARAMETERS if table.window else _ENDS)
        yield from ((name, condition.origin) for name in condition.parameters if name not in known)
    if isinstance(table.producer, Join):
        yield from table.producer.variables()
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
