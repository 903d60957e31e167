"""Parts that statements share: where a query ends, modes, keys, lookbacks, OPTIONS and PARAMS."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from tidemill.frontends.pipeline.declarations import Mode
from tidemill.frontends.pipeline.reader import read_object
from tidemill.frontends.pipeline.tokens import Kind
from tidemill.frontends.tables import MATERIALIZED_VIEW, NAMES, SETTINGS, TEXT
from tidemill.model import FileError, suggestion
from tidemill.model.cursor import UNITS, Duration
from tidemill.model.strategy import Append, DeleteInsert, Merge, MergeStrategy, Replace
from tidemill.model.table import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidemill.frontends.pipeline.reader import JsonObject, Named, TokenReader
    from tidemill.frontends.pipeline.tokens import Token
    from tidemill.frontends.tables import Read, Value
    from tidemill.model import Span
    from tidemill.model.strategy import Strategy

VIEW_STATEMENT = "CREATE MATERIALIZED VIEW"
QUERY_WORDS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")
STATEMENT_WORDS = ("SET", "INCLUDE", "SOURCE", "LOAD", "CREATE", "EXPORT", "IF")
_BLOCK = {"ELSE", "ELSEIF"}
_MISSING_SEMICOLON = ("language.missing_semicolon", "this statement does not end", "write ; here")
_EXPORT_TO_NOWHERE = ("language.incomplete", "EXPORT needs TO and a place", 'write TO "out/daily" TYPE PARQUET')
_DEPTH = {"(": 1, ")": -1}
# A query cannot end with one of these, so the word after one is no new statement.
_LEADS_ON = {
    *("SELECT", "DISTINCT", "ALL", "FROM", "WHERE", "AND", "OR", "NOT", "ON", "BY", "AS"),
    *("JOIN", "IN", "LIKE", "RLIKE", "BETWEEN", "IS", "CASE", "WHEN", "THEN", "ELSE", "HAVING"),
    *("UNION", "EXCEPT", "INTERSECT", "MINUS", "WITH", "LATERAL", "VIEW", "USING", "OVER", "INTERVAL", "LIMIT"),
    *("OFFSET", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "SEMI", "ANTI", "OUTER", "NATURAL", "VALUES"),
    *("TABLE", "QUALIFY", "WINDOW", "ROWS", "RANGE"),
}


def starts_statement(reader: TokenReader, index: int) -> bool:
    """A statement begins at this token, which is the first of its line."""
    token = reader.lexed.tokens[index]
    if not token.first_on_line:
        return False
    here = [each.upper or each.raw for each in reader.lexed.tokens[index : index + 7]]
    match here:
        case ["SET", _, "=", *_] | ["CREATE", "TABLE", *_] | ["CREATE", "OR", "REPLACE", "TABLE", *_]:
            return True
        case ["CREATE", "MATERIALIZED", "VIEW", *_] | ["CREATE", "OR", "REPLACE", "MATERIALIZED", "VIEW", *_]:
            return True
        case ["IF", _, "==" | "!=", *_] | ["END", "IF", *_]:
            return True
        case ["INCLUDE", *_]:
            return _is_string(reader, index + 1)
        case ["SOURCE", _, "TYPE" | "FROM", *_]:
            return True
        case ["LOAD", _, "FROM", *_] | ["LOAD", _, ".", _, "FROM", *_]:
            return True
        case ["EXPORT", "SELECT" | "WITH" | "(", *_] | ["EXPORT", _, "TO", *_] | ["EXPORT", _, ".", _, "TO", *_]:
            return True
    return False


def query_end(reader: TokenReader) -> int:
    """The index of the `;` that ends the query; a query that runs into the next statement is an error."""
    tokens = reader.lexed.tokens
    depth = cases = 0
    for index in range(reader.index, len(tokens)):
        token = tokens[index]
        if token.raw == ";":
            return index
        if depth == 0 and cases == 0 and _runs_on(reader, index):
            _fail_before(reader, index, *_MISSING_SEMICOLON)
        depth += _DEPTH.get(token.raw, 0)
        cases += {"CASE": 1, "END": -1}.get(token.upper, 0)
    return _fail_before(reader, len(tokens), *_MISSING_SEMICOLON)


def export_end(reader: TokenReader) -> int:
    """The index of the TO that follows a query or a table."""
    tokens = reader.lexed.tokens
    depth = 0
    for index in range(reader.index, len(tokens)):
        token = tokens[index]
        if depth == 0 and token.upper == "TO" and _is_string(reader, index + 1):
            return index
        if token.raw == ";" or (index > reader.index and starts_statement(reader, index)):
            return _fail_before(reader, index, *_EXPORT_TO_NOWHERE)
        depth += _DEPTH.get(token.raw, 0)
    return _fail_before(reader, len(tokens), *_EXPORT_TO_NOWHERE)


def _runs_on(reader: TokenReader, index: int) -> bool:
    token, before = reader.lexed.tokens[index], reader.lexed.tokens[index - 1]
    begins = starts_statement(reader, index) or (token.first_on_line and token.upper in _BLOCK)
    return index > reader.index and begins and _may_end(before)


def _may_end(token: Token) -> bool:
    if token.kind is Kind.OTHER:
        return token.raw in {")", "]"}
    return token.upper not in _LEADS_ON


def _is_string(reader: TokenReader, index: int) -> bool:
    return index < len(reader.lexed.tokens) and reader.lexed.tokens[index].kind in {Kind.STRING, Kind.RAW}


def _fail_before(reader: TokenReader, index: int, code: str, problem: str, remedy: str) -> NoReturn:
    reader.index = index
    reader.fail_at_end(code, problem, remedy)


CLAUSES = ("MODE", "OPTIONS")
_NO_UNITS = {"AS", "OPTIONS", "PARAMS", "MODE", "LOOK", "START", "UP", "TIME", "STATUS", "SUFFIXES", "SELECT"}
_AMOUNT_AND_UNIT = re.compile(r"(\d+)\s*([^\W\d]\w*)?")


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause of a statement: what errors call it, the words by which it begins, and what reads what follows them."""

    name: str
    words: tuple[str, ...]
    read: Callable[[TokenReader], object]


def clause_at(reader: TokenReader, index: int, clauses: Sequence[Clause]) -> Clause | None:
    """The clause that begins with the token at this index."""
    here = [token.upper or token.raw for token in reader.lexed.tokens[index : index + 2]]
    return next((each for each in clauses if tuple(here[: len(each.words)]) == each.words), None)


def read_clauses(reader: TokenReader, clauses: Sequence[Clause]) -> dict[str, Any]:
    """What these clauses say, by their names: in any order, each at most once."""
    found: dict[str, Any] = {}
    while (token := reader.token) and (clause := clause_at(reader, reader.index, clauses)):
        if clause.name in found:
            reader.fail(token, "language.repeated_clause", f"{clause.name} is given twice", "keep one of them")
        reader.take(*clause.words)
        found[clause.name] = clause.read(reader)
    return found


@dataclass(frozen=True, slots=True)
class _ModeGrammar:
    """`follows` is the word that leads to the columns which make the strategy."""

    strategy: Callable[[tuple[str, ...]], Strategy]
    follows: str | None = None
    text: str = "MERGE"


_MODES = {
    "REPLACE": _ModeGrammar(lambda _: Replace()),
    "APPEND": _ModeGrammar(lambda _: Append()),
    "MERGE": _ModeGrammar(Merge, "ON"),
    "INCREMENTAL_MERGE": _ModeGrammar(Merge, "ON"),
    "UPSERT": _ModeGrammar(Merge, "KEY"),
    "FULL_MERGE": _ModeGrammar(lambda keys: Merge(keys, MergeStrategy.FULL_MERGE), "ON", "FULL_MERGE"),
    "INCREMENTAL": _ModeGrammar(lambda _: DeleteInsert(), "BY"),
}
LOAD_MODES = ("REPLACE", "APPEND", "MERGE ON", "FULL_MERGE ON")
TABLE_MODES = ("REPLACE", "APPEND", "MERGE ON", "FULL_MERGE ON", "INCREMENTAL_MERGE ON", "INCREMENTAL BY")
EXPORT_MODES = ("REPLACE", "APPEND", "MERGE ON")


def read_mode_and_options(
    reader: TokenReader, statement: str, modes: tuple[str, ...]
) -> tuple[Mode, JsonObject | None]:
    """REPLACE is the mode where none is given."""
    found = read_clauses(
        reader,
        (
            Clause("MODE", ("MODE",), lambda reader: _mode(reader, statement, modes)),
            Clause("MODE", ("UPSERT", "KEY"), lambda reader: _keyed_mode(reader, "UPSERT", _word_before(reader, 2))),
            Clause("OPTIONS", ("OPTIONS",), lambda reader: read_object(reader, "OPTIONS")),
        ),
    )
    mode: Mode = found.get("MODE", Mode())
    if (token := reader.token) and reader.at("ON"):
        remedy = "write MERGE ON, or drop the ON and its columns"
        reader.fail(token, "language.keys_without_merge", f"MODE {mode.text} takes no ON", remedy)
    return mode, found.get("OPTIONS")


def read_lookback(reader: TokenReader) -> Duration | int | None:
    """LOOKBACK and a length of time, or a plain number for cursors that are numbers; None when there is none."""
    return read_length(reader, "LOOKBACK") if reader.take("LOOKBACK") else None


def read_length(reader: TokenReader, clause: str) -> Duration | int:
    """What follows a clause that takes a length of time, or a plain number."""
    token = reader.token
    amount = reader.value(f"{clause} needs a number", f"write {clause} 2 HOURS")
    assert token is not None  # noqa: S101  or there would have been no value
    found = _AMOUNT_AND_UNIT.fullmatch(amount)
    if found is None:
        reader.fail(token, *_bad_lookback(f"{amount} is no number of units"))
    if found[2]:
        return Duration(int(found[1]), _unit(found[2], reader.span(token)))
    following = reader.token
    if following is None or following.kind is not Kind.WORD or following.upper in _NO_UNITS:
        return int(found[1])
    word = reader.word(f"{clause} needs a unit", f"write {clause} 2 HOURS")
    return Duration(int(found[1]), _unit(word.text, word.span))


def _unit(word: str, span: Span) -> str:
    unit = word.lower()
    for known in (unit, unit.removesuffix("s")):
        if known in UNITS:
            return known
    code, problem, units = _bad_lookback(f"{word} is no unit of time")
    raise FileError(code, problem, suggestion(word, [f"{each}s".upper() for each in UNITS], units), span=span)


def _bad_lookback(problem: str) -> tuple[str, str, str]:
    return "language.bad_lookback", problem, f"the units are {', '.join(f'{each}s'.upper() for each in UNITS)}"


def _mode(reader: TokenReader, statement: str, modes: tuple[str, ...]) -> Mode:
    word = reader.word("MODE needs a mode", f"write one of {', '.join(modes)}")
    name = word.text.upper()
    known = {mode.split()[0] for mode in modes} | ({"UPSERT"} if reader.at("KEY") else set())
    if name not in known:
        raise _unknown_mode(word, statement, modes)
    grammar = _MODES[name]
    if grammar.follows == "BY":
        reader.expect("BY", "MODE INCREMENTAL", "INCREMENTAL BY and the time column")
        column = reader.column("INCREMENTAL BY needs a column", "name the time column")
        window = Window(column, lookback=read_lookback(reader))
        return Mode(grammar.strategy(()), window, f"INCREMENTAL BY {column}", word.span)
    if grammar.follows is None:
        return Mode(grammar.strategy(()), text=name, span=word.span)
    if not reader.take(grammar.follows):
        raise FileError(
            "language.merge_without_keys",
            f"MODE {name} needs ON and the key columns",
            f"write {name} ON and the columns that make a row unique",
            span=word.span,
        )
    return _keyed_mode(reader, name, word.span)


def _keyed_mode(reader: TokenReader, name: str, span: Span | None) -> Mode:
    remedy = "name the columns that make a row unique, with , between them"
    keys = reader.columns("ON needs key columns", remedy)
    return Mode(_MODES[name].strategy(keys), text=f"{_MODES[name].text} ON {', '.join(keys)}", span=span)


def _word_before(reader: TokenReader, count: int) -> Span | None:
    token = reader.ahead(-count)
    return reader.span(token) if token else None


def _unknown_mode(word: Named, statement: str, modes: tuple[str, ...]) -> FileError:
    names = [mode.split()[0] for mode in modes]
    listed = f"the modes are {', '.join(modes)}"
    close = suggestion(word.text, names, "")
    remedy = f"{close} {listed}" if close else listed
    return FileError("language.unknown_mode", f"{statement} has no mode {word.text}", remedy, span=word.span)


OptionValue = str | float | bool | tuple[str, ...]


def read_options(given: JsonObject, statement: str) -> dict[str, OptionValue]:
    """The options with their values checked: lists are tuples, names of policies are in lower case."""
    found: dict[str, OptionValue] = {}
    for name in given.values:
        if name not in SETTINGS:
            remedy = suggestion(name, SETTINGS, f"the options are {', '.join(SETTINGS)}")
            problem = f"{statement} has no option {name}"
            raise FileError("language.unknown_option", problem, remedy, span=given.place(name))
        _check_statement(given, name, statement)
        found[name] = _read(given, name, SETTINGS[name].read)
    return found


def _check_statement(given: JsonObject, name: str, statement: str) -> None:
    """Some options are for materialized views alone, and some make no sense for them."""
    kinds = SETTINGS[name].kinds
    for_views, in_view = MATERIALIZED_VIEW in kinds, statement == VIEW_STATEMENT
    if (in_view and kinds and not for_views) or (not in_view and kinds == (MATERIALIZED_VIEW,)):
        remedy = f"it is for {VIEW_STATEMENT}" if for_views else "leave it out: the view is what its query gives"
        problem = f"{statement} takes no {name}"
        raise FileError("language.misplaced_option", problem, remedy, span=given.place(name))


def read_source_params(given: JsonObject, by_clause: str | None) -> dict[str, Any]:
    """What the params of a source say in words that all kinds share, checked, and the other params as `params`.

    `by_clause` is the cursor that INCREMENTAL BY names.
    """
    shared: dict[str, Read[Any]] = {"primary_key": NAMES, "cursor_field": TEXT, "start_date": TEXT}
    keys, cursor, start = (_read(given, name, how) if name in given.values else None for name, how in shared.items())
    if cursor and by_clause and cursor.lower() != by_clause.lower():
        raise FileError(
            "language.two_cursors",
            f"the cursor is {cursor} here and {by_clause} after INCREMENTAL BY",
            "keep one of them",
            span=given.place("cursor_field"),
        )
    params = {name: value for name, value in given.values.items() if name not in shared}
    return {"params": params, "primary_key": keys or (), "cursor": by_clause or cursor, "start": start}


def _read(given: JsonObject, name: str, how: Read[Value]) -> Value:
    value = how.read(given.values[name])
    if value is None:
        remedy = suggestion(str(given.values[name]), how.words, "correct it")
        raise FileError("language.bad_option", f"{name} must be {how.wanted}", remedy, span=given.place(name))
    return value
