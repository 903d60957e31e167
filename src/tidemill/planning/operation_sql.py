"""How a change enters its table, as SQL that says the same; `tidemill.changes` is what really does it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch
from typing import TYPE_CHECKING

from tidemill.formats import DEFAULT_FORMAT
from tidemill.model import of, quote, spelled
from tidemill.model.cursor import Duration
from tidemill.model.join import JoinType
from tidemill.model.source import Loads, common_cursor, strategy_of
from tidemill.model.strategy import (
    Append,
    DeleteInsert,
    MaterializedView,
    Merge,
    MergeStrategy,
    Refresh,
    Replace,
    Strategy,
    one_predicate,
)
from tidemill.planning.windows import NOT_READ_YET

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tidemill.model.join import Join, JoinSide
    from tidemill.model.source import Load
    from tidemill.model.table import Table
    from tidemill.planning.loads import SourcePlan
    from tidemill.planning.statements import RunStatements

    Alone = Callable[[Table], tuple[RunStatements, RunStatements]]

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
    sql = f"CREATE TABLE {table.name} USING {table.format or DEFAULT_FORMAT}{layout} AS\nSELECT * FROM {CHANGE}"
    return Written(sql, _one_row_per_key(table.strategy))


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


@written.register(MaterializedView)
def _(strategy: MaterializedView, entering: Entering) -> Written:
    whole = written.dispatch(Replace)(strategy, entering)
    if strategy.refresh is Refresh.FULL:
        return whole
    is_auto = strategy.refresh is Refresh.AUTO
    which = "this is a full refresh; an incremental one" if is_auto else "an incremental refresh"
    note = f"{which} computes only the rows that depend on what changed: tidemill explain {entering.name} shows how"
    return Written(whole.sql, (note, *whole.notes))


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


@singledispatch
def _one_row_per_key(strategy: Strategy) -> tuple[str, ...]:  # noqa: ARG001  dispatched on
    return ()


@_one_row_per_key.register(Merge)
def _(strategy: Merge) -> tuple[str, ...]:
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


START, END = "<start>", "<end>"
NOTES = (f"{START} and {END} are the bounds of the window: a run knows them, and tidemill plan shows them",)
_WORDS = {
    JoinType.INNER: "INNER JOIN",
    JoinType.LEFT: "LEFT JOIN",
    JoinType.RIGHT: "RIGHT JOIN",
    JoinType.FULL_OUTER: "FULL JOIN",
    JoinType.LEFT_ANTI: "LEFT ANTI JOIN",
    JoinType.RIGHT_ANTI: "LEFT ANTI JOIN",
}


def join_query(join: Join) -> str:
    """The rows of one window."""
    a, b = of(join.a.alias, join.a.time), of(join.b.alias, join.b.time)
    back, forward = _length(join.look_back), _length(join.look_forward)
    first, second = (join.b, join.a) if join.how is JoinType.RIGHT_ANTI else (join.a, join.b)
    later = {JoinType.LEFT_ANTI: f"{a} + {forward}", JoinType.RIGHT_ANTI: f"{b} + {back}"}
    both = f"CASE WHEN {b} IS NULL THEN {a} + {forward} WHEN {a} IS NULL THEN {b} + {back} ELSE greatest({a}, {b}) END"
    columns = ", ".join(each.text for each in join.select)
    return "\n".join(
        [
            "SELECT * FROM (",
            f"  SELECT {columns}, {later.get(join.how, both)} AS {quote(join.time)}",
            f"  FROM {_rows(join, first)}",
            f"  {_WORDS[join.how]} {_rows(join, second)}",
            f"  ON ({join.on.text}) AND {b} BETWEEN {a} - {back} AND {a} + {forward}",
            ")",
            f"WHERE {quote(join.time)} >= {START} AND {quote(join.time)} < {END}",
        ]
    )


def _rows(join: Join, side: JoinSide) -> str:
    """A side within the scope of the window."""
    time, back, forward = quote(side.time), _length(join.look_back), _length(join.look_forward)
    judged = join.how.has_outdated_b if side is join.a else join.how.has_outdated_a
    before = f"{back} - {forward}" if judged else forward if side is join.a else back
    return f"(SELECT * FROM {side.table} WHERE {time} >= {START} - {before} AND {time} < {END}) AS {quote(side.alias)}"


def _length(length: Duration | int) -> str:
    match length:
        case Duration(amount, unit):
            return f"INTERVAL {amount} {unit.upper()}{'' if amount == 1 else 'S'}"
        case number:
            return str(number)


_ALL_AS_ONE = "sources with a common cursor are read from the lowest of these starts on, so that they are as one"


@dataclass(frozen=True, slots=True)
class LoadStatements:
    """`alone` gives what a run would send if a LOAD were the only one of its table.

    `sources` are those that the next run is planned to read, by input; none where the table is not there yet.
    """

    table: Table
    loads: Loads
    sources: Mapping[str, SourcePlan]
    alone: Alone

    def all(self) -> tuple[RunStatements, ...]:
        """A first run, and the next: a run of APPENDs and MERGEs takes two commits."""
        first = self._first()
        if not self.loads.recomputed:
            return (first, *(self._next(together) for together in self.loads.rounds))
        entered = written(self.table.strategy, Entering(self.table, None, None))
        notes = (*self._notes(first), *entered.notes)
        return first, replace(first, run="next", writes=entered.sql, notes=notes)

    def _first(self) -> RunStatements:
        by_input = {load.input: self.alone(self.table.alone(load))[0] for load in self.loads.loads}
        firsts = list(by_input.values())
        steps, last = [], ""
        for number, together in enumerate(self.loads.rounds, 1):
            reads = _in_one([by_input[load.input].reads for load in together])
            steps.append(f"load_{number} AS (\n{_applied(together[0], reads, last)}\n)")
            last = f"load_{number}"
        chain = f"WITH {', '.join(steps)}\nSELECT * FROM {last}"
        text = chain if len(steps) > 1 else _in_one([first.reads for first in firsts])
        made = created(self.table)
        by_all = self._winners() or made.notes
        notes = dict.fromkeys([*(note for first in firsts for note in first.notes), *by_all])
        return replace(firsts[0], reads=text, filter=None, writes=made.sql, notes=tuple(notes))

    def _next(self, together: tuple[Load, ...]) -> RunStatements:
        found = [self._part(load) for load in together]
        reasons = " · ".join(f"{load.source.name} {each.reason}" for load, each in zip(together, found, strict=True))
        window = next((each.filter for each in found if each.filter), None)
        entered = written(strategy_of(together), Entering(self.table, window, None))
        apart = [note for each in found for note in each.notes if note not in entered.notes]
        winners = self._winners() if together[0].strategy.keys else ()
        as_one = (_ALL_AS_ONE,) if len(together) > 1 and common_cursor(together) else ()
        by_all = (*winners, *entered.notes[1:]) if winners else entered.notes
        notes = tuple(dict.fromkeys([*apart, *as_one, *by_all]))
        reads = _in_one([each.reads for each in found])
        return replace(found[0], reason=reasons, reads=reads, filter=None, writes=entered.sql, notes=notes)

    def _part(self, load: Load) -> RunStatements:
        first, following = self.alone(self.table.alone(load))
        planned = self.sources.get(load.input)
        unread = planned is not None and planned.reason == NOT_READ_YET
        following = replace(first, run="next") if unread else following
        return replace(following, reason=planned.reason) if planned else following

    def _notes(self, first: RunStatements) -> tuple[str, ...]:
        return first.notes[: len(first.notes) - len(created(self.table).notes)]

    def _winners(self) -> tuple[str, ...]:
        """What decides where MERGEs meet in a key."""
        merges = tuple(load for load in self.loads.loads if load.strategy.keys)
        if self.loads.recomputed or len(merges) < len(self.loads.loads[:2]):
            return ()
        cursor = common_cursor(merges)
        if cursor:
            return (f"of a key in several sources the row with the highest {cursor} enters; ties go to the later LOAD",)
        return ("a key that several sources have with different rows is an error: they have no common cursor",)


def _in_one(reads: Sequence[str]) -> str:
    return "\nUNION ALL BY NAME\n".join(reads)


def _applied(load: Load, reads: str, before: str) -> str:
    """The rows of a table that was what the statement before says, after this LOAD."""
    if not before:
        return reads
    if load.strategy.appends:
        return f"SELECT * FROM {before}\nUNION ALL BY NAME\n{reads}"
    keys = load.strategy.keys
    same = " AND ".join(f"{of(HELD, key)} = {of(COMING, key)}" for key in keys)
    rest = f"SELECT {HELD}.* FROM {before} AS {HELD} LEFT ANTI JOIN (\n{reads}\n) AS {COMING} ON {same}"
    return f"{reads}\nUNION ALL BY NAME\n{rest}"
