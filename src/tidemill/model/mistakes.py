"""Mistakes in several files, collected; and how tables are named in all that is said of a project."""

from __future__ import annotations

import logging
import re
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from tidemill.errors import TidemillError
from tidemill.model import FileErrors, Reads

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


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
