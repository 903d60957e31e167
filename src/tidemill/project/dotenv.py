"""`.env` files: NAME=value lines, as shells and other tools read them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError, Origin

if TYPE_CHECKING:
    from pathlib import Path

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
