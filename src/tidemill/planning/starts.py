"""Where one run starts, and the literals that its @names stand for in queries and conditions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import singledispatch
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError
from tidemill.model import quote, quoted_text
from tidemill.model.cursor import CurrentDate, Cursor, CursorKind, Duration, StartVariable, cursor
from tidemill.model.query import Query
from tidemill.model.strategy import DeleteInsert
from tidemill.model.table import NullTime

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidemill.errors import Origin
    from tidemill.model.strategy import Strategy
    from tidemill.model.table import Table, Window
    from tidemill.planning.windows import WindowPlan

_BEGINNING = datetime(1900, 1, 1)  # noqa: DTZ001  in whichever zone
_MIDNIGHT = time()
_DAY = timedelta(days=1)


def literals_of(
    start: Cursor | None, end: Cursor | None, now: datetime, given: Mapping[str, str], variable: str | None = None
) -> dict[str, str]:
    """Literals by name, for a run whose window has these bounds and which begins `now`, in the zone of its session.

    Days are those of that zone: there a day in a query or a condition begins for Spark.
    Bounds of the window come first, because it is made of what is given; then what is `given`, as literals; then the
    year 1900 for a start, and the start of the run for an end. `variable` is the name at which the table's runs start:
    it stands for the start of the window, and for nothing else.
    """
    begins, ends = _moment(start, now.tzinfo), _moment(end, now.tzinfo)
    beginning = _BEGINNING.replace(tzinfo=now.tzinfo)
    found = {**_starts(beginning), **_ends(now)}
    found |= {name: literal for name, literal in given.items() if name != variable}
    found |= _starts(begins) if begins else {}
    found |= _ends(ends, is_bound=True) if ends else {}
    if variable and (variable not in found or (start and not begins)):
        found[variable] = start.literal() if start else _timestamp(beginning)
    return found


def _starts(moment: datetime) -> dict[str, str]:
    return {"start_dt": _timestamp(moment), "start_date": _date(moment.date())}


def _ends(moment: datetime, *, is_bound: bool = False) -> dict[str, str]:
    """The day that ends a window lies outside of it; that of a run belongs to it."""
    last = moment.date() if is_bound and moment.time() == _MIDNIGHT else moment.date() + _DAY
    return {"end_dt": _timestamp(moment), "end_date": _date(last)}


def _timestamp(moment: datetime) -> str:
    return Cursor(CursorKind.TIMESTAMP, moment.astimezone(UTC)).literal()


def _date(day: date) -> str:
    return Cursor(CursorKind.DATE, day).literal()


def _moment(bound: Cursor | None, zone: tzinfo | None) -> datetime | None:
    """A bound of a time column as a moment in this zone; other columns have none."""
    match bound.value if bound else None:
        case datetime() as moment:
            return moment.astimezone(zone) if moment.tzinfo else moment.replace(tzinfo=zone)
        case date() as day:
            return datetime(day.year, day.month, day.day, tzinfo=zone)
        case _:
            return None


STARTS = ("start_dt", "start_date")
_ENDS = ("end_dt", "end_date")
_INTO_THE_NEXT_DAY = Duration(36, "hour")  # days have 23 to 25 hours where clocks are changed


@dataclass(frozen=True, slots=True)
class Start:
    """Where a run starts, None for the beginning; `reason` is None where its watermark is reason enough.

    `given`: a variable says so, for this run alone.
    """

    value: Cursor | None
    reason: str | None = None
    notice: str | None = None
    given: bool = False


def start_variable(table: Table) -> StartVariable | None:
    """The variable at which the runs of a table start, where its declaration names one."""
    start = table.window.moving_start if table.window else None
    return start if isinstance(start, StartVariable) else None


def window_for(table: Table, variables: Mapping[str, str], *, first_run: bool, started: bool = False) -> Window:
    """The table's window as one run sees it; it has one. `started`: the run is given its start.

    A first run does not use the variable at which others start. A value for a bound that the query or the condition
    asks for wins over the bound itself, in every run.
    """
    window = table.window
    assert window is not None  # noqa: S101  asked only for tables that have one
    if started or (first_run and start_variable(table)):
        return replace(window, moving_start=None)
    name = next((name for name in STARTS if name in variables and name in _bounding(table)), None)
    if name and not start_variable(table):
        return replace(window, moving_start=StartVariable(name, table.origin))
    return window


def without_moving_start(table: Table) -> Table:
    """The table as if its runs went on where the last one ended."""
    return replace(table, window=replace(table.window, moving_start=None)) if table.window else table


def start_of(
    window: Window, kind: CursorKind, watermark: Cursor | None, variables: Mapping[str, str], now: datetime
) -> Start:
    """The start of one run of a table whose time column is of this kind.

    A literal and CURRENT_DATE bound every run: `max(start, watermark - lookback)`. A variable is where a run starts,
    whatever the watermark; `variables` have it. `now` is in the zone of the run's session, where bare dates begin.
    """
    if isinstance(window.moving_start, StartVariable):
        given = _value(window.moving_start.name, kind, variables, window.moving_start.origin, now)
        return Start(given, f"since {given} (from {window.moving_start})", _gap(given, watermark), given=True)
    bound = _bound(window, kind, now)
    if watermark is None:
        return Start(bound)
    since = watermark.less(window.lookback)
    if bound is None or bound <= since:
        return Start(since)
    reason = f"since {bound} ({window.moving_start})" if window.moving_start else f"since {bound}, its start"
    return Start(bound, reason, _gap(bound, watermark))


def end_of(table: Table, kind: CursorKind, variables: Mapping[str, str], now: datetime) -> Cursor | None:
    """Where a run ends whose query says so itself, by a bound that the run is given a value for."""
    asked = table.producer.parameters if table.owns_window and isinstance(table.producer, Query) else ()
    name = next((name for name in _ENDS if name in variables and name in asked), None)
    return _value(name, kind, variables, table.origin, now) if name else None


def goes_by_days(table: Table, bound: str = "start_date") -> bool:
    """Whether the query, or the condition, begins (or ends) with the day in which its window does."""
    return bound in _bounding(table)


def beginning_of_day(moment: Cursor, now: datetime) -> Cursor:
    """Midnight before a time, in the zone of the run's session; a day is its own."""
    match moment.value:
        case datetime(tzinfo=None) as naive:
            return Cursor(moment.kind, datetime.combine(naive, time()))
        case datetime() as aware:
            day = aware.astimezone(now.tzinfo).date()
            return Cursor(moment.kind, datetime.combine(day, time(), now.tzinfo).astimezone(UTC))
        case _:
            return moment


def end_of_day(moment: Cursor, now: datetime) -> Cursor:
    """Midnight at or after a time."""
    start = beginning_of_day(moment, now)
    return start if start == moment else beginning_of_day(start.plus(_INTO_THE_NEXT_DAY, 1), now)


def follows_variables(table: Table, variables: Mapping[str, str], *, first_run: bool) -> bool:
    """Whether the rows that a run takes depend on what it is given: inputs that are the same then mean nothing."""
    start = start_variable(table)
    if start and not first_run:
        return True
    return any(name in variables for name in _bounding(table) if not start or name != start.name)


def _bounding(table: Table) -> tuple[str, ...]:
    """The @names by which the query, or the condition, says which rows a run is about."""
    query = table.producer.parameters if table.owns_window and isinstance(table.producer, Query) else ()
    condition = table.strategy.condition
    return (*query, *(condition.parameters if condition else ()))


def _value(name: str, kind: CursorKind, variables: Mapping[str, str], origin: Origin | None, now: datetime) -> Cursor:
    try:
        return cursor(kind, variables[name], now.tzinfo)
    except ArgumentError as bad:
        problem = f"@{name} is {variables[name]!r}, which is no {kind}."
        raise ArgumentError(bad.code, problem, bad.remedy, origin=origin) from bad


def _bound(window: Window, kind: CursorKind, now: datetime) -> Cursor | None:
    if window.start is not None:
        return _declared(window.start, kind, window, now)
    return _midnight(window, kind, now) if isinstance(window.moving_start, CurrentDate) else None


def _declared(start: str, kind: CursorKind, window: Window, now: datetime) -> Cursor:
    try:
        return cursor(kind, start, now.tzinfo)
    except ArgumentError as bad:
        problem = f"The start of {window.time_column} is {start!r}, which is no {kind}."
        raise ArgumentError(bad.code, problem, bad.remedy) from bad


def _midnight(window: Window, kind: CursorKind, now: datetime) -> Cursor:
    """The beginning of the day of the run, in the zone of its session."""
    today = now.date()
    match kind:
        case CursorKind.DATE:
            return Cursor(kind, today)
        case CursorKind.TIMESTAMP:
            return Cursor(kind, datetime.combine(today, time(), now.tzinfo).astimezone(UTC))
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


def table_for(
    table: Table, window: WindowPlan | None, variables: Mapping[str, str], now: datetime, *, first_run: bool
) -> Table:
    """The table with the strategy of one run, which reads this window. Only that run may know it by this strategy.

    What the record keeps, hashes included, is of the table as declared.
    """
    start, end = (window.start, window.end) if window else (None, None)
    given = {name: quoted_text(value) for name, value in variables.items()}
    variable = start_variable(table)
    literals = literals_of(start, end, now, given, variable.name if variable else None)
    strategy = finding_rows_without_time(strategy_of(table, literals, first_run=first_run), window)
    return table if strategy == table.strategy else replace(table, strategy=strategy)


def strategy_of(table: Table, literals: Mapping[str, str], *, first_run: bool) -> Strategy:
    """The strategy with literals in the place of the @names of its condition.

    A condition that uses the variable at which runs start has no part in a first run, which reads everything.
    """
    return _with_literals(table.strategy, start_variable(table) if first_run else None, literals)


@singledispatch
def _with_literals(strategy: Strategy, unused: StartVariable | None, literals: Mapping[str, str]) -> Strategy:  # noqa: ARG001
    return strategy


@_with_literals.register(DeleteInsert)
def _(strategy: DeleteInsert, unused: StartVariable | None, literals: Mapping[str, str]) -> Strategy:
    if strategy.condition is None:
        return strategy
    if unused and unused.name in strategy.condition.parameters:
        return DeleteInsert(max_shrink=strategy.max_shrink)
    return replace(strategy, predicate=strategy.condition.put(literals), condition=None)


@singledispatch
def finding_rows_without_time(strategy: Strategy, window: WindowPlan | None) -> Strategy:  # noqa: ARG001
    """A predicate on the time says neither yes nor no to a row that has none, so such a row would just be missing.

    It counts as matched: then it is an error, or replaced as the others are, as `null_time` says.
    """
    return strategy


@finding_rows_without_time.register(DeleteInsert)
def _(strategy: DeleteInsert, window: WindowPlan | None) -> Strategy:
    if strategy.predicate is None:
        return strategy
    if window is None or window.null_time is NullTime.SKIP:
        return strategy
    given = f"({strategy.predicate})"
    return replace(strategy, predicate=f"{given} OR ({given} IS NULL AND {quote(window.column)} IS NULL)")
