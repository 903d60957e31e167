"""The texts of a project file and of `.env`: TOML with the place of every key, its variables, and its shape."""

from __future__ import annotations

import datetime as dt
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar, cast

from tidemill.errors import ArgumentError, Origin
from tidemill.model.mistakes import FileError, FileErrors, Text, suggestion
from tidemill.model.variables import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tidemill.model.mistakes import Span
    from tidemill.model.variables import Variables

_LINE = re.compile(
    r"""[^\S\n]*
    (?: (?:export[^\S\n]+)? (?P<name>[A-Za-z_][\w.-]*) [^\S\n]*=[^\S\n]*
        (?: '(?P<single>[^']*)' | "(?P<double>(?:[^"\\]|\\.)*)" | (?P<bare>[^\n'"\#][^\n]*?)? )
    )?
    [^\S\n]* (?:(?<!\S)\#[^\n]*)? (?:\n|\Z)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$", "'": "'"}


def read_dotenv(file: Path) -> dict[str, str]:
    """The names and values of the file; nothing when there is none.

    Comments, `export`, quotes over several lines and escapes in double quotes are read; nothing is put in the
    place of `$NAME`. An error names the line and shows nothing of it: it may be a secret.
    """
    try:
        text = file.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as failure:
        raise ArgumentError(
            "project.bad_env", f"{file} cannot be read.", "Save it as UTF-8 text.", origin=Origin(str(file))
        ) from failure
    values: dict[str, str] = {}
    at = 0
    while at < len(text):
        found = _LINE.match(text, at)
        if found is None:
            raise _bad_line(file, text.count("\n", 0, at) + 1)
        if found["name"]:
            values[found["name"]] = _value(found)
        at = found.end()
    return values


def _value(found: re.Match[str]) -> str:
    if found["single"] is not None:
        return found["single"]
    if found["double"] is not None:
        return _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[0]), found["double"])
    return found["bare"] or ""


def _bad_line(file: Path, line: int) -> ArgumentError:
    return ArgumentError(
        "project.bad_env",
        f"Line {line} of {file.name} is not NAME=value.",
        'Write NAME=value or NAME="a value", one on each line.',
        origin=Origin(str(file), line),
    )


Data = TypeVar("Data")


@dataclass
class Filling:
    """Puts values in the place of variables; `secrets` holds those that came from `.env` or the environment."""

    variables: Variables
    secrets: set[str] = field(default_factory=set, repr=False)

    def fill(self, data: Data, origin: Origin | None) -> Data:
        """The same data, with every text in it filled; `origin` is where it stands. A missing value is an error."""
        filled: object = data
        if isinstance(data, str):
            filled = VARIABLE.sub(lambda found: self._value(found, origin), data)
        elif isinstance(data, Mapping):
            filled = {name: self.fill(value, origin) for name, value in data.items()}
        elif isinstance(data, list):
            filled = [self.fill(value, origin) for value in data]
        return cast("Data", filled)

    def _value(self, found: re.Match[str], origin: Origin | None) -> str:
        name = found["name"]
        value = self.variables.find_secret(name) if found["env"] else self.variables.find(name)
        if value is None:
            return self._default(found, origin)
        if value.secret and value.text:
            self.secrets.add(value.text)
        return value.text

    @staticmethod
    def _default(found: re.Match[str], origin: Origin | None) -> str:
        default: str | None = found["default"]
        if default is not None:
            return default
        name = found["name"]
        where = (
            f"Set {name} in .env or in the environment" if found["env"] else f"Give it with --var {name}=… or in [vars]"
        )
        raise ArgumentError(
            "project.missing_variable",
            f"{found[0]} has no value.",
            f"{where}, or write a default: {found[0][:-1]}|…}}.",
            origin=origin,
        )


Key = tuple[str, ...]
_HEADER = re.compile(r"\s*\[\[?(?P<key>[^\[\]]+)\]\]?\s*(#.*)?$")
_ENTRY = re.compile(r"""\s*(?P<key>(?:[\w.-]|"[^"]*"|'[^']*'|\s*\.\s*)+?)\s*=""")
_PLACE = re.compile(r"\(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)")


class ProjectError(FileError):
    """One mistake in the project file."""


@dataclass(frozen=True, slots=True)
class Document:
    """What the file says, and its text."""

    text: Text
    data: dict[str, object]

    def span(self, key: Key) -> Span:
        """Where the key is written; of a key inside a value, where the value is."""
        found = dict(_keys(self.text))
        for length in range(len(key), 0, -1):
            if key[:length] in found:
                return found[key[:length]]
        return self.text.span(0, 1)


def read_toml(file: Path) -> Document:
    """Reads the file; one that is not TOML is an error at its line."""
    try:
        text = Text(str(file), file.read_bytes().decode("utf-8-sig"))
    except (OSError, UnicodeDecodeError) as failure:
        problem, why = f"{file} cannot be read", getattr(failure, "strerror", None)
        remedy = why.lower() if why else "it must be a UTF-8 text"
        raise FileErrors([ProjectError("project.unreadable", problem, remedy)]) from failure
    try:
        return Document(text, tomllib.loads(text.content))
    except tomllib.TOMLDecodeError as bad:
        raise FileErrors([_not_toml(text, str(bad))]) from bad


def _not_toml(text: Text, message: str) -> ProjectError:
    place = _PLACE.search(message)
    start = len(text.content.rstrip())
    if place and place["line"]:
        lines = text.content.splitlines(keepends=True)
        start = sum(map(len, lines[: int(place["line"]) - 1])) + int(place["column"]) - 1
    problem = _PLACE.sub("", message).strip()
    problem = f"this is not TOML: {problem[:1].lower()}{problem[1:]}"
    return ProjectError("project.not_toml", problem, "correct it", span=text.span(start, start + 1))


def _keys(text: Text) -> Iterator[tuple[Key, Span]]:
    header: Key = ()
    at = 0
    for line in text.content.splitlines(keepends=True):
        if found := _HEADER.match(line):
            header = _parts(f"[{found['key']}]")
            yield header, text.span(at + found.start("key"), at + found.end("key"))
        elif found := _ENTRY.match(line):
            yield (*header, *_parts(f"{found['key']} = 0")), text.span(at + found.start("key"), at + found.end("key"))
        at += len(line)


def _parts(written: str) -> Key:
    """The parts of a dotted key, whatever quotes are around them."""
    try:
        value: object = tomllib.loads(written)
    except tomllib.TOMLDecodeError:  # a line inside a text of several lines
        return ()
    parts: list[str] = []
    while isinstance(value, dict) and value:
        parts += value
        value = next(iter(value.values()))
    return tuple(parts)


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
