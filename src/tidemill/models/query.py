"""The query of a model: all that its SQL file holds, but for comments and a `;` at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.language.cursor import Cursor, CutShortError, Named
from tidemill.language.errors import LanguageError
from tidemill.language.grammar import expect_query
from tidemill.language.jinja import template_in
from tidemill.language.scope import Filling
from tidemill.language.tokens import lex

if TYPE_CHECKING:
    from tidemill.declare.text import Text
    from tidemill.language.scope import Scope


def read_query(text: Text, scope: Scope) -> tuple[Named | None, list[LanguageError]]:
    """The query with the values of `${…}` in it, and its first word's place; or what is wrong with it."""
    lexed = lex(text)
    cursor = Cursor(lexed, Filling(lexed, scope))
    if template := template_in(text, lexed.tokens):
        return None, [template]  # what else is wrong comes from it
    query, errors = None, [*lexed.errors]
    try:
        query = _only_query(cursor)
    except CutShortError:
        pass  # an error already says so
    except LanguageError as error:
        errors.append(error)
    errors += cursor.filling.errors
    return (None if errors else query), errors


def _only_query(cursor: Cursor) -> Named:
    expect_query(cursor, "a model")
    tokens = cursor.lexed.tokens
    first = tokens[cursor.index]
    end = next((index for index, token in enumerate(tokens) if token.raw == ";"), len(tokens))
    query = cursor.query(end)
    while cursor.take(";"):
        pass
    if (token := cursor.token) is not None:
        cursor.fail(token, "models.two_queries", "a model is one query", "write this one into a file of its own")
    return Named(query.text, cursor.span(first))
