"""Where a query ends: at its `;`, at the TO of an EXPORT, or where somebody forgot the `;`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.language.tokens import Kind

if TYPE_CHECKING:
    from tidemill.language.cursor import Cursor
    from tidemill.language.tokens import Token

STATEMENTS = ("SET", "INCLUDE", "SOURCE", "LOAD", "CREATE", "EXPORT", "IF")
_BLOCK = {"ELSE", "ELSEIF"}
_DEPTH = {"(": 1, ")": -1}
# A query cannot end with one of these, so the word after one is no new statement.
_LEADS_ON = set(
    "SELECT DISTINCT ALL FROM WHERE AND OR NOT ON BY AS JOIN IN LIKE RLIKE BETWEEN IS CASE WHEN THEN ELSE HAVING "
    "UNION EXCEPT INTERSECT MINUS WITH LATERAL VIEW USING OVER INTERVAL LIMIT OFFSET INNER LEFT RIGHT FULL CROSS "
    "SEMI ANTI OUTER NATURAL VALUES TABLE QUALIFY WINDOW ROWS RANGE".split()
)


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
            return len(here) > 1 and cursor.lexed.tokens[index + 1].kind is Kind.STRING
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
            _missing_semicolon(cursor, index)
        depth += _DEPTH.get(token.raw, 0)
        cases += {"CASE": 1, "END": -1}.get(token.upper, 0)
    _missing_semicolon(cursor, len(tokens))
    raise AssertionError  # it raises


def export_end(cursor: Cursor) -> int:
    """The index of the TO that follows a query or a table."""
    tokens = cursor.lexed.tokens
    depth = 0
    for index in range(cursor.index, len(tokens)):
        token, following = tokens[index], tokens[index + 1] if index + 1 < len(tokens) else None
        if depth == 0 and token.upper == "TO" and following is not None and following.kind in {Kind.STRING, Kind.RAW}:
            return index
        if token.raw == ";" or (index > cursor.index and starts_statement(cursor, index)):
            cursor.index = index
            cursor.fail_at_end("language.incomplete", "EXPORT needs TO and a place", 'write TO "out/daily" TYPE PARQUET')
        depth += _DEPTH.get(token.raw, 0)
    cursor.index = len(tokens)
    cursor.fail_at_end("language.incomplete", "EXPORT needs TO and a place", 'write TO "out/daily" TYPE PARQUET')


def _runs_on(cursor: Cursor, index: int) -> bool:
    token, before = cursor.lexed.tokens[index], cursor.lexed.tokens[index - 1]
    begins = starts_statement(cursor, index) or (token.first_on_line and token.upper in _BLOCK)
    return index > cursor.index and begins and _may_end(before)


def _may_end(token: Token) -> bool:
    if token.kind is Kind.OTHER:
        return token.raw in {")", "]"}
    return token.upper not in _LEADS_ON


def _missing_semicolon(cursor: Cursor, index: int) -> None:
    cursor.index = index
    cursor.fail_at_end("language.missing_semicolon", "this statement does not end", "write ; here")
