"""Models of dbt in a project of Tidemill: their templates are recognised, not run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tidemill.language.errors import LanguageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidemill.declare.text import Text
    from tidemill.language.tokens import Token

PAGE = "docs/coming-from.md"
_REF = re.compile(r"\{\{-?\s*(?:ref|source)\(\s*(?:'[^']*'\s*,\s*|\"[^\"]*\"\s*,\s*)?['\"](\w+)['\"]\s*\)\s*-?\}\}")
_TAG = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)


def template_in(text: Text, tokens: Sequence[Token]) -> LanguageError | None:
    """The error for the first `{{ … }}` or `{% … %}` among the tokens; SQL has neither."""
    found = next((token.start for token in tokens if text.content.startswith(("{{", "{%"), token.start)), None)
    return None if found is None else _error(text, found)


def _error(text: Text, start: int) -> LanguageError:
    tag = _TAG.match(text.content, start)
    name = _REF.match(text.content, start)
    instead = f"write {name[1]}, the plain name; " if name else ""
    return LanguageError(
        "language.dbt_template",
        "this is a template of dbt, and queries are plain SQL here",
        f"{instead}{PAGE} says what each part of a dbt model becomes",
        span=text.span(start, tag.end() if tag else start + 2),
    )
