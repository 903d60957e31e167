"""The incremental join, as a statement of a pipeline and as the metadata of a model: both make one declaration."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tidemill.errors import ArgumentError
from tidemill.frontends.pipeline.clauses import Clause, clause_at, query_end, read_clauses, read_length
from tidemill.frontends.pipeline.tokens import Kind, cut_at_parameters, lex
from tidemill.frontends.sql.scopes import parse_query
from tidemill.frontends.sql.volatile import reads_clock
from tidemill.frontends.tables import JOIN
from tidemill.model import FileError, Text, of, suggestion, table
from tidemill.model.cursor import WINDOW_PARAMETERS, Duration, StartVariable, Template
from tidemill.model.join import STATUS, SUFFIXES, TIME, Join, JoinSide, check_own_names, join_type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tidemill.errors import Origin
    from tidemill.frontends.models.metadata import Metadata
    from tidemill.frontends.pipeline.reader import Named, TokenReader
    from tidemill.frontends.pipeline.tokens import Token
    from tidemill.model import Naming, Span
    from tidemill.model.join import JoinType

_DEPTH = {"(": 1, ")": -1}
_NOT_COLUMNS = {"FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "DISTINCT"}
COLUMNS_ONLY = "the join says which rows there are; filter in a table that reads this one"


def join_text(text: str) -> Template:
    """A part of a join, cut at its @names. Windows have no say in it, or the history would depend on how it is cut."""
    pieces, names = cut_at_parameters(text)
    bound = next((name for name in names if name in WINDOW_PARAMETERS), None)
    if bound:
        raise ArgumentError(
            "join.window_inside",
            f"@{bound} is another one in every window, and the rows of a join are the same in all.",
            "Leave it out: a window reads by itself what it needs.",
        )
    return Template(pieces, names)


def join_condition(text: str) -> Template:
    """What makes two rows a pair, today and always."""
    found = join_text(text)
    query = f"SELECT 1 WHERE {text}"
    if parse_query(query) and reads_clock(query):
        raise ArgumentError(
            "join.clock_inside",
            "The condition reads the clock, and whether two rows are a pair must not depend on when they are joined.",
            "Leave it out: LOOK BACK and LOOK FORWARD bound how far apart two rows may come.",
        )
    return found


def select_items(query: str) -> tuple[str, ...]:
    """The columns of a whole SELECT; an error where there is more in it."""
    tokens = lex(Text("query", query)).tokens
    stray = not_a_column(tokens[1:])
    if not tokens or tokens[0].upper != "SELECT" or stray:
        what = f"has no {stray.upper}" if stray else "starts with SELECT"
        raise ArgumentError("join.bad_select", f"The query of an incremental join {what}.", COLUMNS_ONLY)
    return tuple(query[first.start : last.end] for first, last in column_tokens(tokens[1:]))


def column_tokens(tokens: Sequence[Token]) -> list[tuple[Token, Token]]:
    """The first and the last token of each column; empty ones are left out."""
    found: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        if depth == 0 and token.raw == ",":
            found.append([])
        else:
            found[-1].append(token)
        depth += _DEPTH.get(token.raw, 0)
    return [(each[0], each[-1]) for each in found if each]


def not_a_column(tokens: Sequence[Token]) -> Token | None:
    """The word with which a SELECT goes on behind its columns, where it does."""
    depth = 0
    for number, token in enumerate(tokens):
        named = number > 0 and tokens[number - 1].raw == "."
        if depth == 0 and token.kind is Kind.WORD and token.upper in _NOT_COLUMNS and not named:
            return token
        depth += _DEPTH.get(token.raw, 0)
    return None


def _varies(length: Duration | int) -> bool:
    return isinstance(length, Duration) and length.unit in {"month", "year"}


def end_of_condition(reader: TokenReader) -> int:
    """The index of the clause that follows the condition."""
    tokens, depth = reader.lexed.tokens, 0
    for index in range(reader.index, len(tokens)):
        token = tokens[index]
        if depth == 0 and index > reader.index and tokens[index - 1].raw != "." and _ends_condition(reader, index):
            return index
        if token.raw == ";":
            reader.index = index
            break
        depth += _DEPTH.get(token.raw, 0)
    problem, remedy = "INCREMENTAL JOIN needs LOOK BACK, LOOK FORWARD and SELECT", "write LOOK BACK 6 DAYS"
    return reader.fail_at_end("language.incomplete", problem, remedy)


def _ends_condition(reader: TokenReader, index: int) -> bool:
    return reader.lexed.tokens[index].upper == "SELECT" or clause_at(reader, index, _CLAUSES) is not None


def _read_clauses(reader: TokenReader) -> dict[str, Any]:
    """All of them, in any order; two must be there."""
    found = read_clauses(reader, _CLAUSES)
    own = {"TIME": TIME, "STATUS": STATUS}
    for word in (word for word in found if word in own):  # in the order of the statement
        own[word], span = found[word]
        try:
            check_own_names(own["TIME"], own["STATUS"])
        except ArgumentError as bad:
            raise FileError.at(span, bad) from bad
    for clause in ("LOOK BACK", "LOOK FORWARD"):
        if clause not in found:
            reader.fail_at_end("language.incomplete", f"INCREMENTAL JOIN needs {clause}", f"write {clause} 6 DAYS")
    return found | own


def _read_length(clause: str) -> Callable[[TokenReader], Duration | int]:
    def read(reader: TokenReader) -> Duration | int:
        token = reader.token
        found = read_length(reader, clause)
        if token is not None and _varies(found):
            reader.fail(token, "language.varying_length", f"{clause} {found} has no fixed length", "write it in days")
        return found

    return read


def _read_up_to(reader: TokenReader) -> str | StartVariable:
    if not reader.take("@"):
        return reader.value("UP TO needs a time", "write UP TO '2024-01-31' or UP TO @day")
    named = reader.word("@ needs a name", "write UP TO @day")
    return StartVariable(named.text, named.span.origin)


def _read_own_name(clause: str) -> Callable[[TokenReader], tuple[str, Span]]:
    def read(reader: TokenReader) -> tuple[str, Span]:
        token = reader.token
        name = reader.column(f"{clause} AS needs a name", f"write {clause} AS {clause.lower()}_of_the_join")
        assert token is not None  # noqa: S101  there was a name
        return name, reader.span(token)

    return read


def _read_suffixes(reader: TokenReader) -> tuple[str, str]:
    problem, remedy = "SUFFIXES needs two texts", "write SUFFIXES ('', '_b')"
    first = reader.string(problem, remedy).text
    if not reader.take(","):
        reader.fail_here(problem, remedy)
    second = reader.string(problem, remedy).text
    if not reader.take(")"):
        reader.fail_here(problem, remedy)
    return first, second


_CLAUSES = (
    Clause("LOOK BACK", ("LOOK", "BACK"), _read_length("LOOK BACK")),
    Clause("LOOK FORWARD", ("LOOK", "FORWARD"), _read_length("LOOK FORWARD")),
    Clause("START", ("START",), lambda reader: reader.value("START needs a time", _START)),
    Clause("UP TO", ("UP", "TO"), _read_up_to),
    Clause("TIME", ("TIME", "AS"), _read_own_name("TIME")),
    Clause("STATUS", ("STATUS", "AS"), _read_own_name("STATUS")),
    Clause("SUFFIXES", ("SUFFIXES", "("), _read_suffixes),
)
_START = "write START '2024-01-31', or START '${first}'"
_TYPES = ("INNER", "LEFT", "RIGHT", "FULL", "LEFT ANTI", "RIGHT ANTI")
_EXAMPLE = "INCREMENTAL LEFT JOIN orders AS a BY day WITH payments AS b BY day ON a.id = b.id"
_NO_SELECT = "write SELECT a.*, b.amount AS other_amount"


def read_join_statement(reader: TokenReader, naming: Naming, origin: Origin) -> tuple[Join, str]:
    """The statement from INCREMENTAL on: the join, and its SELECT."""
    reader.take("INCREMENTAL")
    how = _type(reader)
    a = _side(reader, "a", "JOIN", naming)
    reader.expect("WITH", "INCREMENTAL JOIN", "WITH and the other table")
    b = _side(reader, "b", "WITH", naming)
    _check_aliases(reader, a, b)
    reader.expect("ON", "INCREMENTAL JOIN", f"ON and a condition, as in {_EXAMPLE}")
    on = _condition(reader)
    clauses = _read_clauses(reader)
    if not reader.at("SELECT"):
        reader.fail_here("INCREMENTAL JOIN needs SELECT and columns", _NO_SELECT)
    end = query_end(reader)
    select = _select(reader, end)
    query = reader.query(end)
    reader.end()
    join = Join(
        a=a,
        b=b,
        on=on,
        how=how,
        look_back=clauses["LOOK BACK"],
        look_forward=clauses["LOOK FORWARD"],
        select=select,
        start=clauses.get("START"),
        up_to=clauses.get("UP TO"),
        time=clauses["TIME"],
        status=clauses["STATUS"],
        suffixes=clauses.get("SUFFIXES", SUFFIXES),
        origin=origin,
    )
    return join, query.text


def refuse_mode(span: Span | None) -> None:
    """A join says itself how its rows enter its table."""
    if span is not None:
        raise FileError("language.mode_of_join", "an INCREMENTAL JOIN takes no MODE", "drop the MODE", span=span)


def _type(reader: TokenReader) -> JoinType:
    words = []
    first = reader.token
    while not reader.take("JOIN"):
        words.append(reader.word("INCREMENTAL needs a type of join and JOIN", f"write {_EXAMPLE}").text)
    try:
        return join_type(" ".join(words) or "inner")
    except ArgumentError as bad:
        assert first is not None  # noqa: S101  there were words
        remedy = suggestion(" ".join(words), _TYPES, f"the types are {', '.join(_TYPES)}")
        problem = f"there is no INCREMENTAL {' '.join(words)} JOIN"
        raise FileError("language.unknown_join", problem, remedy, span=reader.span(first)) from bad


def _side(reader: TokenReader, alias: str, after: str, naming: Naming) -> JoinSide:
    table = reader.name(f"{after} needs the name of a table", f"write {_EXAMPLE}")
    if reader.take("AS"):
        alias = reader.column("AS needs a name", f"write AS {alias}")
    reader.expect("BY", f"{after} {table.text}", "BY and the column that says when a row came")
    return JoinSide(naming.key(table.text), alias, reader.column("BY needs a column", "name the time column"))


def _check_aliases(reader: TokenReader, a: JoinSide, b: JoinSide) -> None:
    token = reader.ahead(-1)
    if a.alias.lower() == b.alias.lower() and token is not None:
        problem = f"both tables of the join are called {a.alias}"
        reader.fail(token, "language.one_alias", problem, "give them two names: … AS a … WITH … AS b")


def _condition(reader: TokenReader) -> Template:
    end = end_of_condition(reader)
    first, last = reader.lexed.tokens[reader.index], reader.lexed.tokens[end - 1]
    span = reader.lexed.text.span(first.start, last.end)
    return _cut(join_condition, reader.query(end).text, span)


def _cut(read: Callable[[str], Template], text: str, span: Span) -> Template:
    try:
        return read(text)
    except ArgumentError as bad:
        raise FileError.at(span, bad) from bad


def _select(reader: TokenReader, end: int) -> tuple[Template, ...]:
    """The columns of a SELECT, each as it is written, but for variables."""
    tokens = reader.lexed.tokens[reader.index + 1 : end]
    stray, found = not_a_column(tokens), column_tokens(tokens)
    if stray:
        problem = f"the SELECT of an INCREMENTAL JOIN names columns only, and has no {stray.upper}"
        reader.fail(stray, "language.unexpected", problem, COLUMNS_ONLY)
    if not found:
        reader.index = end
        reader.fail_here("SELECT needs columns", _NO_SELECT)
    places = [(first.start, last.end) for first, last in found]
    return tuple(
        _cut(join_text, reader.filling.fill(*place).content, reader.lexed.text.span(*place)) for place in places
    )


# the same in the metadata of a model

_NAME = re.compile(r"\w+")


def read_join_metadata(query: Named, metadata: Metadata, naming: Naming) -> Join | None:
    """None where something has been noted in the document of `metadata`."""
    given: Mapping[str, Any] = metadata.given[JOIN]
    back, forward = (_given_length(metadata, name, given[name]) for name in ("look_back", "look_forward"))
    select, on = _given_select(metadata, query), _given_condition(metadata, given["on"])
    time, status, suffixes = _given_names(metadata, given)
    if metadata.document.errors or back is None or forward is None or on is None:
        return None
    return Join(
        a=JoinSide(naming.key(given["a"]), "a", given["a_time"]),
        b=JoinSide(naming.key(given["b"]), "b", given["b_time"]),
        on=on,
        how=join_type(given.get("how", "left")),
        look_back=back,
        look_forward=forward,
        select=select,
        start=None if given.get("start") is None else str(given["start"]),
        up_to=_given_up_to(metadata, given.get("up_to")),
        time=time,
        status=status,
        suffixes=suffixes,
        origin=query.span.origin,
    )


def _given_length(metadata: Metadata, name: str, value: str | int) -> Duration | int | None:
    try:
        found = table.lookback(value)
    except ArgumentError as bad:
        metadata.document.pass_on((JOIN, name), bad)
        return None
    if found is not None and _varies(found):
        metadata.note((JOIN, name), "varying_length", f"{name} of {found} has no fixed length", "write it in days")
        return None
    return found


def _given_select(metadata: Metadata, query: Named) -> tuple[Template, ...]:
    try:
        return tuple(join_text(item) for item in select_items(query.text))
    except ArgumentError as bad:
        metadata.document.errors.append(FileError.at(query.span, bad))
        return ()


def _given_condition(metadata: Metadata, on: str | list[str | list[str]]) -> Template | None:
    """Columns that both sides have, and pairs of columns, are equal in a pair; any other text is a condition itself."""
    try:
        return join_condition(" AND ".join(_given_equal(each) for each in ([on] if isinstance(on, str) else on)))
    except ArgumentError as bad:
        metadata.document.pass_on((JOIN, "on"), bad)
        return None


def _given_equal(given: str | list[str]) -> str:
    match given:
        case str() as text:
            return f"{of('a', text)} = {of('b', text)}" if _NAME.fullmatch(text) else text
        case [str() as a, str() as b]:
            return f"{of('a', a)} = {of('b', b)}"
        case _:
            names = ", ".join(given)
            remedy = 'Write "reference", ["id", "order_id"], or "a.id = b.order_id".'
            raise ArgumentError("join.bad_keys", f"{names} in on is neither a column nor a pair of columns.", remedy)


def _given_names(metadata: Metadata, given: Mapping[str, Any]) -> tuple[str, str, tuple[str, str]]:
    time, status = given.get("time", TIME), given.get("status", STATUS)
    try:
        check_own_names(time, status)
    except ArgumentError as bad:
        metadata.document.pass_on((JOIN, "time" if "time" in given else "status"), bad)
    suffixes = given.get("suffixes", {})
    return time, status, (suffixes.get("a", SUFFIXES[0]), suffixes.get("b", SUFFIXES[1]))


def _given_up_to(metadata: Metadata, value: str | int | None) -> str | StartVariable | None:
    if value is None or not str(value).startswith("@"):
        return None if value is None else str(value)
    pieces, names = cut_at_parameters(str(value))
    if pieces != ("", ""):
        problem = f"up_to cannot be {value}"
        metadata.note((JOIN, "up_to"), "bad_up_to", problem, 'write "2024-01-31" or "@name"')
        return None
    return StartVariable(names[0], metadata.document.places.at(JOIN, "up_to").origin)
