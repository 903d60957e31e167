"""Reads a text token by token, and JSON objects inside it; what is not as expected is an error at its place."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from tidemill.errors import did_you_mean
from tidemill.frontends.pipeline.substitution import Form
from tidemill.frontends.pipeline.tokens import Kind, string_value, template_in
from tidemill.model import FileError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidemill.frontends.pipeline.substitution import Substitution
    from tidemill.frontends.pipeline.tokens import Lexed, Token
    from tidemill.model import Span

JsonValue: TypeAlias = str | int | float | bool | list["JsonValue"] | dict[str, "JsonValue"] | None
_NAME = re.compile(r"\w+(\.\w+){0,2}")
_RESERVED = {"FROM", "TO", "TYPE", "MODE", "ON", "BY", "AS", "OPTIONS", "PARAMS", "INCREMENTAL", "THEN"}


class CutShortError(Exception):
    """The statement reaches into what could not be read; an error already says so."""


@dataclass(frozen=True, slots=True)
class Named:
    """A text of the user's and where it stands."""

    text: str
    span: Span


@dataclass
class TokenReader:
    """A place among the tokens of one text."""

    lexed: Lexed
    filling: Substitution
    index: int = 0

    # where it is

    @property
    def token(self) -> Token | None:
        return self.ahead(0)

    def ahead(self, count: int) -> Token | None:
        place = self.index + count
        return self.lexed.tokens[place] if 0 <= place < len(self.lexed.tokens) else None

    def at(self, *words: str) -> bool:
        """The next tokens are these keywords or signs."""
        return all(_is(self.ahead(count), word) for count, word in enumerate(words))

    def take(self, *words: str) -> bool:
        """Steps over these keywords or signs, if they come next."""
        found = self.at(*words)
        if found:
            self.index += len(words)
        return found

    def step(self) -> Token:
        token = self.token
        if token is None:
            self.fail_at_end("language.unexpected_end", "the file ends in the middle of a statement", "finish it")
        self.index += 1
        return token

    # errors

    def span(self, token: Token) -> Span:
        return self.lexed.text.span(token.start, token.end)

    def fail(self, token: Token, code: str, problem: str, remedy: str) -> NoReturn:
        raise FileError(code, problem, remedy, span=self.span(token))

    def fail_at_end(self, code: str, problem: str, remedy: str) -> NoReturn:
        """Fails right after the last token that was read."""
        if self.lexed.cut and self.token is None:
            raise CutShortError
        before = self.ahead(-1)
        end = before.end if before else 0
        raise FileError(code, problem, remedy, span=self.lexed.text.span(end, end + 1))

    def fail_here(self, problem: str, remedy: str) -> NoReturn:
        """The next token is not what the grammar says."""
        token = self.token
        if token is None or token.raw == ";":
            self.fail_at_end("language.incomplete", problem, remedy)
        self.fail(token, "language.unexpected", problem, remedy)

    # parts of statements

    def expect(self, word: str, where: str, example: str) -> None:
        if self.take(word):
            return
        token = self.token
        close = did_you_mean(token.raw, [word]) if token and token.kind is Kind.WORD else None
        self.fail_here(f"{where} needs {word}", f"did you mean {word}?" if close else f"write {example}")

    def word(self, problem: str, remedy: str) -> Named:
        """A bare word; a variable may give it."""
        token = self.token
        if token is None or token.kind is not Kind.WORD:
            self.fail_here(problem, remedy)
        self.index += 1
        return Named(self._fill(token), self.span(token))

    def column(self, problem: str, remedy: str) -> str:
        """The name of a column, bare or in backticks."""
        token = self.token
        if token is not None and token.kind is Kind.QUOTED:
            self.index += 1
            return self._fill(token)[1:-1].replace("``", "`")
        named = self.word(problem, remedy)
        if "." in named.text:
            raise FileError("language.bad_name", f"{named.text} is no column name", remedy, span=named.span)
        return named.text

    def name(self, problem: str, remedy: str, *, dotted: bool = True) -> Named:
        """The name of a table (`table`, `schema.table` or `catalog.schema.table`) or of a source."""
        first = self.token
        if first is None or first.kind not in {Kind.WORD, Kind.QUOTED} or first.upper in _RESERVED:
            self.fail_here(problem, remedy)
        parts = [self.column(problem, remedy) if first.kind is Kind.QUOTED else self.word(problem, remedy).text]
        while self.take("."):
            parts.append(self.column(problem, remedy))
        last = self.lexed.tokens[self.index - 1]
        named = Named(".".join(parts), self.lexed.text.span(first.start, last.end))
        if not _NAME.fullmatch(named.text) or ("." in named.text and not dotted):
            allowed = "name it table or schema.table, in letters, digits and _" if dotted else "name it without a dot"
            raise FileError("language.bad_name", f"{named.text} cannot be a name here", allowed, span=named.span)
        return named

    def columns(self, problem: str, remedy: str) -> tuple[str, ...]:
        """`a, b` or `(a, b)`, each once."""
        opened = self.take("(")
        start = self.index
        found = [self.column(problem, remedy)]
        while self.take(","):
            found.append(self.column(problem, remedy))
        if len({each.lower() for each in found}) < len(found):
            again = self.lexed.tokens[self.index - 1]
            span = self.lexed.text.span(self.lexed.tokens[start].start, again.end)
            raise FileError("language.repeated_key", "a column is named twice", "name each once", span=span)
        if opened and not self.take(")"):
            self.fail_here("the list of columns is not closed", "close it with )")
        return tuple(found)

    def string(self, problem: str, remedy: str) -> Named:
        """The value of a string literal."""
        token = self.token
        if token is None or token.kind not in {Kind.STRING, Kind.RAW}:
            self.fail_here(problem, remedy)
        self.index += 1
        written = self.filling.fill(token.start, token.end, Form.TEXT).content
        return Named(string_value(written), self.span(token))

    def value(self, problem: str, remedy: str) -> str:
        """A string, a number or a word; a variable that stands alone may have any value."""
        token = self.token
        if token is not None and token.kind in {Kind.STRING, Kind.RAW}:
            return self.string(problem, remedy).text
        sign = "-" if self.take("-") else ""
        token = self.token
        if token is None or token.kind not in {Kind.WORD, Kind.NUMBER}:
            self.fail_here(problem, remedy)
        self.index += 1
        inside = self.lexed.variables_in(token.start, token.end)
        if len(inside) == 1 and (inside[0].start, inside[0].end) == (token.start, token.end):
            return sign + self.filling.plain(inside[0])
        return sign + self._fill(token)

    def query(self, end: int) -> Named:
        """The text from here up to the token at `end`, which comes next."""
        first, last = self.lexed.tokens[self.index], self.lexed.tokens[end - 1]
        if template := template_in(self.lexed.text, self.lexed.tokens[self.index : end]):
            raise template
        for error in self.lexed.errors_in(first.start, last.end):
            raise error  # it is reported once, though it is noted twice
        self.index = end
        return Named(self.filling.fill(first.start, last.end).content, self.span(first))

    def end(self, clauses: Sequence[str] = ()) -> None:
        """The `;` that every statement ends with; `clauses` could have come before it."""
        if self.take(";"):
            return
        token = self.token
        close = did_you_mean(token.raw, clauses) if token is not None and token.kind is Kind.WORD else None
        if token is None or (token.first_on_line and close is None):
            self.fail_at_end("language.missing_semicolon", "this statement does not end", "write ; here")
        expected = f"here {', '.join(clauses)} or ; can stand" if clauses else "only ; can stand here"
        remedy = f"did you mean {close}?" if close else expected
        self.fail(token, "language.unexpected", f"{token.raw} does not belong here", remedy)

    def _fill(self, token: Token) -> str:
        return self.filling.fill(token.start, token.end).content


def _is(token: Token | None, word: str) -> bool:
    return token is not None and (token.upper == word or (token.kind is Kind.OTHER and token.raw == word))


_DEPTH = {"{": 1, "[": 1, "}": -1, "]": -1}


@dataclass(frozen=True, slots=True)
class JsonObject:
    """The values, and where each key of the outermost level stands."""

    values: dict[str, JsonValue]
    span: Span
    keys: dict[str, Span]

    def place(self, key: str) -> Span:
        return self.keys.get(key, self.span)


def read_object(reader: TokenReader, clause: str) -> JsonObject:
    """A JSON object, in which comments are allowed; what is wrong with it is an error at its own line."""
    first = reader.token
    if first is None or not reader.at("{"):
        reader.fail_here(f"{clause} needs a JSON object", f'write {clause} {{ "name": "value" }}')
    tokens = _extent(reader)
    filled = reader.filling.fill(first.start, tokens[-1].end, Form.JSON)
    try:
        values, end = _DECODER.raw_decode(filled.content)
    except json.JSONDecodeError as bad:
        place = filled.origin_of(bad.pos)
        span = reader.lexed.text.span(place, place + 1)
        raise _bad_json(f"this is not JSON: {_lowered(bad.msg)}", _HINT, span) from bad
    last = filled.origin_of(end - 1)
    used = [token for token in tokens if token.start <= last]
    reader.index += len(used)
    return JsonObject(values, reader.lexed.text.span(first.start, first.end), _keys(reader, used))


def _extent(reader: TokenReader) -> Sequence[Token]:
    """The tokens up to the brace that closes the first one, or up to the end of the statement."""
    depth = 0
    for place in range(reader.index, len(reader.lexed.tokens)):
        raw = reader.lexed.tokens[place].raw
        depth += _DEPTH.get(raw, 0)
        if depth == 0 or raw == ";":
            return reader.lexed.tokens[reader.index : place + 1]
    if reader.lexed.cut:
        raise CutShortError
    return reader.lexed.tokens[reader.index :]


def _keys(reader: TokenReader, tokens: Sequence[Token]) -> dict[str, Span]:
    keys: dict[str, Span] = {}
    depth = 0
    for token, following in itertools.pairwise(tokens):
        depth += _DEPTH.get(token.raw, 0)
        if depth == 1 and token.kind is Kind.STRING and following.raw == ":":
            key = string_value(token.raw)
            if key in keys:
                raise _bad_json(f"{key} is given twice", "keep one of them", reader.span(token))
            keys[key] = reader.span(token)
    return keys


def _lowered(message: str) -> str:
    """The message of Python's reader, without the word that leads on to a position."""
    return (message[0].lower() + message[1:]).removesuffix(" at")


def _bad_json(problem: str, remedy: str, span: Span) -> FileError:
    return FileError("language.bad_json", problem, remedy, span=span)


def _no_constant(name: str) -> NoReturn:
    raise json.JSONDecodeError(f"{name} is no value", name, 0)


_HINT = 'names and texts stand in "…", with , between them'
_DECODER = json.JSONDecoder(parse_constant=_no_constant)
