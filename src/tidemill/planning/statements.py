"""The statements that the first run of a table and the next one send, as texts that can be read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, NoReturn

from tidemill.formats.log import kind_of_column
from tidemill.frontends.sql.volatile import output_columns
from tidemill.model.cursor import Cursor, CursorKind, Duration
from tidemill.model.function import Function
from tidemill.model.join import Join
from tidemill.model.names import quote, quoted_text
from tidemill.model.query import DATABASE_KINDS, Loaded, Query
from tidemill.model.source import Loads
from tidemill.model.strategy import DeleteInsert, Replace
from tidemill.model.window import CurrentDate, StartVariable, Template
from tidemill.planning.dates import reason_to_fetch
from tidemill.planning.joins import progress_of
from tidemill.planning.operation_sql import END, NOTES, START, Entering, LoadStatements, created, join_query, written
from tidemill.planning.refusals import missing_variables
from tidemill.planning.starts import (
    end_of,
    finding_rows_without_time,
    goes_by_days,
    literals_of,
    start_of,
    start_variable,
    strategy_of,
    window_for,
)
from tidemill.planning.windows import WindowPlan, known_of, plan_window

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidemill.model.query import View
    from tidemill.model.record import Snapshot
    from tidemill.model.source import Source
    from tidemill.model.strategy import Strategy
    from tidemill.model.table import Table, Window
    from tidemill.planning.operation_sql import Written

WATERMARK = "<watermark>"


class Placeholder(Cursor):
    """A value that only a run knows; its literal is the text that stands for it."""

    @classmethod
    def named(cls, text: str) -> Placeholder:
        return cls(CursorKind.STRING, text)

    def literal(self) -> str:
        return self.text()


@dataclass(frozen=True, slots=True)
class ShownWindow:
    """A window, and why a part of it is a placeholder, or is an assumption."""

    plan: WindowPlan
    why: tuple[str, ...] = ()


class _OnlyRowsTellError(Exception):
    """The watermark has to be asked of the table's rows, which needs Spark."""


def first_window(table: Table, variables: Mapping[str, str], now: datetime) -> ShownWindow:
    """What a first run reads, whether the table is there or not."""
    window = window_for(table, variables, first_run=True)
    kind, why = _kind(table, window, None, variables)
    if kind is None:
        return ShownWindow(_open(window, "first run"))
    return ShownWindow(plan_window(table, kind, (), None, _refuse_to_ask, now, variables=variables), why)


def next_window(
    table: Table,
    columns: Sequence[str],
    snapshot: Snapshot | None,
    variables: Mapping[str, str],
    now: datetime,
) -> ShownWindow:
    """What the run after the first one reads, or the next one where the table is there.

    The type of the time column is that of the watermark, of the table's column, or else of the declared start.
    """
    window = window_for(table, variables, first_run=False)
    kind, why = _kind(table, window, snapshot, variables)
    start = window.moving_start
    if isinstance(start, StartVariable) and start.name not in variables:
        return ShownWindow(replace(_open(window, f"since {start}"), start=Placeholder.named(f"<{start.name}>")))
    if snapshot is not None and kind is not None:
        try:
            plan = plan_window(table, kind, columns, snapshot, _refuse_to_ask, now, variables=variables)
            return ShownWindow(plan, why)
        except _OnlyRowsTellError:
            return _after_the_watermark(table, kind, variables, now, (*why, _asked_of_rows(window, snapshot)))
    unmade = f"{WATERMARK} is the highest {window.time_column} that is committed, and the table is not made yet"
    return _after_the_watermark(table, kind, variables, now, (*why, unmade))


def _after_the_watermark(
    table: Table, kind: CursorKind | None, variables: Mapping[str, str], now: datetime, why: tuple[str, ...]
) -> ShownWindow:
    """The window of a run whose watermark is not known: only a variable says where it starts all the same."""
    window = window_for(table, variables, first_run=False)
    bound = start_of(window, kind, None, variables, now) if kind else None
    end = end_of(table, kind, variables, now) if kind else None
    if bound and bound.given:
        return ShownWindow(replace(_open(window, bound.reason or ""), start=bound.value, end=end))
    since = f"{WATERMARK}{_minus(window.lookback)}"
    text = f"greatest({bound.value.literal()}, {since})" if bound and bound.value else since
    text = f"date_trunc('DAY', {text})" if goes_by_days(table) and kind is not CursorKind.DATE else text
    reason = f"since {WATERMARK}{f', lookback {window.lookback}' if window.lookback else ''}"
    return ShownWindow(replace(_open(window, reason), start=Placeholder.named(text), end=end), why)


def _open(window: Window, reason: str) -> WindowPlan:
    return WindowPlan(window.time_column, CursorKind.STRING, reason, window.null_time)


def _kind(
    table: Table, window: Window, snapshot: Snapshot | None, variables: Mapping[str, str]
) -> tuple[CursorKind | None, tuple[str, ...]]:
    """The type of the time column, and what it was taken from where that is not the table itself."""
    known = snapshot.record.progress.get(table.input) if snapshot and snapshot.record else None
    kind = known.kind if known else kind_of_column(table)
    if kind is not None:
        return kind, ()
    start = _bound_of(window, variables)
    if start is None:
        return None, ()
    kind = CursorKind.DATE if start == str(CurrentDate()) else _kind_of(start)
    why = f"the type of {window.time_column} is not known yet: its start, {start}, is treated as a {kind}"
    return kind, (why,)


def _bound_of(window: Window, variables: Mapping[str, str]) -> str | None:
    """Where runs start, as it is written or given."""
    match window.moving_start:
        case CurrentDate() as today:
            return str(today)
        case StartVariable(name):
            return variables.get(name)
        case _:
            return window.start


def _kind_of(text: str) -> CursorKind:
    """The type that a bound looks like."""
    if text.strip().lstrip("-").isdecimal():
        return CursorKind.INTEGER
    for kind, read in _READERS:
        try:
            read(text.strip())
        except (ValueError, InvalidOperation):
            continue
        return kind
    return CursorKind.STRING


_READERS = (
    (CursorKind.DATE, date.fromisoformat),
    (CursorKind.TIMESTAMP, datetime.fromisoformat),
    (CursorKind.DECIMAL, Decimal),
)


def _refuse_to_ask(version: int) -> NoReturn:
    raise _OnlyRowsTellError(version)


def _asked_of_rows(window: Window, snapshot: Snapshot) -> str:
    event = "somebody else removed rows" if snapshot.record else "the table was made by others"
    return f"{WATERMARK} is the highest {window.time_column} that the table holds: {event}, so the run asks its rows"


def _minus(lookback: Duration | int | None) -> str:
    match lookback:
        case None:
            return ""
        case Duration(amount, unit):
            return f" - INTERVAL {amount} {unit.upper()}{'' if amount == 1 else 'S'}"
        case number:
            return f" - {number}"


FIRST, NEXT, ALWAYS = "first", "next", "always"
_AGAIN = "the table is there: a full refresh puts these rows in the place of those that it holds"


@dataclass(frozen=True, slots=True)
class RunStatements:
    """What one run sends. `reads` gives the rows of the change; `writes` is how they enter the table, as `change`.

    `filter` is what of `reads` Tidemill adds to the query: the window, as Spark gets it.
    """

    run: str
    reason: str
    reads: str
    filter: str | None = None
    writes: str | None = None
    notes: tuple[str, ...] = ()


def statements_of(
    table: Table, snapshot: Snapshot | None, given: Mapping[str, str], now: datetime
) -> tuple[RunStatements, ...]:
    """A first run of the table at `now`, and the next run of it as its log says it is."""
    if isinstance(table.producer, Loads):
        return LoadStatements(table, table.producer, snapshot, lambda part: _alone(part, snapshot, given, now)).all()
    if isinstance(table.producer, Join):
        literals = {name: f"<{name}>" for name in table.producer.parameters}
        literals |= {name: quoted_text(value) for name, value in given.items()}
        return _joins(table, table.producer.filled(literals), known_of(table, snapshot))
    return _alone(table, snapshot, given, now)


def _alone(
    table: Table, snapshot: Snapshot | None, given: Mapping[str, str], now: datetime
) -> tuple[RunStatements, RunStatements]:
    found = _Statements(table, known_of(table, snapshot), given, now)
    return found.first(), found.next()


def _joins(table: Table, join: Join, snapshot: Snapshot | None) -> tuple[RunStatements, RunStatements]:
    """Both windows of a join read alike; where they begin and end only a run knows."""
    reads, window = join_query(join), f"{quote(join.time)} >= {START} AND {quote(join.time)} < {END}"
    again = (_AGAIN,) if snapshot else ()
    made, later = created(table), written(table.strategy, Entering(table, window, None))
    done = progress_of(table, snapshot)
    since = f"from behind {done} to what both sides have in full" if done else "from where the last window ended"
    first = RunStatements(FIRST, "from the first row on", reads, window, made.sql, (*NOTES, *again, *made.notes))
    return first, RunStatements(NEXT, since, reads, window, later.sql, (*NOTES, *later.notes[:1]))


def view_statements(view: View) -> RunStatements:
    return RunStatements(ALWAYS, "a view keeps no rows, so its query runs then", view.query.text)


@dataclass(frozen=True, slots=True)
class _Statements:
    table: Table
    snapshot: Snapshot | None
    given: Mapping[str, str]
    now: datetime

    def first(self) -> RunStatements:
        shown = (
            first_window(self.table, self.given, self.now) if self.table.window and not self.table.function else None
        )
        plan = shown.plan if shown else None
        literals = self._literals(plan, first_run=True)
        filters = self._filters(self._strategy(literals, plan, first_run=True), plan)
        reason = "it reads from its start on" if shown and shown.plan.start else "it reads everything"
        if self.table.function:
            reason = reason_to_fetch(self.table, None, None, self.now).removeprefix("first run: ")
        again = (_AGAIN,) if self.snapshot else ()
        return self._run(FIRST, reason, literals, filters, created(self.table), (*_why(shown), *again))

    def next(self) -> RunStatements:
        shown = self._next_window()
        plan = shown.plan if shown else None
        literals = self._literals(plan if self.table.reads_windows else None, first_run=False)
        strategy = self._strategy(literals, plan, first_run=False)
        entering = Entering(self.table, plan.predicate if plan else None, self._columns())
        reason = plan.reason if plan and self.table.reads_windows else "it reads everything"
        if self.table.function:
            reason = reason_to_fetch(self.table, self.snapshot, None, self.now)
        filters = self._filters(strategy, plan)
        return self._run(NEXT, reason, literals, filters, written(strategy, entering), _why(shown))

    def _next_window(self) -> ShownWindow | None:
        if self.table.window is None or self.table.function:
            return None
        return next_window(self.table, self._columns() or (), self.snapshot, self.given, self.now)

    def _strategy(self, literals: Mapping[str, str], plan: WindowPlan | None, *, first_run: bool) -> Strategy:
        return finding_rows_without_time(strategy_of(self.table, literals, first_run=first_run), plan)

    def _run(
        self,
        run: str,
        reason: str,
        literals: Mapping[str, str],
        filters: list[str],
        writes: Written,
        why: tuple[str, ...],
    ) -> RunStatements:
        missing = missing_variables(self.table, self.given, first_run=run == FIRST)
        asked = tuple(f"{each.problem} {each.remedy}" for each in missing)
        text, about = self._rows(literals)
        condition = "\n  AND ".join(filters) or None
        reads = f"SELECT * FROM (\n{text}\n)\nWHERE {condition}" if condition else text
        return RunStatements(run, reason, reads, condition, writes.sql, (*asked, *about, *why, *writes.notes))

    def _rows(self, literals: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
        """The query as Spark gets it, or a source by its name; and what is to be known of it."""
        match self.table.producer:
            case Query() as query:
                return query.put(literals), ()
            case Loaded(source):
                columns = ", ".join(map(quote, source.columns)) or "*"
                return f"SELECT {columns} FROM {source.name}", (_about(source),)
            case Function(call) as function:
                return f"SELECT * FROM {call.__name__}", (f"{call.__name__} is the function at {function.origin}",)
            case _:
                raise NotImplementedError(self.table.producer)

    def _filters(self, strategy: Strategy, plan: WindowPlan | None) -> list[str]:
        """What is filtered over the query's result; a query that has taken charge of its window is not."""
        if self.table.owns_window or isinstance(strategy, Replace):
            return []
        window = [plan.predicate] if plan and plan.predicate != "true" else []
        own = [f"({strategy.predicate})"] if isinstance(strategy, DeleteInsert) and strategy.predicate else []
        return [*window, *own]

    def _literals(self, plan: WindowPlan | None, *, first_run: bool) -> dict[str, str]:
        """What stands in the place of @names, as a run fills them; a variable that is not given is a placeholder."""
        start, end = (plan.start, plan.end) if plan else (None, None)
        given = {name: quoted_text(value) for name, value in self.given.items()}
        variable = start_variable(self.table)
        known = literals_of(start, end, self.now, given, variable.name if variable else None)
        if isinstance(start, Placeholder):
            known |= {"start_dt": start.literal(), "start_date": f"date({start.literal()})"}
        return known | {name: f"<{name}>" for name in self._missing(first_run=first_run)}

    def _missing(self, *, first_run: bool) -> list[str]:
        """The @names that a run needs and is not given: with a value for one of them less is missing."""
        strategy = self.table.strategy
        condition = strategy.condition if isinstance(strategy, DeleteInsert) else None
        asking = [each for each in (self.table.producer, condition) if isinstance(each, Template)]
        names = dict.fromkeys(name for each in asking for name in each.parameters)
        without = len(missing_variables(self.table, self.given, first_run=first_run))

        def is_missing(name: str) -> bool:
            return len(missing_variables(self.table, {**self.given, name: ""}, first_run=first_run)) < without

        return [name for name in names if is_missing(name)]

    def _columns(self) -> tuple[str, ...] | None:
        """The columns of the change: by its query or source where they are written down, else by the last commit."""
        record = self.snapshot.record if self.snapshot else None
        match self.table.producer:
            case Query() as query:
                named = output_columns(query.text)
            case Loaded(source):
                named = source.columns or None
            case _:
                named = None
        return named or (record.columns if record else None) or None


def _about(source: Source) -> str:
    filters = ", which filters by itself, in its own words" if source.kind.lower() in DATABASE_KINDS else ""
    return f"{source.name} is the source of that name, {source.kind.upper()}{filters}"


def _why(shown: ShownWindow | None) -> tuple[str, ...]:
    if shown is None:
        return ()
    return (*shown.why, *((shown.plan.notice,) if shown.plan.notice else ()))
