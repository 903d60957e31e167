"""What the first run of a table sends, and the next: the rows that it reads, and how they enter the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.declare.exports import DATABASE_KINDS
from tidemill.declare.functions import Function
from tidemill.declare.joins import Join
from tidemill.declare.loads import Loads
from tidemill.declare.names import quote, quoted_text
from tidemill.declare.producers import Loaded, Query
from tidemill.declare.strategies import DeleteInsert, Replace
from tidemill.declare.templates import Template
from tidemill.language.volatile import output_columns
from tidemill.plan.bounds import literals_of
from tidemill.plan.conditions import finding_rows_without_time, strategy_of
from tidemill.plan.fetching import reason_to_fetch
from tidemill.plan.joins import progress_of
from tidemill.plan.starts import start_variable
from tidemill.plan.variables import missing_variables
from tidemill.plan.windows import known_of
from tidemill.statements.joins import END, NOTES, START, join_query
from tidemill.statements.loads import LoadStatements
from tidemill.statements.operations import Entering, created, written
from tidemill.statements.windows import Placeholder, ShownWindow, first_window, next_window

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from tidemill.contracts.snapshots import Snapshot
    from tidemill.declare.sources import Source
    from tidemill.declare.strategies import Strategy
    from tidemill.declare.tables import Table
    from tidemill.declare.views import View
    from tidemill.plan.windows import WindowPlan
    from tidemill.statements.operations import Written

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
