"""What the condition of a delete_insert is in one run: values in the place of its @names, and rows without a time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidemill.declare.names import quote, quoted_text
from tidemill.declare.strategies import DeleteInsert
from tidemill.declare.tables import NullTime
from tidemill.plan.bounds import literals_of
from tidemill.plan.starts import start_variable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from tidemill.declare.strategies import Strategy
    from tidemill.declare.tables import Table
    from tidemill.plan.windows import WindowPlan


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
    strategy = table.strategy
    if not isinstance(strategy, DeleteInsert) or strategy.condition is None:
        return strategy
    start = start_variable(table)
    if first_run and start and start.name in strategy.condition.parameters:
        return DeleteInsert(max_shrink=strategy.max_shrink)
    return replace(strategy, predicate=strategy.condition.put(literals), condition=None)


def finding_rows_without_time(strategy: Strategy, window: WindowPlan | None) -> Strategy:
    """A predicate on the time says neither yes nor no to a row that has none, so such a row would just be missing.

    It counts as matched: then it is an error, or replaced as the others are, as `null_time` says.
    """
    if not isinstance(strategy, DeleteInsert) or strategy.predicate is None:
        return strategy
    if window is None or window.null_time is NullTime.SKIP:
        return strategy
    given = f"({strategy.predicate})"
    return replace(strategy, predicate=f"{given} OR ({given} IS NULL AND {quote(window.column)} IS NULL)")
