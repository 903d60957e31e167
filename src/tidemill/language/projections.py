"""The columns of a SELECT that names columns and nothing else, each as it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.declare.text import Text
from tidemill.errors import ArgumentError
from tidemill.language.tokens import Kind, lex

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidemill.language.tokens import Token

_DEPTH = {"(": 1, ")": -1}
_NOT_COLUMNS = {"FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "DISTINCT"}
COLUMNS_ONLY = "the join says which rows there are; filter in a table that reads this one"


def select_items(query: str) -> tuple[str, ...]:
    """The columns of a whole SELECT; an error where there is more in it."""
    tokens = lex(Text("query", query)).tokens
    stray = not_a_column(tokens[1:])
    if not tokens or tokens[0].upper != "SELECT" or stray:
        what = f"has no {stray.upper}" if stray else "starts with SELECT"
        raise ArgumentError("join.bad_select", f"The query of an incremental join {what}.", COLUMNS_ONLY)
    return tuple(query[first.start : last.end] for first, last in items(tokens[1:]))


def items(tokens: Sequence[Token]) -> list[tuple[Token, Token]]:
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
