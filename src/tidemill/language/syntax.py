"""Where a query cannot be parsed, as a place in the file that it stands in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlglot
from sqlglot.errors import ParseError

from tidemill.declare.text import offset_of

if TYPE_CHECKING:
    from tidemill.declare.text import Span
    from tidemill.language.cursor import Named


def syntax_error(query: Named) -> tuple[Span, str] | None:
    """The place at which sqlglot stops, and what it says of it; None where it can parse the query."""
    try:
        sqlglot.parse(query.text, dialect="spark")
    except ParseError as failure:
        first = failure.errors[0]
        word = str(first["highlight"] or "")
        line, column = int(first["line"] or 1), max(int(first["col"] or 1) - len(word), 0)
        said = str(first["description"] or "")
        lacks = said.removeprefix("Expecting ") if said.startswith("Expecting ") else ""
        return _span(query, line, column, word), f"{lacks} is missing before {word}" if lacks else f"unexpected {word}"
    return None


def _span(query: Named, line: int, column: int, word: str) -> Span:
    text, begins = query.span.text, query.span.start
    before = text.content[begins:].split("\n")[: line - 1]
    start = begins + sum(len(each) + 1 for each in before)
    rest = text.content[start:].partition("\n")[0]
    start += offset_of(word, rest, column)
    return text.span(start, start + len(word))
