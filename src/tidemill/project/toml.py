"""A TOML file, and where each of its keys stands."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.declare.mistakes import FileError, FileErrors
from tidemill.declare.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tidemill.declare.text import Span

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
        problem = f"{file} cannot be read"
        raise FileErrors([ProjectError("project.unreadable", problem, "it must be a UTF-8 text")]) from failure
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
