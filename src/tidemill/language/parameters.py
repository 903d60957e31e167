"""`@start_dt`, `@end_date` and every other `@name` in a query: which there are, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.declare.templates import WINDOW_PARAMETERS
from tidemill.declare.text import Text
from tidemill.language.tokens import Kind, lex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidemill.language.tokens import Lexed


def parameters_of(query: str) -> tuple[str, ...]:
    """The names without their @, each once, in order; those of the window in lower case, others as written.

    Literals and comments hold none, and `table@v1` is none.
    """
    lexed = _lexed(query)
    return tuple(dict.fromkeys(name for name, _, _ in _found(lexed)))


def cut_at_parameters(query: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The text between the @names of a query, and the names; there is one piece more than names."""
    pieces: list[str] = []
    names: list[str] = []
    at = 0
    for name, start, end in _found(_lexed(query)):
        pieces.append(query[at:start])
        names.append(name)
        at = end
    return (*pieces, query[at:]), tuple(names)


def _found(lexed: Lexed) -> Iterator[tuple[str, int, int]]:
    tokens = lexed.tokens
    for index, token in enumerate(tokens[:-1]):
        name = tokens[index + 1]
        alone = index == 0 or tokens[index - 1].end < token.start or tokens[index - 1].kind is Kind.OTHER
        if token.raw == "@" and alone and name.kind is Kind.WORD and name.start == token.end:
            lower = name.raw.lower()
            yield lower if lower in WINDOW_PARAMETERS else name.raw, token.start, name.end


def _lexed(query: str) -> Lexed:
    lexed = lex(Text("query", query))
    if lexed.errors:
        raise lexed.errors[0]
    return lexed
