"""JSON files as bytes: whether each line is a value or each file is one. Of several, Spark reads the first alone."""

from __future__ import annotations

import contextlib
import io
import json
import re
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING

from tidemill.errors import ConnectorError
from tidemill.sources.files.contents import KEPT, Text, looks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tidemill.sources.files.listing import Listing

REMEDY = "Write each object in one line, as jq -c does; a file may also be one object or one array of objects."
_LONG = 1 << 20  # bytes of a line that is treated as a value without a look
_AT_A_TIME = 1 << 20  # bytes
_DECODER = json.JSONDecoder()
# Two values side by side, or what looks so in a text; a comma between them is usual inside of an array. They are three,
# because Python is fast where an expression begins with a sign.
_SEVERAL = tuple(map(re.compile, (rb"\}[ \t]*\{", rb"\][ \t]*\[", rb"\n[ \t]*\{[^\[\r\n]*\}[ \t]*,[ \t]*\{")))


class _Shape(Enum):
    LINES = "lines"
    ONE_LINE = "one line"
    DOCUMENT = "document"


def files_are_documents(listing: Listing, options: Mapping[str, str]) -> bool:
    """Whether each file is one value that goes over its lines; a row that Spark would skip is an error."""
    given = {name.lower(): value.lower() for name, value in options.items()}
    if given.get("encoding", given.get("charset", "utf-8")) not in {"utf-8", "utf8"}:
        return False
    if given.get("multiline") == "true":
        looks(listing, _document)
        return True
    found = looks(listing, _look)
    if "multiline" in given or _Shape.DOCUMENT not in found:
        return False
    if _Shape.LINES in found:
        one, other = (listing.files[found.index(shape)].path for shape in (_Shape.DOCUMENT, _Shape.LINES))
        raise _not_lines(f"{one} is one value that goes over its lines, and {other} has a value in each.")
    return True


@lru_cache(KEPT)
def _look(text: Text) -> _Shape:
    before = 0
    with contextlib.suppress(OSError, UnicodeDecodeError):  # Spark says what is wrong with a file
        for some in _lines(text):
            if not before and not _begins_with_value(some):
                return _document(text)
            _check(some, before, text.path)
            before += some.count(b"\n")
    return _Shape.LINES if before > 1 else _Shape.ONE_LINE


def _lines(text: Text) -> Iterator[bytes]:
    """Whole lines, many at a time, each with its end before it."""
    with text.opened() as stream, io.BufferedReader(stream) as reader:
        while lines := reader.readlines(_AT_A_TIME):
            yield b"\n" + b"".join(lines).rstrip()


def _check(lines: bytes, before: int, path: str) -> None:
    """That Spark would skip nothing in these lines."""
    for found in (found for pattern in _SEVERAL for found in pattern.finditer(lines)):
        place = found.end() - 1
        begin = max(lines.rfind(b"\n", 0, place), lines.rfind(b"\r", 0, place)) + 1
        with contextlib.suppress(json.JSONDecodeError):
            if _rest(lines[begin:].splitlines()[0].decode("utf-8-sig")):
                number = before + lines.count(b"\n", 0, begin)
                raise _not_lines(f"{path} has several values in line {number}.")


@lru_cache(KEPT)
def _document(text: Text) -> _Shape:
    with contextlib.suppress(OSError, ValueError):
        if _rest(b"".join(text.blocks()).decode("utf-8-sig")):
            raise _not_lines(f"{text.path} has several values that go over its lines.")
        return _Shape.DOCUMENT
    return _Shape.LINES


def _begins_with_value(lines: bytes) -> bool:
    line = next(iter(lines.split(maxsplit=0)), b"").splitlines()[:1]
    try:
        return not line or len(line[0]) > _LONG or _rest(line[0].decode("utf-8-sig")) is not None
    except json.JSONDecodeError:
        return False


def _rest(text: str) -> str:
    """What follows the first value; a comma may."""
    text = text.lstrip()
    return text[_DECODER.raw_decode(text)[1] :].strip(" \t\r\n,")


def _not_lines(problem: str) -> ConnectorError:
    return ConnectorError("source.not_json_lines", problem, REMEDY)
