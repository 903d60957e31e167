"""Words, literals, variables and @names of a text, each with its exact place. The lexing is sqlglot's, for Spark."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING

from sqlglot import TokenType
from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError

from tidemill.model import FileError, Text
from tidemill.model.cursor import WINDOW_PARAMETERS
from tidemill.model.project import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlglot import Token as SqlToken

    from tidemill.errors import Origin
    from tidemill.model import Span

_VARIABLE = re.compile(r"\$\{[^{}\n]*\}")
_NOT_A_BREAK = re.compile(r"[^\n]")
_END_OF_STATEMENT = re.compile(r";[^\S\n]*\n")
_WORD = re.compile(r"\w+")
_MOST_NESTED = 5


class Kind(Enum):
    WORD = auto()
    NUMBER = auto()
    STRING = auto()
    RAW = auto()  # r'…', in which nothing is escaped
    QUOTED = auto()  # `…`
    OTHER = auto()


_KINDS = {
    TokenType.STRING: Kind.STRING,
    TokenType.RAW_STRING: Kind.RAW,
    TokenType.IDENTIFIER: Kind.QUOTED,
    TokenType.NUMBER: Kind.NUMBER,
}


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the text, `raw` as it is written there."""

    kind: Kind
    raw: str
    start: int
    end: int
    first_on_line: bool

    @property
    def upper(self) -> str:
        """The keyword that it may be; nothing for literals."""
        return self.raw.upper() if self.kind is Kind.WORD else ""


@dataclass(frozen=True, slots=True)
class Variable:
    """`${name}`, `${name|default}`, `${env:NAME}` or `${env:NAME|default}`."""

    name: str
    from_env: bool
    default: str | None
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Lexed:
    """A text in tokens. `cut`: the end could not be read, and an error says so."""

    text: Text
    tokens: tuple[Token, ...]
    variables: tuple[Variable, ...]
    errors: tuple[FileError, ...] = ()
    cut: bool = False

    def token_at(self, offset: int) -> Token | None:
        """The token that covers the offset; none does in comments and spaces."""
        found = bisect_right(self.tokens, offset, key=_start) - 1
        return self.tokens[found] if found >= 0 and offset < self.tokens[found].end else None

    def without_comments(self, start: int, end: int) -> str:
        """The text from `start` to `end`, spaces in the place of all that is in no token; lines stay lines."""
        pieces: list[str] = []
        at = start
        for token in self.tokens[bisect_left(self.tokens, start, key=_start) :]:
            if token.end > end:
                break
            pieces += [_NOT_A_BREAK.sub(" ", self.text.content[at : token.start]), token.raw]
            at = token.end
        return "".join([*pieces, _NOT_A_BREAK.sub(" ", self.text.content[at:end])])

    def errors_in(self, start: int, end: int) -> list[FileError]:
        places = [self.text.span(offset, offset + 1).origin for offset in (start, end)]
        low, high = ((place.line or 0, place.column or 0) for place in places)
        return [
            each
            for each in self.errors
            if each.origin and low <= (each.origin.line or 0, each.origin.column or 0) < high
        ]

    def variables_in(self, start: int, end: int) -> list[Variable]:
        first = bisect_left(self.variables, start, key=_start)
        return list(itertools.takewhile(lambda each: each.end <= end, itertools.islice(self.variables, first, None)))


def _start(piece: Token | Variable) -> int:
    return piece.start


def lex(text: Text) -> Lexed:
    """Never raises: what cannot be read is in the errors."""
    masked = _VARIABLE.sub(lambda found: "v" * len(found.group()), text.content)
    try:
        found, failure = Spark().tokenize(masked), None
    except TokenError:
        found, failure = _readable_part(text, masked)
    whole = Lexed(text, _tokens(text, found), ())
    variables, errors = _variables(whole)
    return Lexed(text, whole.tokens, variables, (*errors, *([failure] if failure else [])), cut=failure is not None)


def string_value(literal: str) -> str:
    """What a string literal stands for, its escapes read as Spark reads them."""
    return Spark().tokenize(literal)[0].text


def _tokens(text: Text, found: Sequence[SqlToken]) -> tuple[Token, ...]:
    tokens: list[Token] = []
    end = 0
    for each in found:
        if tokens and each.start < end:
            continue  # sqlglot makes three tokens of 1L, all at one place
        raw = text.content[each.start : each.end + 1]
        first = not tokens or "\n" in text.content[end : each.start]
        end = each.end + 1
        tokens.append(Token(_kind(each, raw), raw, each.start, end, first))
    return tuple(tokens)


def _kind(token: SqlToken, raw: str) -> Kind:
    kind = _KINDS.get(token.token_type, Kind.OTHER)
    if kind is Kind.OTHER and (_WORD.fullmatch(raw) or "${" in raw):
        return Kind.WORD
    return kind


def _variables(lexed: Lexed) -> tuple[tuple[Variable, ...], list[FileError]]:
    """The variables outside comments; and the places that look like one and are none."""
    variables: list[Variable] = []
    errors: list[FileError] = []
    for token in lexed.tokens:
        ends = token.start
        for opening in re.finditer(r"\$\{", lexed.text.content[token.start : token.end + 1]):
            start = token.start + opening.start()
            if start < ends:
                continue
            found = VARIABLE.match(lexed.text.content, start)
            if found is None:
                errors.append(_bad_variable(lexed.text.span(start, start + 2)))
                break
            ends = found.end()
            variables.append(
                Variable(found["name"], found["env"] is not None, found["default"], found.start(), found.end())
            )
    return tuple(variables), errors


def _bad_variable(span: Span) -> FileError:
    return FileError(
        "language.bad_variable",
        "this is no variable",
        "write ${name}, ${name|default}, ${env:NAME} or ${env:NAME|default}, closed on the same line",
        span=span,
    )


def _readable_part(text: Text, masked: str) -> tuple[list[SqlToken], FileError]:
    """The tokens before the literal or comment that is not closed: closing it by force shows where it begins."""
    for closer, word in (("'", "string"), ('"', "string"), ("`", "quoted name")):
        found = _attempt(f"{masked} {closer}")
        if found:
            place = _culprit(text, found, closer)
            start = found[place].start
            return found[:place], _unterminated(text.span(start, start + 1), word, closer)
    for depth in range(1, _MOST_NESTED):
        found = _attempt(f"{masked} {'*/' * depth}")
        if found is not None:
            start = masked.find("/*", found[-1].end + 1 if found else 0)
            return found, _unterminated(text.span(start, start + 2), "comment", "*/")
    return _lines_before(text, masked)


def _lines_before(text: Text, masked: str) -> tuple[list[SqlToken], FileError]:
    """The tokens of lines that can be read, and an error at the line after them."""
    ends = [found.end() for found in re.finditer(r"\n", masked)]
    read = bisect_left(ends, True, key=lambda end: _attempt(masked[:end]) is None)  # noqa: FBT003
    start = ends[read - 1] if read else 0
    width = len(masked[start:].splitlines()[0])
    remedy = "look for a quote that is not closed"
    error = FileError("language.unreadable", "this line cannot be read", remedy, span=text.span(start, start + width))
    return _attempt(masked[:start]) or [], error


def _culprit(text: Text, found: Sequence[SqlToken], closer: str) -> int:
    """Which token is not closed: the last, or an earlier one that runs over the end of a statement.

    After a forgotten quote every later one opens what it should close, and only the last has no partner.
    """
    for place, token in enumerate(found):
        raw = text.content[token.start : token.end + 1]
        if raw[:1] == closer and _END_OF_STATEMENT.search(raw):
            return place
    return len(found) - 1


def _attempt(content: str) -> list[SqlToken] | None:
    try:
        return Spark().tokenize(content)
    except TokenError:
        return None


def _unterminated(span: Span, word: str, closer: str) -> FileError:
    return FileError("language.unterminated", f"this {word} is not closed", f"close it with {closer}", span=span)


PAGE = "docs/coming-from.md"
_REF = re.compile(r"\{\{-?\s*(?:ref|source)\(\s*(?:'[^']*'\s*,\s*|\"[^\"]*\"\s*,\s*)?['\"](\w+)['\"]\s*\)\s*-?\}\}")
_TAG = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)


def template_in(text: Text, tokens: Sequence[Token]) -> FileError | None:
    """The error for the first `{{ … }}` or `{% … %}` among the tokens; SQL has neither."""
    found = next((token.start for token in tokens if text.content.startswith(("{{", "{%"), token.start)), None)
    return None if found is None else _error(text, found)


def _error(text: Text, start: int) -> FileError:
    tag = _TAG.match(text.content, start)
    name = _REF.match(text.content, start)
    instead = f"write {name[1]}, the plain name; " if name else ""
    return FileError(
        "language.dbt_template",
        "this is a template of dbt, and queries are plain SQL here",
        f"{instead}{PAGE} says what each part of a dbt model becomes",
        span=text.span(start, tag.end() if tag else start + 2),
    )


def parameters_of(query: str) -> tuple[str, ...]:
    """The names without their @, each once, in order; those of the window in lower case, others as written.

    Literals and comments hold none, and `table@v1` is none.
    """
    lexed = _lex_query(query)
    return tuple(dict.fromkeys(name for name, _, _ in _found(lexed)))


def cut_at_parameters(query: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The text between the @names of a query, and the names; there is one piece more than names."""
    pieces: list[str] = []
    names: list[str] = []
    at = 0
    for name, start, end in _found(_lex_query(query)):
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


def _lex_query(query: str) -> Lexed:
    lexed = lex(Text("query", query))
    if lexed.errors:
        raise lexed.errors[0]
    return lexed


def statement_at(origin: Origin | None, after: str | None = None) -> str | None:
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
