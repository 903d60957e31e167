"""How a change enters its table, as a statement of SQL that says the same; `tidemill.change` is what really does it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import TYPE_CHECKING

from tidemill.declare.names import of, quote, spelled
from tidemill.declare.strategies import Append, DeleteInsert, Merge, MergeStrategy, Replace, Strategy, one_predicate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidemill.declare.tables import Table

CHANGE = "change"
HELD = "held"
COMING = "coming"
_UNKNOWN_COLUMNS = "<some other column differs>"


@dataclass(frozen=True, slots=True)
class Entering:
    """A change on its way into a table that is there: `window` is the filter of the run, `columns` are the change's.

    They are None where there is no window, and where only Spark can tell the columns.
    """

    table: Table
    window: str | None
    columns: Sequence[str] | None

    @property
    def name(self) -> str:
        return self.table.name


@dataclass(frozen=True, slots=True)
class Written:
    """A statement, and what it does not say."""

    sql: str
    notes: tuple[str, ...] = ()


def created(table: Table) -> Written:
    """What a first run writes."""
    layout = f"\nPARTITIONED BY ({', '.join(map(quote, table.partition_by))})" if table.partition_by else ""
    sql = f"CREATE TABLE {table.name} USING delta{layout} AS\nSELECT * FROM {CHANGE}"
    return Written(sql, _one_row_per_key(table.strategy) if isinstance(table.strategy, Merge) else ())


@singledispatch
def written(strategy: Strategy, entering: Entering) -> Written:
    """What a later run writes, in one commit; in none where nothing differs."""
    raise NotImplementedError(strategy)


@written.register(Append)
def _(strategy: Append, entering: Entering) -> Written:  # noqa: ARG001  dispatched on
    insert = f"INSERT INTO {entering.name}\nSELECT * FROM {CHANGE}"
    if entering.window is None:
        return Written(insert, ("it has no time column: every row that is read is appended",))
    sql = f"{insert}\nEXCEPT ALL\nSELECT * FROM {entering.name} WHERE {entering.window}"
    return Written(sql, _compared_without(entering.table))


@written.register(Replace)
def _(strategy: Replace, entering: Entering) -> Written:
    notes = ("only if the rows are not those that it holds", *_compared_without(entering.table))
    return Written(
        f"INSERT OVERWRITE {entering.name}\nSELECT * FROM {CHANGE}", (*notes, *_shrinks(strategy.max_shrink))
    )


@written.register(DeleteInsert)
def _(strategy: DeleteInsert, entering: Entering) -> Written:
    predicate = one_predicate(strategy, entering.window)
    notes = ["the rows where it holds are deleted and the change's inserted, in one commit; none if they are the same"]
    if entering.table.owns_window:
        notes.append("the query bounds its rows itself: one outside of the predicate is an error")
    sql = f"INSERT INTO {entering.name} REPLACE WHERE {predicate}\nSELECT * FROM {CHANGE}"
    return Written(sql, (*notes, *_compared_without(entering.table)))


@written.register(Merge)
def _(strategy: Merge, entering: Entering) -> Written:
    lines = [
        f"MERGE INTO {entering.name} AS {HELD}",
        f"USING {CHANGE} AS {COMING}",
        f"ON {' AND '.join(f'{of(HELD, key)} = {of(COMING, key)}' for key in strategy.keys)}",
        *_clauses(strategy, entering),
    ]
    notes = (
        *_one_row_per_key(strategy),
        "files that cannot hold a key of the change are not read; new keys alone are appended",
        *_compared_without(entering.table),
        *_shrinks(strategy.max_shrink),
    )
    return Written("\n".join(lines), notes)


def _clauses(strategy: Merge, entering: Entering) -> list[str]:
    found = []
    if strategy.form is not MergeStrategy.INSERT:
        condition = " AND ".join([_differs(strategy, entering), *_newer(strategy)])
        found.append(f"WHEN MATCHED AND {condition} THEN UPDATE SET *")
    if strategy.form is not MergeStrategy.UPDATE:
        found.append("WHEN NOT MATCHED THEN INSERT *")
    if strategy.form is MergeStrategy.FULL_MERGE:
        found.append("WHEN NOT MATCHED BY SOURCE THEN DELETE")
    return found


def _differs(strategy: Merge, entering: Entering) -> str:
    """Some column that is compared is not the same, NULLs included."""
    if entering.columns is None:
        return _UNKNOWN_COLUMNS
    apart = [*strategy.keys, *entering.table.volatile]
    values = [column for column in entering.columns if spelled(column, apart) is None]
    pairs = [f"  {of(HELD, column)} <=> {of(COMING, column)}" for column in values]
    together = " AND\n".join(pairs)
    return f"NOT (\n{together}\n)" if pairs else "false"


def _newer(strategy: Merge) -> list[str]:
    if strategy.only_newer is None:
        return []
    stored, given = of(HELD, strategy.only_newer), of(COMING, strategy.only_newer)
    return [f"({stored} IS NULL OR {given} >= {stored})"]


def _one_row_per_key(strategy: Merge) -> tuple[str, ...]:
    keys, order = ", ".join(strategy.keys), ", ".join(strategy.dedup_order_by)
    if order or strategy.form is MergeStrategy.DEDUPLICATE:
        return (f"of rows with the same {keys} one enters: the highest by {order or 'all columns'}",)
    if strategy.newest_by:
        return (f"of rows with the same {keys} the newest by {strategy.newest_by} enters; different ones are an error",)
    return (f"different rows with the same {keys} are an error, and so is a NULL in a key",)


def _compared_without(table: Table) -> tuple[str, ...]:
    names = ", ".join(table.volatile)
    take = "takes" if len(table.volatile) == 1 else "take"
    return (f"{names} {take} no part in the comparison",) if names else ()


def _shrinks(share: float | None) -> tuple[str, ...]:
    return () if share is None else (f"refused if it drops more than {share:g} of the rows (max_shrink)",)
