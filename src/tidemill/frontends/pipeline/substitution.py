"""Puts the values of variables into a text, so that no value can be more than a value."""

from __future__ import annotations

import itertools
import json
import re
from bisect import bisect_right
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

from tidemill.frontends.pipeline.tokens import Kind
from tidemill.model import FileError

if TYPE_CHECKING:
    from tidemill.frontends.pipeline.tokens import Lexed, Token, Variable
    from tidemill.model.project import Value, Variables

_WHOLE = re.compile(r"[^\W\d]\w*(\.\w+)*|-?\d+(\.\d+)?([eE][+-]?\d+)?")
_PART = re.compile(r"\w+(\.\w+)*")
_CLOSED = {Kind.STRING, Kind.RAW, Kind.QUOTED}
_STAND_IN = "v"  # where there is no value; the error is already noted, and the statement is not used


class Form(Enum):
    """Who reads the text around a variable."""

    SQL = auto()  # Spark
    TEXT = auto()  # we do: a literal of a statement
    JSON = auto()


@dataclass
class VariableScope:
    """What variables are worth at this point of a pipeline; SET changes it for what follows."""

    variables: Variables
    assigned: dict[str, str] = field(default_factory=dict)
    secrets: set[str] = field(default_factory=set)

    def find(self, variable: Variable) -> str | None:
        value = self._place(variable)
        if value is None:
            return variable.default
        if value.secret and value.text:
            self.secrets.add(value.text)
        return value.text

    def _place(self, variable: Variable) -> Value | None:
        if variable.from_env:
            return self.variables.find_secret(variable.name)
        return self.variables.find(variable.name, self.assigned)


@dataclass(frozen=True, slots=True)
class Piece:
    content: str
    origin: int
    inserted: bool = False


@dataclass(frozen=True, slots=True)
class Filled:
    """A part of a text with values in it, which still knows where each character was written."""

    pieces: tuple[Piece, ...]

    @property
    def content(self) -> str:
        return "".join(piece.content for piece in self.pieces)

    def origin_of(self, offset: int) -> int:
        """The place in the original text; all of a value is at its variable."""
        ends = list(itertools.accumulate(len(piece.content) for piece in self.pieces))
        found = min(bisect_right(ends, offset), len(ends) - 1)
        piece = self.pieces[found]
        within = offset - (ends[found] - len(piece.content))
        return piece.origin + (0 if piece.inserted else within)


@dataclass
class Substitution:
    """Fills pieces of one text from a scope. Errors are collected; `failed` says that there are any.

    With `blind`, values are not looked for (a branch that is not taken must not ask for them), and `failed` says
    that the outcome depends on one.
    """

    lexed: Lexed
    scope: VariableScope
    blind: bool = False
    errors: list[FileError] = field(default_factory=list)
    failed: bool = False

    def fill(self, start: int, end: int, form: Form = Form.SQL) -> Filled:
        """The text from `start` to `end` with values. In JSON, which has no comments, those become spaces."""
        lexed = self.lexed
        content = lexed.without_comments(start, end) if form is Form.JSON else lexed.text.content[start:end]
        pieces: list[Piece] = []
        at = start
        for variable in lexed.variables_in(start, end):
            pieces.append(Piece(content[at - start : variable.start - start], at))
            pieces.append(Piece(self._written(variable, form), variable.start, inserted=True))
            at = variable.end
        pieces.append(Piece(content[at - start :], at))
        return Filled(tuple(pieces))

    def plain(self, variable: Variable) -> str:
        """The value as it is, for places where nothing reads it as code."""
        if self.blind:
            self.failed = True
            return _STAND_IN
        value = self.scope.find(variable)
        return self._note(_missing(variable), variable) if value is None else value

    def _written(self, variable: Variable, form: Form) -> str:
        token = self.lexed.token_at(variable.start)
        assert token is not None  # noqa: S101  variables in comments are not in the list
        if self.blind:
            self.failed = self.failed or token.kind not in _CLOSED
            return _STAND_IN
        value = self.scope.find(variable)
        if value is None:
            return self._note(_missing(variable), variable)
        written = self._safe(token, variable, value, form)
        return self._note(_unsafe(token, variable), variable) if written is None else written

    def _safe(self, token: Token, variable: Variable, value: str, form: Form) -> str | None:
        content = self.lexed.text.content
        match token.kind:
            case Kind.STRING:
                before = content[token.start : variable.start]
                if (len(before) - len(before.rstrip("\\"))) % 2:
                    return None  # a backslash would join the value and turn its own escape around
                return _in_literal(value, token.raw[0], before, form)
            case Kind.RAW:
                return None if token.raw[-1] in value or "${" in value else value
            case Kind.QUOTED:
                return value.replace("`", "``") if "${" not in value else None
            case _:
                return _bare(token, variable, value, content)

    def _note(self, what: tuple[str, str, str], variable: Variable) -> str:
        self.failed = True
        span = self.lexed.text.span(variable.start, variable.end)
        self.errors.append(FileError(*what, span=span))
        return _STAND_IN


def _in_literal(value: str, quote: str, before: str, form: Form) -> str:
    """The value, escaped; for Spark nothing in it may be `${…}`, in whose place its parser would put a setting."""
    if form is Form.JSON:
        return json.dumps(value)[1:-1]
    escaped = value.replace("\\", "\\\\").replace(quote, f"\\{quote}")
    if form is Form.TEXT:
        return escaped
    escaped = escaped.replace("${", "\\u0024{")
    joins_a_dollar = escaped.startswith("{") and before.endswith(("$", "}"))
    return f"\\u007b{escaped[1:]}" if joins_a_dollar else escaped


def _bare(token: Token, variable: Variable, value: str, content: str) -> str | None:
    whole = (token.start, token.end) == (variable.start, variable.end)
    if not (_WHOLE if whole else _PART).fullmatch(value):
        return None
    joins_a_quote = content[variable.end : variable.end + 1] in {"'", '"'}  # r'…' is another literal than '…'
    begins_a_comment = value.startswith("-") and content[: variable.start].endswith("-")
    return None if joins_a_quote or begins_a_comment else value


def _missing(variable: Variable) -> tuple[str, str, str]:
    name = variable.name
    if variable.from_env:
        return (
            "language.missing_variable",
            f"${{env:{name}}} has no value",
            f"set {name} in .env or in the environment, or write ${{env:{name}|default}}",
        )
    return (
        "language.missing_variable",
        f"${{{name}}} has no value",
        f"give it with --var {name}=… or under [vars] in tidemill.toml, or write ${{{name}|default}}",
    )


def _unsafe(token: Token, variable: Variable) -> tuple[str, str, str]:
    """Says nothing of the value: it may be a secret."""
    name = f"env:{variable.name}" if variable.from_env else variable.name
    match token.kind:
        case Kind.STRING:
            remedy = "write the backslash before it twice"
        case Kind.RAW | Kind.QUOTED:
            remedy = "write it inside a string literal without r, where values are escaped"
        case _:
            remedy = (
                "here it must be an identifier, a number or a dotted name; inside a string literal it may be any text"
            )
    return "language.unsafe_value", f"the value of ${{{name}}} cannot stand here", remedy
