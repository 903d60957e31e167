"""Which keys a project file may have, and of which types: every mistake is noted at its place."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidemill.declare.mistakes import suggestion
from tidemill.project.toml import ProjectError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidemill.project.toml import Document, Key

_IDENTIFIER = re.compile(r"[^\W\d]\w*")
_SCALARS = (str, int, float, bool, dt.date, dt.time)


@dataclass(frozen=True, slots=True)
class Words:
    """A text; where `known` is given, one of those; or an `identifier`."""

    known: tuple[str, ...] = ()
    identifier: bool = False


@dataclass(frozen=True, slots=True)
class Truth:
    """true or false."""


@dataclass(frozen=True, slots=True)
class Scalars:
    """A table of texts, numbers and the like; with `nested`, also tables of those, for keys with dots."""

    nested: bool = False


@dataclass(frozen=True, slots=True)
class Sources:
    """A table of outside data by name, each a table with whatever its type takes."""


@dataclass(frozen=True, slots=True)
class Section:
    """A table with these keys."""

    keys: Mapping[str, Shape]


@dataclass(frozen=True, slots=True)
class Each:
    """A table with any keys, all of one shape."""

    shape: Shape


Shape = Words | Truth | Scalars | Sources | Section | Each

_SETTINGS: dict[str, Shape] = {
    "warehouse": Section(
        {
            "path": Words(),
            "schema": Words(),
            "catalog": Words(identifier=True),
            "format": Words(("delta", "parquet")),
            "single_writer": Truth(),
        }
    ),
    "spark": Section({"master": Words(), "remote": Words(), "conf": Scalars(nested=True)}),
    "vars": Scalars(),
    "sources": Sources(),
    "flags": Section({"materialization_change_behavior": Words(("warn", "error", "ignore"))}),
}
PROJECT = Section({"name": Words(), **_SETTINGS, "profiles": Each(Section(_SETTINGS))})


@dataclass
class Checker:
    """Compares a document with its shape; `errors` has what does not fit."""

    document: Document
    errors: list[ProjectError] = field(default_factory=list)

    def check(self, value: object, shape: Shape, key: Key = ()) -> None:
        match shape:
            case Words(known, identifier):
                self._check_words(value, known, key)
                if identifier and isinstance(value, str) and not _IDENTIFIER.fullmatch(value):
                    problem = f"{_dotted(key)} is {value!r}, which is no identifier"
                    self.note(key, "project.bad_value", problem, "write it in letters, digits and _")
            case Truth():
                self._check_truth(value, key)
            case Section(keys):
                self._check_section(value, keys, key)
            case Each(inner):
                for name, each in self._table(value, key):
                    self.check(each, inner, (*key, name))
            case Scalars(nested):
                self._check_scalars(value, key, nested=nested)
            case Sources():
                for name, each in self._table(value, key):
                    self._check_source(each, (*key, name))

    def note(self, key: Key, code: str, problem: str, remedy: str) -> None:
        self.errors.append(ProjectError(code, problem, remedy, span=self.document.span(key)))

    def _check_words(self, value: object, known: tuple[str, ...], key: Key) -> None:
        if not isinstance(value, str):
            self._wrong_type(key, "a text", 'write it in "…"')
        elif known and value not in known:
            remedy = suggestion(value, known, "correct it")
            self.note(key, "project.bad_value", f"{_dotted(key)} must be one of {', '.join(known)}", remedy)

    def _check_truth(self, value: object, key: Key) -> None:
        if not isinstance(value, bool):
            self._wrong_type(key, "true or false", "write it without quotes")

    def _check_section(self, value: object, keys: Mapping[str, Shape], key: Key) -> None:
        for name, each in self._table(value, key):
            if name in keys:
                self.check(each, keys[name], (*key, name))
            else:
                where = f"[{_dotted(key)}]" if key else "a project file"
                remedy = suggestion(name, keys, f"the keys are {', '.join(keys)}")
                self.note((*key, name), "project.unknown_key", f"{where} has no key {name}", remedy)

    def _check_scalars(self, value: object, key: Key, *, nested: bool) -> None:
        for name, each in self._table(value, key):
            if nested and isinstance(each, Mapping):
                self._check_scalars(each, (*key, name), nested=True)
            elif not isinstance(each, _SCALARS):
                self._wrong_type((*key, name), "a text or a number", "write one value")

    def _check_source(self, value: object, key: Key) -> None:
        """Whether it has a type is known only after the profile."""
        table = dict(self._table(value, key))
        if "type" in table:
            self._check_words(table["type"], (), (*key, "type"))

    def _table(self, value: object, key: Key) -> Iterable[tuple[str, object]]:
        if isinstance(value, Mapping):
            return value.items()
        self._wrong_type(key, "a table", f"write [{_dotted(key)}] and its keys below")
        return ()

    def _wrong_type(self, key: Key, wanted: str, remedy: str) -> None:
        self.note(key, "project.wrong_type", f"{_dotted(key)} must be {wanted}", remedy)


def _dotted(key: Key) -> str:
    return ".".join(f'"{part}"' if "." in part else part for part in key)
