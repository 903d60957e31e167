"""Where one run starts, and what of its variables it needs: the rules for starts that are not literals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, time
from typing import TYPE_CHECKING

from tidemill.declare.cursors import Cursor, CursorKind, cursor
from tidemill.declare.producers import Query
from tidemill.declare.starts import CurrentDate, StartVariable
from tidemill.declare.strategies import DeleteInsert
from tidemill.declare.templates import WINDOW_PARAMETERS
from tidemill.errors import ArgumentError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tidemill.declare.strategies import Strategy
    from tidemill.declare.tables import Table, Window
    from tidemill.errors import Origin

_ENDS = ("end_dt", "end_date")  # the start of the run, which needs no window


@dataclass(frozen=True, slots=True)
class Start:
    """Where a run starts, None for the beginning; `reason` is None where its watermark is reason enough."""

    value: Cursor | None
    reason: str | None = None
    notice: str | None = None


def start_of(
    window: Window,
    kind: CursorKind,
    watermark: Cursor | None,
    variables: Mapping[str, str],
    now: datetime,
    *,
    first_run: bool,
) -> Start:
    """The start of one run of a table whose time column is of this kind.

    A literal and CURRENT_DATE bound every run: `max(start, watermark - lookback)`. A variable is where a later run
    starts, whatever the watermark; a first run does not use it. `variables` have all that `missing_variables` asks for.
    """
    if isinstance(window.moving_start, StartVariable) and not first_run:
        given = _given(window.moving_start, kind, variables)
        return Start(given, f"since {given} (from {window.moving_start})", _gap(given, watermark))
    bound = _bound(window, kind, now)
    if watermark is None:
        return Start(bound)
    since = watermark.less(window.lookback)
    if bound is None or bound <= since:
        return Start(since)
    reason = f"since {bound} ({window.moving_start})" if window.moving_start else f"since {bound}, its start"
    return Start(bound, reason, _gap(bound, watermark))


def strategy_of(table: Table, literals: Mapping[str, str], *, first_run: bool) -> Strategy:
    """The strategy of one run, with literals in the place of the @names of its condition.

    A condition that uses the variable at which runs start has no part in a first run, which reads everything. The
    outcome is for the run alone: the config hash is that of the table as declared.
    """
    strategy = table.strategy
    if not isinstance(strategy, DeleteInsert) or strategy.condition is None:
        return strategy
    start = _start_variable(table)
    if first_run and start and start.name in strategy.condition.parameters:
        return DeleteInsert()
    return replace(strategy, predicate=strategy.condition.put(literals), condition=None)


def missing_variables(table: Table, variables: Mapping[str, str], *, first_run: bool) -> list[ArgumentError]:
    """An error for each variable that this run needs and that nobody gives; `variables` are those that are given."""
    found = {name: origin for name, origin in _needed(table, first_run=first_run) if name not in variables}
    return [_missing(table, name, origin, variables) for name, origin in found.items()]


def _needed(table: Table, *, first_run: bool) -> Iterator[tuple[str, Origin | None]]:
    """Names and where they are asked for; bounds that the window of the run gives need not be given."""
    start = _start_variable(table)
    if start and not first_run:
        yield start.name, start.origin
    condition = table.strategy.condition if isinstance(table.strategy, DeleteInsert) else None
    if condition and not (first_run and start and start.name in condition.parameters):
        known = WINDOW_PARAMETERS if table.window else _ENDS
        yield from ((name, condition.origin) for name in condition.parameters if name not in known)
    if isinstance(table.producer, Query):
        asked = (name for name in table.producer.parameters if name not in WINDOW_PARAMETERS)
        yield from ((name, table.producer.origin) for name in asked)


def _start_variable(table: Table) -> StartVariable | None:
    start = table.window.moving_start if table.window else None
    return start if isinstance(start, StartVariable) else None


def _missing(table: Table, name: str, origin: Origin | None, given: Mapping[str, str]) -> ArgumentError:
    close = did_you_mean(name, given)
    hint = f"{close} is given: did you mean {name}? " if close else ""
    start = _start_variable(table)
    value = "2024-02-01" if name in WINDOW_PARAMETERS or (start and name == start.name) else "…"
    return ArgumentError(
        "variables.missing",
        f"{table.name} needs @{name}.",
        f'{hint}Give it on the command line: tidemill run -s {table.name} --vars \'{{"{name}": "{value}"}}\'',
        origin=origin,
    )


def _given(start: StartVariable, kind: CursorKind, variables: Mapping[str, str]) -> Cursor:
    value = variables[start.name]
    try:
        return cursor(kind, value)
    except ArgumentError as bad:
        problem = f"{start} is {value!r}, which is no {kind}."
        raise ArgumentError(bad.code, problem, bad.remedy, origin=start.origin) from bad


def _bound(window: Window, kind: CursorKind, now: datetime) -> Cursor | None:
    if window.start is not None:
        return cursor(kind, window.start)
    return _midnight(window, kind, now) if isinstance(window.moving_start, CurrentDate) else None


def _midnight(window: Window, kind: CursorKind, now: datetime) -> Cursor:
    """The beginning of the day of the run, in UTC."""
    today = now.astimezone(UTC).date()
    match kind:
        case CursorKind.DATE:
            return Cursor(kind, today)
        case CursorKind.TIMESTAMP:
            return Cursor(kind, datetime.combine(today, time(), UTC))
        case CursorKind.TIMESTAMP_NTZ:
            return Cursor(kind, datetime.combine(today, time()))
        case _:
            raise ArgumentError(
                "window.bad_start",
                f"CURRENT_DATE cannot be where {window.time_column} starts, which is of the kind {kind}.",
                "Use a time column of dates or timestamps, or another start.",
            )


def _gap(start: Cursor, watermark: Cursor | None) -> str | None:
    if watermark is None or start <= watermark:
        return None
    return f"this run starts at {start}, and its table was read up to {watermark}: rows in between are not taken"
