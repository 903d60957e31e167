"""The statements that the first run of a table and the next one send, as texts that can be read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidemill.frontends.sql.scopes import output_columns
from tidemill.model import quote, quoted_text
from tidemill.model.cursor import StartVariable, Template
from tidemill.model.function import Function
from tidemill.model.join import Join
from tidemill.model.query import DATABASE_KINDS, Query
from tidemill.model.source import Loaded, Loads
from tidemill.model.strategy import Refresh
from tidemill.planning import USUAL, plan_step, reason_of_whole
from tidemill.planning.notices import NO_FACTS, WATERMARK, Facts, Placeholder, cursor_kind, open_window, unfilled_window
from tidemill.planning.operation_sql import END, NOTES, START, Entering, LoadStatements, created, join_query, written
from tidemill.planning.refusals import missing_variables
from tidemill.planning.starts import finding_rows_without_time, literals_of, start_variable, strategy_of, window_for
from tidemill.planning.windows import BY_LOGS, known_of, lookback_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from tidemill.model.query import View
    from tidemill.model.record import Snapshot
    from tidemill.model.source import Source
    from tidemill.model.strategy import Strategy
    from tidemill.model.table import Table, Window
    from tidemill.planning.operation_sql import Written
    from tidemill.planning.windows import WindowPlan

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
        plan = plan_step(table, known_of(table, snapshot), USUAL, given, now)
        sources = {each.load.input: each for together in plan.rounds for each in together}
        return LoadStatements(table, table.producer, sources, lambda part: _alone(part, snapshot, given, now)).all()
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
    since = plan_step(table, snapshot).reason if snapshot else "from where the last window ended"
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
        """What a first run sends, whether the table is there or not."""
        plan = plan_step(self.table, None, USUAL, self.given, self.now)
        window = plan.window
        literals = self._literals(window, first_run=True)
        filters = self._filters(self._strategy(literals, window, first_run=True), window)
        reason = "it reads from its start on" if window and window.start else "it reads everything"
        if self.table.function:
            reason = plan.reason.removeprefix("first run: ")
        again = (_AGAIN,) if self.snapshot else ()
        return self._run(FIRST, reason, literals, filters, created(self.table), (*_why(window, plan.notes), *again))

    def next(self) -> RunStatements:
        """What the next run sends, or the one after the first where the table is not there yet."""
        reason, window, notes = self._next()
        literals = self._literals(window if self.table.reads_windows else None, first_run=False)
        strategy = self._strategy(literals, window, first_run=False)
        entering = Entering(self.table, window.predicate if window else None, self._columns())
        filters = self._filters(strategy, window)
        return self._run(NEXT, reason, literals, filters, written(strategy, entering), _why(window, notes))

    def _next(self) -> tuple[str, WindowPlan | None, tuple[str, ...]]:
        """Why the next run reads what it does, its window, and what explains the placeholders in it."""
        window = self.table.window and window_for(self.table, self.given, first_run=False)
        start = window.moving_start if window else None
        if window and isinstance(start, StartVariable) and start.name not in self.given:
            unfilled = replace(open_window(window, f"since {start}"), start=Placeholder.named(f"<{start.name}>"))
            return unfilled.reason, unfilled, ()
        if self.snapshot is None and window and self.table.reads_windows and not self.table.function:
            return self._after_the_first(window)
        plan = plan_step(self.table, self.snapshot, USUAL, self.given, self.now, Facts(columns=self._columns()))
        hypothetical = self.snapshot is None and not self.table.function
        reason = self._reason_after_the_first() if hypothetical else plan.reason
        return reason, plan.window, plan.notes

    def _reason_after_the_first(self) -> str:
        refresh = self.table.strategy.refresh
        if refresh is None or refresh is Refresh.FULL:
            return reason_of_whole(self.table, self.given)
        return BY_LOGS

    def _after_the_first(self, window: Window) -> tuple[str, WindowPlan, tuple[str, ...]]:
        """The run after the first one, whose watermark nobody knows."""
        kind, assumed = cursor_kind(self.table, None, NO_FACTS, self.given, first_run=False)
        plan = unfilled_window(self.table, kind, self.given, self.now, f"since {WATERMARK}{lookback_text(window)}")
        unmade = f"{WATERMARK} is the highest {window.time_column} that is committed, and the table is not made yet"
        notes = () if not isinstance(plan.start, Placeholder) else (*((assumed,) if assumed else ()), unmade)
        return plan.reason, plan, notes

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
        if self.table.owns_window or strategy.replaces:
            return []
        window = [plan.predicate] if plan and plan.predicate != "true" else []
        own = [f"({predicate})"] if (predicate := strategy.predicate) else []
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
        asking = [each for each in (self.table.producer, self.table.strategy.condition) if isinstance(each, Template)]
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


def _why(window: WindowPlan | None, notes: tuple[str, ...]) -> tuple[str, ...]:
    return (*notes, *((window.notice,) if window and window.notice else ()))
