"""Where a query ends: at its `;`, at the TO of an EXPORT, or where somebody forgot the `;`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from tidemill.language.tokens import Kind

if TYPE_CHECKING:
    from tidemill.language.cursor import Cursor
    from tidemill.language.tokens import Token

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
