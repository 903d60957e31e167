"""JSON objects inside statements: PARAMS and OPTIONS."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from tidemill.language.cursor import CutShortError
from tidemill.language.errors import LanguageError
from tidemill.language.scope import Form
from tidemill.language.tokens import Kind, string_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidemill.declare.text import Span
    from tidemill.language.cursor import Cursor
    from tidemill.language.statements import JsonValue
    from tidemill.language.tokens import Token

_DEPTH = {"{": 1, "[": 1, "}": -1, "]": -1}


@dataclass(frozen=True, slots=True)
class JsonObject:
    """The values, and where each key of the outermost level stands."""

    values: dict[str, JsonValue]
    span: Span
    keys: dict[str, Span]

    def place(self, key: str) -> Span:
        return self.keys.get(key, self.span)


def read_object(cursor: Cursor, clause: str) -> JsonObject:
    """A JSON object, in which comments are allowed; what is wrong with it is an error at its own line."""
    first = cursor.token
    if first is None or not cursor.at("{"):
        cursor.fail_here(f"{clause} needs a JSON object", f'write {clause} {{ "name": "value" }}')
    tokens = _extent(cursor)
    filled = cursor.filling.fill(first.start, tokens[-1].end, Form.JSON)
    try:
        values, end = _DECODER.raw_decode(filled.content)
    except json.JSONDecodeError as bad:
        place = filled.origin_of(bad.pos)
        span = cursor.lexed.text.span(place, place + 1)
        raise _bad_json(f"this is not JSON: {_lowered(bad.msg)}", _HINT, span) from bad
    last = filled.origin_of(end - 1)
    used = [token for token in tokens if token.start <= last]
    cursor.index += len(used)
    return JsonObject(values, cursor.lexed.text.span(first.start, first.end), _keys(cursor, used))


def _extent(cursor: Cursor) -> Sequence[Token]:
    """The tokens up to the brace that closes the first one, or up to the end of the statement."""
    depth = 0
    for place in range(cursor.index, len(cursor.lexed.tokens)):
        raw = cursor.lexed.tokens[place].raw
        depth += _DEPTH.get(raw, 0)
        if depth == 0 or raw == ";":
            return cursor.lexed.tokens[cursor.index : place + 1]
    if cursor.lexed.cut:
        raise CutShortError
    return cursor.lexed.tokens[cursor.index :]


def _keys(cursor: Cursor, tokens: Sequence[Token]) -> dict[str, Span]:
    keys: dict[str, Span] = {}
    depth = 0
    for token, following in itertools.pairwise(tokens):
        depth += _DEPTH.get(token.raw, 0)
        if depth == 1 and token.kind is Kind.STRING and following.raw == ":":
            key = string_value(token.raw)
            if key in keys:
                raise _bad_json(f"{key} is given twice", "keep one of them", cursor.span(token))
            keys[key] = cursor.span(token)
    return keys


def _lowered(message: str) -> str:
    """The message of Python's reader, without the word that leads on to a position."""
    return (message[0].lower() + message[1:]).removesuffix(" at")


def _bad_json(problem: str, remedy: str, span: Span) -> LanguageError:
    return LanguageError("language.bad_json", problem, remedy, span=span)


def _no_constant(name: str) -> NoReturn:
    raise json.JSONDecodeError(f"{name} is no value", name, 0)


_HINT = 'names and texts stand in "…", with , between them'
_DECODER = json.JSONDecoder(parse_constant=_no_constant)
