"""Parts that statements share: where a query ends, modes, keys, lookbacks, OPTIONS and PARAMS."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn, TypeVar, cast

from tidemill.frontends.pipeline.reader import read_object
from tidemill.frontends.pipeline.statements import Append, FullMerge, IncrementalBy, Merge, Replace
from tidemill.frontends.pipeline.tokens import Kind, LanguageError
from tidemill.model.cursor import UNITS, Duration
from tidemill.model.format import FORMATS
from tidemill.model.mistakes import suggestion
from tidemill.model.table import KeptRows, NullTime, SchemaPolicy

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidemill.frontends.pipeline.reader import Cursor, JsonObject, Named
    from tidemill.frontends.pipeline.statements import JsonValue, Mode, OptionValue, SourceStatement
    from tidemill.frontends.pipeline.tokens import Token
    from tidemill.model.mistakes import Span

STATEMENTS = ("SET", "INCLUDE", "SOURCE", "LOAD", "CREATE", "EXPORT", "IF")
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


def starts_statement(cursor: Cursor, index: int) -> bool:
    """A statement begins at this token, which is the first of its line."""
    token = cursor.lexed.tokens[index]
    if not token.first_on_line:
        return False
    here = [each.upper or each.raw for each in cursor.lexed.tokens[index : index + 7]]
    match here:
        case ["SET", _, "=", *_] | ["CREATE", "TABLE", *_] | ["CREATE", "OR", "REPLACE", "TABLE", *_]:
            return True
        case ["IF", _, "==" | "!=", *_] | ["END", "IF", *_]:
            return True
        case ["INCLUDE", *_]:
            return _is_string(cursor, index + 1)
        case ["SOURCE", _, "TYPE" | "FROM", *_]:
            return True
        case ["LOAD", _, "FROM", *_] | ["LOAD", _, ".", _, "FROM", *_]:
            return True
        case ["EXPORT", "SELECT" | "WITH" | "(", *_] | ["EXPORT", _, "TO", *_] | ["EXPORT", _, ".", _, "TO", *_]:
            return True
    return False


def query_end(cursor: Cursor) -> int:
    """The index of the `;` that ends the query; a query that runs into the next statement is an error."""
    tokens = cursor.lexed.tokens
    depth = cases = 0
    for index in range(cursor.index, len(tokens)):
        token = tokens[index]
        if token.raw == ";":
            return index
        if depth == 0 and cases == 0 and _runs_on(cursor, index):
            _fail_before(cursor, index, *_MISSING_SEMICOLON)
        depth += _DEPTH.get(token.raw, 0)
        cases += {"CASE": 1, "END": -1}.get(token.upper, 0)
    return _fail_before(cursor, len(tokens), *_MISSING_SEMICOLON)


def export_end(cursor: Cursor) -> int:
    """The index of the TO that follows a query or a table."""
    tokens = cursor.lexed.tokens
    depth = 0
    for index in range(cursor.index, len(tokens)):
        token = tokens[index]
        if depth == 0 and token.upper == "TO" and _is_string(cursor, index + 1):
            return index
        if token.raw == ";" or (index > cursor.index and starts_statement(cursor, index)):
            return _fail_before(cursor, index, *_EXPORT_TO_NOWHERE)
        depth += _DEPTH.get(token.raw, 0)
    return _fail_before(cursor, len(tokens), *_EXPORT_TO_NOWHERE)


def _runs_on(cursor: Cursor, index: int) -> bool:
    token, before = cursor.lexed.tokens[index], cursor.lexed.tokens[index - 1]
    begins = starts_statement(cursor, index) or (token.first_on_line and token.upper in _BLOCK)
    return index > cursor.index and begins and _may_end(before)


def _may_end(token: Token) -> bool:
    if token.kind is Kind.OTHER:
        return token.raw in {")", "]"}
    return token.upper not in _LEADS_ON


def _is_string(cursor: Cursor, index: int) -> bool:
    return index < len(cursor.lexed.tokens) and cursor.lexed.tokens[index].kind in {Kind.STRING, Kind.RAW}


def _fail_before(cursor: Cursor, index: int, code: str, problem: str, remedy: str) -> NoReturn:
    cursor.index = index
    cursor.fail_at_end(code, problem, remedy)


LOAD_MODES = ("REPLACE", "APPEND", "MERGE ON", "FULL_MERGE ON")
TABLE_MODES = ("REPLACE", "APPEND", "MERGE ON", "FULL_MERGE ON", "INCREMENTAL_MERGE ON", "INCREMENTAL BY")
EXPORT_MODES = ("REPLACE", "APPEND", "MERGE ON")
CLAUSES = ("MODE", "OPTIONS")
_KEYED: dict[str, type[Merge | FullMerge]] = {"MERGE": Merge, "INCREMENTAL_MERGE": Merge, "FULL_MERGE": FullMerge}
_NO_UNITS = {"AS", "OPTIONS", "PARAMS", "MODE", "LOOK", "START", "UP", "TIME", "STATUS", "SUFFIXES", "SELECT"}
_AMOUNT_AND_UNIT = re.compile(r"(\d+)\s*([^\W\d]\w*)?")


@dataclass(frozen=True, slots=True)
class Clauses:
    """What was given of MODE and OPTIONS."""

    mode: Mode
    mode_span: Span | None
    options: JsonObject | None


def read_clauses(cursor: Cursor, statement: str, modes: tuple[str, ...]) -> Clauses:
    """MODE and OPTIONS, each at most once, in any order; REPLACE is the mode where none is given."""
    mode: Mode | None = None
    span: Span | None = None
    options: JsonObject | None = None
    while token := cursor.token:
        if cursor.at("MODE") or cursor.at("UPSERT", "KEY"):
            _only_once(cursor, mode, "MODE")
            cursor.take("MODE")
            mode, span = _mode(cursor, statement, modes)
        elif cursor.at("OPTIONS"):
            _only_once(cursor, options, "OPTIONS")
            cursor.take("OPTIONS")
            options = read_object(cursor, "OPTIONS")
        elif cursor.at("ON"):
            cursor.fail(token, *_keys_without_merge("REPLACE" if mode is None else str(mode)))
        else:
            break
    return Clauses(mode or Replace(), span, options)


def read_lookback(cursor: Cursor) -> Duration | int | None:
    """LOOKBACK and a length of time, or a plain number for cursors that are numbers; None when there is none."""
    return read_length(cursor, "LOOKBACK") if cursor.take("LOOKBACK") else None


def read_length(cursor: Cursor, clause: str) -> Duration | int:
    """What follows a clause that takes a length of time, or a plain number."""
    token = cursor.token
    amount = cursor.value(f"{clause} needs a number", f"write {clause} 2 HOURS")
    assert token is not None  # noqa: S101  or there would have been no value
    found = _AMOUNT_AND_UNIT.fullmatch(amount)
    if found is None:
        cursor.fail(token, *_bad_lookback(f"{amount} is no number of units"))
    if found[2]:
        return Duration(int(found[1]), _unit(found[2], cursor.span(token)))
    following = cursor.token
    if following is None or following.kind is not Kind.WORD or following.upper in _NO_UNITS:
        return int(found[1])
    word = cursor.word(f"{clause} needs a unit", f"write {clause} 2 HOURS")
    return Duration(int(found[1]), _unit(word.text, word.span))


def _unit(word: str, span: Span) -> str:
    unit = word.lower()
    for known in (unit, unit.removesuffix("s")):
        if known in UNITS:
            return known
    code, problem, units = _bad_lookback(f"{word} is no unit of time")
    raise LanguageError(code, problem, suggestion(word, [f"{each}s".upper() for each in UNITS], units), span=span)


def _bad_lookback(problem: str) -> tuple[str, str, str]:
    return "language.bad_lookback", problem, f"the units are {', '.join(f'{each}s'.upper() for each in UNITS)}"


def _mode(cursor: Cursor, statement: str, modes: tuple[str, ...]) -> tuple[Mode, Span]:
    word = cursor.word("MODE needs a mode", f"write one of {', '.join(modes)}")
    name = word.text.upper()
    if name == "UPSERT" and cursor.take("KEY"):
        return Merge(_key_columns(cursor)), word.span
    if name not in {mode.split()[0] for mode in modes}:
        raise _unknown_mode(word, statement, modes)
    if name == "INCREMENTAL":
        return _incremental(cursor), word.span
    if name in _KEYED:
        if not cursor.take("ON"):
            raise LanguageError(
                "language.merge_without_keys",
                f"MODE {name} needs ON and the key columns",
                f"write {name} ON and the columns that make a row unique",
                span=word.span,
            )
        return _KEYED[name](_key_columns(cursor)), word.span
    return (Replace() if name == "REPLACE" else Append()), word.span


def _incremental(cursor: Cursor) -> IncrementalBy:
    cursor.expect("BY", "MODE INCREMENTAL", "INCREMENTAL BY and the time column")
    column = cursor.column("INCREMENTAL BY needs a column", "name the time column")
    return IncrementalBy(column, read_lookback(cursor))


def _key_columns(cursor: Cursor) -> tuple[str, ...]:
    return cursor.columns("ON needs key columns", "name the columns that make a row unique, with , between them")


def _unknown_mode(word: Named, statement: str, modes: tuple[str, ...]) -> LanguageError:
    names = [mode.split()[0] for mode in modes]
    listed = f"the modes are {', '.join(modes)}"
    close = suggestion(word.text, names, "")
    remedy = f"{close} {listed}" if close else listed
    return LanguageError("language.unknown_mode", f"{statement} has no mode {word.text}", remedy, span=word.span)


def _keys_without_merge(mode: str) -> tuple[str, str, str]:
    return "language.keys_without_merge", f"MODE {mode} takes no ON", "write MERGE ON, or drop the ON and its columns"


def _only_once(cursor: Cursor, found: object, clause: str) -> None:
    token = cursor.token
    if found is not None and token is not None:
        cursor.fail(token, "language.repeated_clause", f"{clause} is given twice", "keep one of them")


T = TypeVar("T")


class _WrongError(Exception):
    """Says what the value must be."""


def read_options(given: JsonObject, statement: str) -> dict[str, OptionValue]:
    """The options with their values checked: lists are tuples, names of policies are in lower case."""
    found: dict[str, OptionValue] = {}
    for name, value in given.values.items():
        if name not in OPTIONS:
            remedy = suggestion(name, OPTIONS, f"the options are {', '.join(OPTIONS)}")
            problem = f"{statement} has no option {name}"
            raise LanguageError("language.unknown_option", problem, remedy, span=given.place(name))
        try:
            found[name] = OPTIONS[name](value)
        except _WrongError as wrong:
            raise _bad_option(given, name, wrong) from None
    return found


def read_source_params(source: SourceStatement, given: JsonObject | None) -> SourceStatement:
    """The source with its params; `primary_key`, `cursor_field` and `start_date` become its own."""
    if given is None:
        return source
    params = dict(given.values)
    keys = _taken(given, params, "primary_key", column_names) or ()
    cursor = _taken(given, params, "cursor_field", _text)
    start = _taken(given, params, "start_date", _text)
    if cursor and source.cursor and cursor.lower() != source.cursor.lower():
        raise LanguageError(
            "language.two_cursors",
            f"the cursor is {cursor} here and {source.cursor} after INCREMENTAL BY",
            "keep one of them",
            span=given.place("cursor_field"),
        )
    return replace(source, params=params, primary_key=keys, cursor=source.cursor or cursor, start=start)


def _taken(given: JsonObject, params: dict[str, JsonValue], name: str, check: Callable[[JsonValue], T]) -> T | None:
    if name not in params:
        return None
    try:
        return check(params.pop(name))
    except _WrongError as wrong:
        raise _bad_option(given, name, wrong) from None


def _bad_option(given: JsonObject, name: str, wrong: _WrongError) -> LanguageError:
    return LanguageError("language.bad_option", f"{name} must be {wrong}", "correct it", span=given.place(name))


def column_names(value: JsonValue) -> tuple[str, ...]:
    """One name or a list of names."""
    names = value if isinstance(value, list) else [value]
    if not names or not all(isinstance(name, str) and name for name in names):
        raise _WrongError("a name or a list of names")
    return tuple(cast("list[str]", names))


def _text(value: JsonValue) -> str:
    if not isinstance(value, str):
        raise _WrongError("a text")
    return value


def _yes_or_no(value: JsonValue) -> bool:
    if not isinstance(value, bool):
        raise _WrongError("true or false")
    return value


def _share(value: JsonValue) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise _WrongError("a share from 0 to 1, such as 0.1")
    return float(value)


def _column_or_yes(value: JsonValue) -> str | bool:
    """A column, or true for the cursor of the source or the table."""
    if not isinstance(value, str | bool):
        raise _WrongError("true or the name of a column")
    return value


def _format(value: JsonValue) -> str:
    if not isinstance(value, str) or value.lower() not in FORMATS:
        raise _WrongError(f"one of {', '.join(FORMATS)}")
    return value.lower()


def _one_of(known: type[NullTime | SchemaPolicy | KeptRows]) -> Callable[[JsonValue], str]:
    def check(value: JsonValue) -> str:
        name = value.lower() if isinstance(value, str) else ""
        if name not in set(known):
            raise _WrongError(f"one of {', '.join(known)}")
        return name

    return check


OPTIONS: dict[str, Callable[[JsonValue], OptionValue]] = {
    "dedup_order_by": column_names,
    "only_newer": _column_or_yes,
    "null_time": _one_of(NullTime),
    "on_schema_change": _one_of(SchemaPolicy),
    "volatile": column_names,
    "partition_by": column_names,
    "cluster_by": column_names,
    "format": _format,
    "max_shrink": _share,
    "kept_rows": _one_of(KeptRows),
    "reset_allowed": _yes_or_no,
    "description": _text,
    "tags": column_names,
}
