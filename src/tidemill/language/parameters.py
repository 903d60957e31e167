"""`@start_dt`, `@end_date` and every other `@name` in a query: which there are, and literals in their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.declare.text import Text
from tidemill.errors import ArgumentError
from tidemill.language.tokens import Kind, lex

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tidemill.language.tokens import Lexed

WINDOW_PARAMETERS = ("start_dt", "end_dt", "start_date", "end_date")


def parameters_of(query: str) -> tuple[str, ...]:
    """The names without their @, each once, in order; those of the window in lower case, others as written.

    Literals and comments hold none, and `table@v1` is none.
    """
    lexed = _lexed(query)
    return tuple(dict.fromkeys(name for name, _, _ in _found(lexed)))


def with_parameters(query: str, literals: Mapping[str, str]) -> str:
    """The query with SQL literals in the place of its @names; the rest of it is untouched. All must be given."""
    pieces: list[str] = []
    at = 0
    for name, start, end in _found(_lexed(query)):
        if name not in literals:
            raise ArgumentError(
                "variables.missing", f"@{name} has no value.", f"Give it on the command line: --var {name}=…"
            )
        pieces += [query[at:start], literals[name]]
        at = end
    return "".join([*pieces, query[at:]])


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
