"""The texts of a join: its condition, and the columns of a SELECT that names columns and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.declare.templates import WINDOW_PARAMETERS, Template
from tidemill.declare.text import Text
from tidemill.errors import ArgumentError
from tidemill.language.parameters import cut_at_parameters
from tidemill.language.queries import parsed
from tidemill.language.tokens import Kind, lex
from tidemill.language.volatile import reads_clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidemill.language.tokens import Token

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
    if parsed(query) and reads_clock(query):
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
