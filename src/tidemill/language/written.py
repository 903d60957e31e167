"""A statement as its author wrote it: variables stay variables, so that no value of a secret is in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.declare.text import Text
from tidemill.language.tokens import lex

if TYPE_CHECKING:
    from tidemill.errors import Origin
    from tidemill.language.tokens import Token


def written(origin: Origin | None, after: str | None = None) -> str | None:
    """The statement that starts at this place, without its `;`; with `after`, from that keyword on.

    None where the file is not there any more, or has no such word.
    """
    if origin is None or origin.line is None or not Path(origin.file).is_file():
        return None
    lexed = lex(Text(origin.file, Path(origin.file).read_text(encoding="utf-8")))
    first = next((n for n, token in enumerate(lexed.tokens) if _is_at(lexed.text, token, origin)), None)
    if first is None:
        return None
    end = next((n for n in range(first, len(lexed.tokens)) if lexed.tokens[n].raw == ";"), len(lexed.tokens))
    inside = lexed.tokens[first:end]
    start = next((token.start for token in inside if after is None or token.upper == after), None)
    return None if start is None else lexed.without_comments(start, inside[-1].end).strip()


def _is_at(text: Text, token: Token, origin: Origin) -> bool:
    place = text.span(token.start, token.end).origin
    return place.line == origin.line and origin.column in {None, place.column}
