"""The texts of a project file and of `.env`: TOML with the place of every key, its variables, and its shape."""

from __future__ import annotations

import datetime as dt
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, cast, get_origin, is_typeddict

from tidemill.errors import ArgumentError, Origin
from tidemill.frontends.shape import Document, Places, Style, fit
from tidemill.model import FileError, FileErrors, Text, suggestion
from tidemill.model.project import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tidemill.frontends.shape import Key, Mistake
    from tidemill.model import Span
    from tidemill.model.project import Variables

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


_HEADER = re.compile(r"\s*\[\[?(?P<key>[^\[\]]+)\]\]?\s*(#.*)?$")
_ENTRY = re.compile(r"""\s*(?P<key>(?:[\w.-]|"[^"]*"|'[^']*'|\s*\.\s*)+?)\s*=""")
_PLACE = re.compile(r"\(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)")


def read_toml(file: Path) -> Document:
    """Reads the file; one that is not TOML is an error at its line."""
    try:
        text = Text(str(file), file.read_bytes().decode("utf-8-sig"))
    except (OSError, UnicodeDecodeError) as failure:
        problem, why = f"{file} cannot be read", getattr(failure, "strerror", None)
        remedy = why.lower() if why else "it must be a UTF-8 text"
        raise FileErrors([FileError("project.unreadable", problem, remedy)]) from failure
    try:
        data = tomllib.loads(text.content)
    except tomllib.TOMLDecodeError as bad:
        raise FileErrors([_not_toml(text, str(bad))]) from bad
    return Document(data, Places(text.span(0, 1), dict(_keys(text))), style=_Toml(guesses=False))


def _not_toml(text: Text, message: str) -> FileError:
    place = _PLACE.search(message)
    start = len(text.content.rstrip())
    if place and place["line"]:
        lines = text.content.splitlines(keepends=True)
        start = sum(map(len, lines[: int(place["line"]) - 1])) + int(place["column"]) - 1
    problem = _PLACE.sub("", message).strip()
    problem = f"this is not TOML: {problem[:1].lower()}{problem[1:]}"
    return FileError("project.not_toml", problem, "correct it", span=text.span(start, start + 1))


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
Scalar = str | int | float | bool | dt.date | dt.time


class WarehouseKeys(TypedDict, total=False):
    path: str
    schema: str
    catalog: str
    format: Literal["delta", "parquet"]
    single_writer: bool


class SparkKeys(TypedDict, total=False):
    master: str
    remote: str
    conf: dict[str, Any]


class FlagKeys(TypedDict, total=False):
    materialization_change_behavior: Literal["warn", "error", "ignore"]
    table_refresh: Literal["auto", "incremental", "full"]
    refresh_check: Literal["never", "always"]


class ProfileKeys(TypedDict, total=False):
    """What a profile may say otherwise."""

    warehouse: WarehouseKeys
    spark: SparkKeys
    vars: dict[str, Scalar]
    sources: dict[str, dict[str, Any]]
    flags: FlagKeys


class ProjectKeys(TypedDict, total=False):
    name: str
    warehouse: WarehouseKeys
    spark: SparkKeys
    vars: dict[str, Scalar]
    sources: dict[str, dict[str, Any]]
    flags: FlagKeys
    profiles: dict[str, ProfileKeys]


class _Toml(Style):
    """How mistakes in a project file are worded."""

    __slots__ = ()

    def name(self, key: Key) -> str:
        return ".".join(f'"{part}"' if "." in str(part) else str(part) for part in key)

    def unknown_key(self, key: Key, name: str, known: Mapping[str, Any]) -> Mistake:
        where = f"[{self.name(key)}]" if key else "a project file"
        remedy = suggestion(name, known, f"the keys are {', '.join(known)}")
        return "project.unknown_key", f"{where} has no key {name}", remedy

    def unknown_word(self, key: Key, value: object, known: tuple[str, ...]) -> Mistake:
        remedy = suggestion(str(value), known, "correct it")
        return "project.bad_value", f"{self.name(key)} must be one of {', '.join(known)}", remedy

    def wrong_type(self, key: Key, value: object, shape: Any) -> Mistake:  # noqa: ARG002  as others do
        wanted, remedy = "a text", 'write it in "…"'
        if shape is bool:
            wanted, remedy = "true or false", "write it without quotes"
        elif shape == Scalar:
            wanted, remedy = "a text or a number", "write one value"
        elif is_typeddict(shape) or get_origin(shape) is dict:
            wanted, remedy = "a table", f"write [{self.name(key)}] and its keys below"
        return "project.wrong_type", f"{self.name(key)} must be {wanted}", remedy

    def empty(self, key: Key, value: object) -> None:
        """A text may be empty."""


def check_project(document: Document) -> None:
    """Notes what is not as a project file is."""
    fit(document, ProjectKeys)
    for key, settings in _levels(document.value):
        catalog = _table(_table(settings).get("warehouse")).get("catalog")
        if isinstance(catalog, str) and not _IDENTIFIER.fullmatch(catalog):
            place = (*key, "warehouse", "catalog")
            problem = f"{document.style.name(place)} is {catalog!r}, which is no identifier"
            document.note(place, "project.bad_value", problem, "write it in letters, digits and _")
        _check_conf(document, (*key, "spark", "conf"), _table(_table(settings).get("spark")).get("conf"))
        for name, source in _table(_table(settings).get("sources")).items():
            kind = _table(source).get("type", "")
            if not isinstance(kind, str):  # whether there is one is known only after the profile
                place = (*key, "sources", name, "type")
                document.note(place, *document.style.wrong_type(place, kind, str))


def _levels(data: object) -> list[tuple[Key, object]]:
    """The settings, and those of all profiles, with their keys."""
    profiles = _table(_table(data).get("profiles"))
    return [((), data), *((("profiles", name), each) for name, each in profiles.items())]


def _check_conf(document: Document, key: Key, given: object) -> None:
    """Keys with dots and no quotes are tables in tables."""
    for name, each in _table(given).items():
        if isinstance(each, Mapping):
            _check_conf(document, (*key, name), each)
        elif not isinstance(each, _SCALARS):
            place = (*key, name)
            document.note(place, *document.style.wrong_type(place, each, Scalar))


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
