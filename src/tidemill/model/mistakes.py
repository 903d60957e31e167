"""Mistakes in users' files, each with its place: the line is shown, with a caret under the word."""

from __future__ import annotations

import logging
import re
import unicodedata
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypeVar

from tidemill.errors import ArgumentError, Origin, TidemillError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tidemill.model.project import Masking


def offset_of(word: str, line: str, column: int) -> int:
    """Where a word that a parser met at this column, from 0, stands in the line as its author wrote it.

    Values in the place of variables may have moved it: then it is looked for.
    """
    return column if line[column : column + len(word)] == word else max(line.find(word), 0)


@dataclass(frozen=True, slots=True)
class Text:
    """A file as it was read, character by character; `file` is the name that users see."""

    file: str
    content: str

    def span(self, start: int, end: int) -> Span:
        return Span(self, start, max(end, start + 1))


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a text, for errors to point at. Lines and columns count from 1, in characters."""

    text: Text
    start: int
    end: int

    @property
    def origin(self) -> Origin:
        number = self.text.content.count("\n", 0, self.start) + 1
        return Origin(self.text.file, number, self.start - self._line_start + 1)

    @property
    def line(self) -> str:
        """The whole line on which it starts."""
        return self.text.content[self._line_start : self._line_end].removesuffix("\r")

    @property
    def width(self) -> int:
        """How many characters of that line it covers, at least one."""
        return max(1, min(self.end, self._line_end) - self.start)

    @property
    def _line_start(self) -> int:
        return self.text.content.rfind("\n", 0, self.start) + 1

    @property
    def _line_end(self) -> int:
        found = self.text.content.find("\n", self.start)
        return len(self.text.content) if found < 0 else found


Error = TypeVar("Error", bound=TidemillError)
_WIDEST = 110
_KEPT_LEFT = 30


class FileError(ArgumentError):
    """One mistake in a file. `line` is the line as written; the caret covers `width` of it from the origin's column."""

    def __init__(self, code: str, problem: str, remedy: str, *, span: Span | None = None) -> None:
        super().__init__(code, problem, remedy, origin=span.origin if span else None)
        self.line = span.line if span else ""
        self.width = span.width if span else 0

    @classmethod
    def at(cls, span: Span, error: ArgumentError) -> Self:
        """The mistake that a declaration found in itself, shown where its author made it."""
        return cls(error.code, _inside(error.problem), _inside(error.remedy), span=span)

    def __str__(self) -> str:
        where = f"{self.origin}: " if self.origin else ""
        return f"{where}[{self.code}] {self.problem}: {self.remedy}"

    def hide(self, masking: Masking) -> None:
        """Takes secrets out of what it says; the line holds none, because it is the text before variables."""
        self.problem = masking.mask(self.problem)
        self.remedy = masking.mask(self.remedy)
        self.args = (self.code, self.problem, self.remedy)


@dataclass(frozen=True, slots=True)
class Reads:
    """A table or an export that could be read though something else is wrong: names that it reads can be checked."""

    name: str
    inputs: tuple[str, ...]
    origin: Origin | None


class FileErrors(ArgumentError):  # noqa: N818  it is several
    """All mistakes of the files that were read together, by file and line; there is at least one.

    `reads` is what could be read all the same, None where nobody knows what else the files declare; `perhaps` are
    names that what could not be read may declare.
    """

    def __init__(
        self,
        errors: Sequence[TidemillError],
        reads: Iterable[Reads] | None = None,
        perhaps: Iterable[str] = (),
    ) -> None:
        count = f"{len(errors)} error{'' if len(errors) == 1 else 's'}"
        super().__init__("files.errors", count, "nothing was run", origin=errors[0].origin)
        self.errors = tuple(errors)
        self.reads = None if reads is None else tuple(reads)
        self.perhaps = frozenset(perhaps)

    def __reduce__(self) -> tuple[type[FileErrors], tuple[object, ...]]:
        """An error that cannot be read back would break the pool of processes it comes from, and be lost."""
        return FileErrors, (self.errors, self.reads, self.perhaps)

    def __str__(self) -> str:
        return "\n".join([*(excerpt(error) for error in self.errors), f"{self.problem} · {self.remedy}"])


def in_order(errors: Iterable[Error]) -> list[Error]:
    """Each once (a file may be read for two pipelines), by file in the order of their first errors, then by place."""
    files: dict[str, int] = {}
    once: dict[tuple[str, str, str], Error] = {}
    for error in errors:
        files.setdefault(error.origin.file if error.origin else "", len(files))
        once.setdefault((error.code, error.problem, str(error.origin)), error)

    def place(error: Error) -> tuple[int, int, int]:
        origin = error.origin
        return (files[origin.file], origin.line or 0, origin.column or 0) if origin else (files[""], 0, 0)

    return sorted(once.values(), key=place)


@dataclass
class Mistakes:
    """What is wrong with some files beside what is wrong with others, so that all is reported at once.

    `whole`: it is known what all of them declare.
    """

    errors: list[TidemillError] = field(default_factory=list)
    reads: list[Reads] = field(default_factory=list)
    perhaps: set[str] = field(default_factory=set)
    whole: bool = True

    @contextmanager
    def collect(self) -> Iterator[None]:
        try:
            yield
        except FileErrors as found:
            self.errors += found.errors
            self.reads += found.reads or ()
            self.perhaps |= found.perhaps
            self.whole = self.whole and found.reads is not None


def excerpt(error: TidemillError) -> str:
    """The error as a terminal shows it: code, problem, place, the line with a caret, and the remedy beside it."""
    head = f"error[{error.code}] {error.problem}"
    place = [f"  {error.origin}"] if error.origin else []
    if not isinstance(error, FileError) or error.origin is None:
        return "\n".join([head, *place, f"  {error.remedy}"])
    line, before = _cropped(error.line, (error.origin.column or 1) - 1)
    number = str(error.origin.line)
    gutter = f"    {' ' * len(number)} │ "
    marks = "^" * min(error.width, max(1, len(line) - before))
    return "\n".join(
        [
            head,
            *place,
            f"    {number} │ {line.replace(chr(9), ' ')}".rstrip(),
            f"{gutter}{' ' * cells(line[:before])}{marks} {error.remedy}",
        ]
    )


def suggestion(name: str, known: Iterable[str], otherwise: str) -> str:
    """The remedy for a word that is not known."""
    close = did_you_mean(name, known)
    return f"did you mean {close}?" if close else otherwise


def _inside(sentence: str) -> str:
    """The sentence as a part of a line: texts beside a caret neither begin nor end like one."""
    return (sentence[:1].lower() + sentence[1:]).removesuffix(".")


def _cropped(line: str, column: int) -> tuple[str, int]:
    """A line that fits a terminal, and where the column is in it."""
    if len(line) <= _WIDEST:
        return line, column
    first = max(0, min(column - _KEPT_LEFT, len(line) - _WIDEST))
    shown = line[first : first + _WIDEST]
    left = "…" if first else ""
    right = "…" if first + _WIDEST < len(line) else ""
    return f"{left}{shown}{right}", column - first + len(left)


def cells(text: str) -> int:
    """How many columns of a terminal the text takes."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


Result = TypeVar("Result")


@dataclass(frozen=True)
class Wording:
    """Tables of this schema are named without it, in all that is said of a project: `names` are their full names."""

    schema: str = ""
    names: frozenset[str] = frozenset()

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        tables = sorted((name.removeprefix(f"{self.schema}.") for name in self.names), key=len, reverse=True)
        return re.compile(rf"(?<![\w./`]){re.escape(self.schema)}\.({'|'.join(map(re.escape, tables))})(?!\w|\.\w)")

    def text(self, text: str) -> str:
        return self._pattern.sub(r"\1", text) if self.names else text

    def texts(self, texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(self.text, texts))

    def result(self, result: Result, *fields: str) -> Result:
        """The same dataclass with its fields of texts, and its error if it has one, as users read them."""
        error = getattr(result, "error", None)
        if error is not None:
            self.correct(error)
        changes: dict[str, Any] = {name: self.texts(getattr(result, name)) for name in fields}
        return replace(result, **changes)  # type: ignore[type-var]

    @contextmanager
    def errors(self) -> Iterator[None]:
        """What is raised inside is for users."""
        try:
            yield
        except TidemillError as error:
            self.correct(error)
            raise

    @contextmanager
    def log(self) -> Iterator[None]:
        """What is logged inside is for users."""

        def reworded(line: logging.LogRecord) -> bool:
            line.msg, line.args = self.text(line.getMessage()), ()
            return True

        logger = logging.getLogger("tidemill")
        logger.addFilter(reworded)
        try:
            yield
        finally:
            logger.removeFilter(reworded)

    def correct(self, error: TidemillError) -> None:
        """Changes the error's own texts: its type, its cause and its place stay."""
        for each in (error, *(error.errors if isinstance(error, FileErrors) else ())):
            each.problem, each.remedy = self.text(each.problem), self.text(each.remedy)
            each.args = (each.code, each.problem, each.remedy)


def wording_of(schema: str, names: Iterable[str]) -> Wording:
    """Of a project's tables those count that are in the schema which goes without saying."""
    return Wording(schema, frozenset(name for name in names if name.startswith(f"{schema}.")))
