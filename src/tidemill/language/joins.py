"""CREATE TABLE … AS INCREMENTAL … JOIN: from its words to a declaration."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, cast

from tidemill.declare.joins import Join, JoinSide, join_type
from tidemill.declare.strategies import IncrementalJoin
from tidemill.declare.tables import NullTime, Window
from tidemill.errors import ArgumentError
from tidemill.language.boundaries import query_end
from tidemill.language.errors import LanguageError, suggestion
from tidemill.language.join_clauses import end_of_condition, read_join_clauses
from tidemill.language.projections import COLUMNS_ONLY, items, join_condition, join_text, not_a_column
from tidemill.language.statements import CreateJoin, JoinedTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidemill.declare.joins import JoinType
    from tidemill.declare.names import Naming
    from tidemill.declare.templates import Template
    from tidemill.declare.text import Span
    from tidemill.errors import Origin
    from tidemill.language.cursor import Cursor
    from tidemill.language.statements import OptionValue

_TYPES = ("INNER", "LEFT", "RIGHT", "FULL", "LEFT ANTI", "RIGHT ANTI")
_EXAMPLE = "INCREMENTAL LEFT JOIN orders AS a BY day WITH payments AS b BY day ON a.id = b.id"
_SELECT = "write SELECT a.*, b.amount AS other_amount"


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
    on = _condition(cursor)
    clauses = read_join_clauses(cursor)
    if not cursor.at("SELECT"):
        cursor.fail_here("INCREMENTAL JOIN needs SELECT and columns", _SELECT)
    end = query_end(cursor)
    select = _select(cursor, end)
    query = cursor.query(end)
    cursor.end()
    return CreateJoin(table, how, a, b, on, clauses, select, query, options, origin)


def refuse_mode(span: Span | None) -> None:
    """A join says itself how its rows enter its table."""
    if span is not None:
        raise LanguageError("language.mode_of_join", "an INCREMENTAL JOIN takes no MODE", "drop the MODE", span=span)


def joined(statement: CreateJoin, naming: Naming) -> Join:
    a, b = (JoinSide(naming.key(side.table), side.alias, side.time) for side in (statement.a, statement.b))
    clauses = statement.clauses
    return Join(
        a=a,
        b=b,
        on=statement.on,
        how=statement.how,
        look_back=clauses.look_back,
        look_forward=clauses.look_forward,
        select=statement.select,
        start=clauses.start,
        up_to=clauses.up_to,
        time=clauses.time,
        status=clauses.status,
        suffixes=clauses.suffixes,
        origin=statement.origin,
    )


def kept_by_join(join: Join, max_shrink: object = None) -> KeptByJoin:
    """How a table is kept whose rows are those of a join."""
    return KeptByJoin(
        strategy=IncrementalJoin(max_shrink=cast("float | None", max_shrink)),
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


def _condition(cursor: Cursor) -> Template:
    end = end_of_condition(cursor)
    first, last = cursor.lexed.tokens[cursor.index], cursor.lexed.tokens[end - 1]
    span = cursor.lexed.text.span(first.start, last.end)
    return _cut(join_condition, cursor.query(end).text, span)


def _cut(read: Callable[[str], Template], text: str, span: Span) -> Template:
    try:
        return read(text)
    except ArgumentError as bad:
        raise LanguageError.at(span, bad) from bad


def _select(cursor: Cursor, end: int) -> tuple[Template, ...]:
    """The columns of a SELECT, each as it is written, but for variables."""
    tokens = cursor.lexed.tokens[cursor.index + 1 : end]
    stray, found = not_a_column(tokens), items(tokens)
    if stray:
        problem = f"the SELECT of an INCREMENTAL JOIN names columns only, and has no {stray.upper}"
        cursor.fail(stray, "language.unexpected", problem, COLUMNS_ONLY)
    if not found:
        cursor.index = end
        cursor.fail_here("SELECT needs columns", _SELECT)
    places = [(first.start, last.end) for first, last in found]
    return tuple(
        _cut(join_text, cursor.filling.fill(*place).content, cursor.lexed.text.span(*place)) for place in places
    )
