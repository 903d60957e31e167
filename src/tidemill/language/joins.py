"""CREATE TABLE … AS INCREMENTAL … JOIN: from its words to a declaration."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from tidemill.declare.durations import Duration
from tidemill.declare.joins import Join, JoinSide, join_type
from tidemill.declare.starts import StartVariable
from tidemill.declare.strategies import IncrementalJoin
from tidemill.declare.tables import NullTime, Window
from tidemill.errors import ArgumentError
from tidemill.language.boundaries import query_end
from tidemill.language.clauses import read_length
from tidemill.language.errors import LanguageError, suggestion
from tidemill.language.produced import table_key
from tidemill.language.projections import COLUMNS_ONLY, items, not_a_column
from tidemill.language.statements import CreateJoin, JoinedTable

if TYPE_CHECKING:
    from tidemill.declare.joins import JoinType
    from tidemill.declare.text import Span
    from tidemill.errors import Origin
    from tidemill.language.cursor import Cursor
    from tidemill.language.statements import OptionValue

_TYPES = ("INNER", "LEFT", "RIGHT", "FULL", "LEFT ANTI", "RIGHT ANTI")
_CLAUSES = ("LOOK BACK", "LOOK FORWARD", "START", "UP TO", "SELECT")
_EXAMPLE = "INCREMENTAL LEFT JOIN orders AS a BY day WITH payments AS b BY day ON a.id = b.id"
_SELECT = "write SELECT a.*, b.amount AS other_amount"
_DEPTH = {"(": 1, ")": -1}


class KeptByJoin(TypedDict):
    """What of a table its join decides."""

    strategy: IncrementalJoin
    window: Window
    producer: Join
    inputs: tuple[str, ...]
    sql_hash: str
    owns_window: bool


def read_join(cursor: Cursor, table: str, options: dict[str, OptionValue], origin: Origin) -> CreateJoin:
    """The statement from INCREMENTAL on."""
    cursor.take("INCREMENTAL")
    how = _type(cursor)
    a = _side(cursor, "a", "JOIN")
    cursor.expect("WITH", "INCREMENTAL JOIN", "WITH and the other table")
    b = _side(cursor, "b", "WITH")
    _check_aliases(cursor, a, b)
    cursor.expect("ON", "INCREMENTAL JOIN", f"ON and a condition, as in {_EXAMPLE}")
    on = cursor.query(_end_of_condition(cursor)).text
    clauses = _Clauses(cursor)
    clauses.read()
    if not cursor.at("SELECT"):
        cursor.fail_here("INCREMENTAL JOIN needs SELECT and columns", _SELECT)
    end = query_end(cursor)
    select = _select(cursor, end)
    query = cursor.query(end)
    cursor.end()
    back, forward = clauses.length("LOOK BACK"), clauses.length("LOOK FORWARD")
    return CreateJoin(table, how, a, b, on, back, forward, clauses.start, clauses.up_to, select, query, options, origin)


def refuse_mode(span: Span | None) -> None:
    """A join says itself how its rows enter its table."""
    if span is not None:
        raise LanguageError("language.mode_of_join", "an INCREMENTAL JOIN takes no MODE", "drop the MODE", span=span)


def joined(statement: CreateJoin, schema: str) -> Join:
    a, b = (JoinSide(table_key(side.table, schema), side.alias, side.time) for side in (statement.a, statement.b))
    return Join(
        a=a,
        b=b,
        on=statement.on,
        how=statement.how,
        look_back=statement.look_back,
        look_forward=statement.look_forward,
        select=statement.select,
        start=statement.start,
        up_to=statement.up_to,
        origin=statement.origin,
    )


def kept_by_join(join: Join) -> KeptByJoin:
    """How a table is kept whose rows are those of a join."""
    return KeptByJoin(
        strategy=IncrementalJoin(),
        window=Window(join.time, null_time=NullTime.SKIP),
        producer=join,
        inputs=tuple(dict.fromkeys((join.a.table, join.b.table))),
        sql_hash=join.sql_hash,
        owns_window=True,
    )


def _type(cursor: Cursor) -> JoinType:
    words = []
    first = cursor.token
    while not cursor.take("JOIN"):
        words.append(cursor.word("INCREMENTAL needs a type of join and JOIN", f"write {_EXAMPLE}").text)
    try:
        return join_type(" ".join(words) or "inner")
    except ArgumentError as bad:
        assert first is not None  # noqa: S101  there were words
        remedy = suggestion(" ".join(words), _TYPES, f"the types are {', '.join(_TYPES)}")
        problem = f"there is no INCREMENTAL {' '.join(words)} JOIN"
        raise LanguageError("language.unknown_join", problem, remedy, span=cursor.span(first)) from bad


def _side(cursor: Cursor, alias: str, after: str) -> JoinedTable:
    table = cursor.name(f"{after} needs the name of a table", f"write {_EXAMPLE}")
    if cursor.take("AS"):
        alias = cursor.column("AS needs a name", f"write AS {alias}")
    cursor.expect("BY", f"{after} {table.text}", "BY and the column that says when a row came")
    return JoinedTable(table.text, alias, cursor.column("BY needs a column", "name the time column"))


def _check_aliases(cursor: Cursor, a: JoinedTable, b: JoinedTable) -> None:
    token = cursor.ahead(-1)
    if a.alias.lower() == b.alias.lower() and token is not None:
        problem = f"both tables of the join are called {a.alias}"
        cursor.fail(token, "language.one_alias", problem, "give them two names: … AS a … WITH … AS b")


def _end_of_condition(cursor: Cursor) -> int:
    """The index of the clause that follows the condition."""
    tokens, depth = cursor.lexed.tokens, 0
    for index in range(cursor.index, len(tokens)):
        token = tokens[index]
        if depth == 0 and index > cursor.index and tokens[index - 1].raw != "." and _clause_at(cursor, index):
            return index
        if token.raw == ";":
            cursor.index = index
            break
        depth += _DEPTH.get(token.raw, 0)
    problem, remedy = "INCREMENTAL JOIN needs LOOK BACK, LOOK FORWARD and SELECT", "write LOOK BACK 6 DAYS"
    return cursor.fail_at_end("language.incomplete", problem, remedy)


def _clause_at(cursor: Cursor, index: int) -> str | None:
    tokens = cursor.lexed.tokens
    words = [token.upper for token in tokens[index : index + 2]]
    for clause in _CLAUSES:
        if words[: len(clause.split())] == clause.split():
            return clause
    return None


class _Clauses:
    """What stands between the condition and SELECT, in any order, each once."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.lengths: dict[str, Duration | int] = {}
        self.start: str | None = None
        self.up_to: str | StartVariable | None = None
        self._seen: set[str] = set()

    def read(self) -> None:
        cursor = self.cursor
        while (clause := _clause_at(cursor, cursor.index)) not in {None, "SELECT"}:
            assert clause is not None  # noqa: S101  mypy does not see it
            token = cursor.token
            if clause in self._seen and token is not None:
                cursor.fail(token, "language.repeated_clause", f"{clause} is given twice", "keep one of them")
            self._seen.add(clause)
            cursor.take(*clause.split())
            self._read(clause)

    def length(self, clause: str) -> Duration | int:
        if clause not in self.lengths:
            cursor = self.cursor
            cursor.fail_at_end("language.incomplete", f"INCREMENTAL JOIN needs {clause}", f"write {clause} 6 DAYS")
        return self.lengths[clause]

    def _read(self, clause: str) -> None:
        cursor = self.cursor
        if clause == "START":
            self.start = cursor.value("START needs a time", "write START '2024-01-31'")
        elif clause == "UP TO":
            self.up_to = self._up_to()
        else:
            self.lengths[clause] = self._length(clause)

    def _up_to(self) -> str | StartVariable:
        cursor = self.cursor
        if not cursor.take("@"):
            return cursor.value("UP TO needs a time", "write UP TO '2024-01-31' or UP TO @day")
        named = cursor.word("@ needs a name", "write UP TO @day")
        return StartVariable(named.text, named.span.origin)

    def _length(self, clause: str) -> Duration | int:
        token = self.cursor.token
        found = read_length(self.cursor, clause)
        if isinstance(found, Duration) and found.unit in {"month", "year"} and token is not None:
            problem = f"{clause} {found} has no fixed length"
            self.cursor.fail(token, "language.varying_length", problem, "write it in days")
        return found


def _select(cursor: Cursor, end: int) -> tuple[str, ...]:
    """The columns of a SELECT, each as it is written, but for variables."""
    tokens = cursor.lexed.tokens[cursor.index + 1 : end]
    stray, found = not_a_column(tokens), items(tokens)
    if stray:
        problem = f"the SELECT of an INCREMENTAL JOIN names columns only, and has no {stray.upper}"
        cursor.fail(stray, "language.unexpected", problem, COLUMNS_ONLY)
    if not found:
        cursor.index = end
        cursor.fail_here("SELECT needs columns", _SELECT)
    return tuple(cursor.filling.fill(first.start, last.end).content for first, last in found)
