"""Metadata as JSON in the comment with which a model begins: `-- metadata: {…}`, on one `--` line or on several."""

from __future__ import annotations

import ast
import json
import re
import warnings
from typing import TYPE_CHECKING

from tidemill.models.document import Document
from tidemill.models.errors import ModelError
from tidemill.models.places import places_of

if TYPE_CHECKING:
    from tidemill.declare.text import Text

_COMMENTS = re.compile(r"\A(?:[^\S\n]*(?:--[^\n]*)?(?:\n|\Z))*")
_OPENING = re.compile(r"^[^\S\n]*--[^\S\n]*(metadata)[^\S\n]*:", re.MULTILINE)
_DASHES = re.compile(r"^[^\S\n]*--", re.MULTILINE)
_HINT = 'names and texts stand in "…", with , between them: {"materialization": "view"}'


def read_comment(text: Text) -> Document | None:
    """The metadata in the comments before the query, if there are any. Raises `ModelError` at what is not JSON."""
    comments = _COMMENTS.match(text.content)
    opening = _OPENING.search(comments.group()) if comments else None
    if comments is None or opening is None:
        return None
    content = _blank(text.content[: comments.end()], opening.end())
    start = opening.end() + len(content[opening.end() :]) - len(content[opening.end() :].lstrip())
    try:
        value, end = json.JSONDecoder().raw_decode(content, start)
    except json.JSONDecodeError as bad:
        raise _not_json(text, bad, max(opening.end(), len(content.rstrip()))) from None
    line_end = content.find("\n", end)
    rest = content[end : line_end if line_end >= 0 else None]
    if rest.strip():
        at = end + len(rest) - len(rest.lstrip())
        raise _bad_json(text, at, "this does not belong to the JSON", "remove it, or write it on a line of its own")
    root = text.span(*opening.span(1))
    return Document(value, places_of(text, _tree(content[:end], opening.start()), root))


def _blank(content: str, end: int) -> str:
    """The comments with spaces in the place of all that is no JSON, so that every character keeps its place."""
    kept = _DASHES.sub(lambda dashes: " " * len(dashes.group()), content[end:])
    return re.sub(r"[^\n]", " ", content[:end]) + kept


def _not_json(text: Text, bad: json.JSONDecodeError, end: int) -> ModelError:
    message = (bad.msg[:1].lower() + bad.msg[1:]).removesuffix(" at")
    return _bad_json(text, min(bad.pos, end), f"this is not JSON: {message}", _HINT)


def _tree(content: str, line: int) -> ast.expr:
    """JSON is an expression of Python once brackets let it go over lines; its true and null are mere names there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # \/ is an escape of JSON and none of Python
        return ast.parse(f"{content[:line]}({content[line + 1 :]})", mode="eval").body


def _bad_json(text: Text, at: int, problem: str, remedy: str) -> ModelError:
    return ModelError("models.bad_json", problem, remedy, span=text.span(at, at + 1))
