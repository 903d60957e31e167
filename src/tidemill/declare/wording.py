"""Texts for users, in which tables have the names that users write."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from tidemill.declare.mistakes import FileErrors
from tidemill.errors import TidemillError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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

    def correct(self, error: TidemillError) -> None:
        """Changes the error's own texts: its type, its cause and its place stay."""
        for each in (error, *(error.errors if isinstance(error, FileErrors) else ())):
            each.problem, each.remedy = self.text(each.problem), self.text(each.remedy)
            each.args = (each.code, each.problem, each.remedy)


def wording_of(schema: str, names: Iterable[str]) -> Wording:
    """Of a project's tables those count that are in the schema which goes without saying."""
    return Wording(schema, frozenset(name for name in names if name.startswith(f"{schema}.")))
