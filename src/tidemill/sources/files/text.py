"""CSV and JSON files as bytes: what has to be known of headers, quotes and lines before Spark reads them."""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Self, TypeVar

from tidemill.errors import ConnectorError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyarrow import fs

    from tidemill.sources.files.listing import Listing, Root

KEPT = 20_000  # of what is known of files: a step reads its source several times
_BLOCK = 1 << 20  # bytes
_AT_A_TIME = 16
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Text:
    """A file, which is the same one as long as its size and time are."""

    scheme: str
    path: str
    size: int
    mtime: int
    files: fs.FileSystem = field(compare=False)

    def opened(self) -> pa.NativeFile:
        return self.files.open_input_stream(self.path, compression="detect")

    def blocks(self) -> Iterator[bytes]:
        with self.opened() as stream:
            while block := stream.read(_BLOCK):
                yield block


def look_at_files(listing: Listing, look: Callable[[Text], _T]) -> list[_T]:
    """What is seen in each of the files, in their order."""
    texts = [Text(root.scheme, file.path, file.size, file.mtime_ns, root.files) for root, file in listing.placed]
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        return list(pool.map(look, texts))


@dataclass(frozen=True, slots=True)
class Types:
    """What a user says of types: a whole schema, or some columns, as Spark writes them ("decimal(10,2)")."""

    schema: str | None = None
    some: Mapping[str, str] = field(default_factory=dict)
    source: str = ""


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """The options that were given, or what holds without them. Options count without case."""

    separator: str
    encoding: str
    quote: str
    comment: str | None
    has_header: bool
    names_lines: bool  # whether they say how records lie in lines
    names_separator: bool
    is_usual: bool  # whether a quote inside of quotes is written twice, and every line counts

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        given = {name.lower(): value for name, value in options.items()}
        return cls(
            separator=given.get("sep", given.get("delimiter", ",")).replace("\\t", "\t"),
            encoding=given.get("encoding", given.get("charset", "utf-8")).lower(),
            quote=given.get("quote", '"'),
            comment=given.get("comment"),
            has_header=given.get("header", "true").lower() == "true",
            names_lines="multiline" in given,
            names_separator=not given.keys().isdisjoint({"sep", "delimiter"}),
            is_usual=given.keys().isdisjoint({"escape", "comment"}),
        )


def separated_by(sign: str | None, options: Mapping[str, str]) -> dict[str, str]:
    """The options of files whose columns are separated by a sign, unless they say otherwise."""
    return ({} if sign is None or CsvOptions.of(options).names_separator else {"sep": sign}) | dict(options)


_SHOWN = 20  # bytes on either side of one that is wrong
WIDE = ("utf-16", "utf16", "utf-32", "utf32")  # encodings in which Spark does not find the ends of lines
_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def lines_are_records(listing: Listing, options: Mapping[str, str]) -> bool:
    """Whether every line is a record; a text in quotes may go on in the next, where Spark would begin another row.

    Bytes that are no UTF-8, unless the options name another encoding, are an error: Spark would put � in their place.
    So is a quote that never closes: all lines after it would be one text.
    """
    given = CsvOptions.of(options)
    are_records = all(look_at_files(listing, lambda text: _look(text, given)))
    return given.names_lines or (are_records and not given.encoding.startswith(WIDE))


@lru_cache(KEPT)
def _look(text: Text, given: CsvOptions) -> bool:
    decoder, lines = codecs.getincrementaldecoder("utf-8")(), _Lines(given.quote.encode())
    is_utf8 = given.encoding in {"utf-8", "utf8"}
    with contextlib.suppress(OSError):  # Spark says what is wrong with a file that cannot be read
        for block in text.blocks():
            lines.take(block)
            if is_utf8:
                _decode(decoder, block, text.path)
        if is_utf8:
            _decode(decoder, b"", text.path)
        if not lines.are_records or lines.is_open:
            _check_quotes(text, given)
    return lines.are_records


class _Lines:
    """A quote that is open at the end of a line closes in another one."""

    def __init__(self, quote: bytes) -> None:
        self.quote, self.are_records, self.is_open = quote, True, False

    def take(self, block: bytes) -> None:
        if not self.quote or not self.are_records or not (self.is_open or self.quote in block):
            return
        first, *more = block.replace(b"\r", b"\n").split(b"\n")
        self.is_open ^= self._odd(first)
        if more:
            self.are_records = not self.is_open and not any(map(self._odd, more[:-1]))
            self.is_open = self._odd(more[-1])

    def _odd(self, line: bytes) -> bool:
        return line.count(self.quote) % 2 == 1


def _check_quotes(text: Text, given: CsvOptions) -> None:
    """A quote that never closes is an error; where Python cannot read the file so far, Spark says what is wrong."""
    if not given.is_usual or len(given.separator) != 1 or len(given.quote) != 1:
        return
    with contextlib.suppress(LookupError, UnicodeDecodeError), text.opened() as stream:
        content = io.TextIOWrapper(io.BufferedReader(stream), given.encoding, newline="")
        records = csv.reader(content, delimiter=given.separator, quotechar=given.quote, strict=True)
        line = 1
        try:
            for _ in records:
                line = records.line_num + 1
        except csv.Error as wrong:
            if "unexpected end of data" in str(wrong):
                raise _open_quote(text.path, line) from None


def _open_quote(path: str, line: int) -> ConnectorError:
    return ConnectorError(
        "source.open_quote",
        f"{path} has a quote in line {line} that never closes: all that follows it would be one text.",
        "Close it, or write a quote that is a sign of a text twice inside of quotes; files without quoted texts are "
        'read with "quote": "" in the params of their source, --option quote= of tidemill merge.',
    )


def _decode(decoder: codecs.IncrementalDecoder, block: bytes, path: str) -> None:
    try:
        decoder.decode(block, final=not block)
    except UnicodeDecodeError as bad:
        before, after = bad.object[: bad.start].rpartition(b"\n")[2], bad.object[bad.start :].partition(b"\n")[0]
        likely = "UTF-16" if bad.object.startswith(_BOMS) else "ISO-8859-1"
        raise ConnectorError(
            "source.not_utf8",
            f"{path} is no UTF-8 text: it holds {before[-_SHOWN:] + after[:_SHOWN]!r}.",
            f'Save it as UTF-8, or name its encoding: "encoding": "{likely}" in the params of its source, '
            f"--option encoding={likely} of tidemill merge.",
        ) from bad


_ENOUGH = 1 << 16  # bytes; a header that is longer is not looked at
_PLAIN = {"utf-8", "utf8", "us-ascii", "iso-8859-1"}
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SEPARATORS = {";": ";", "|": "|", "\t": "\\t"}


@dataclass(frozen=True, slots=True)
class Alike:
    """Files with the same header, as Spark knows them.

    `columns` is what the header says; None where Spark has to read it, which may understand it otherwise.
    """

    paths: tuple[str, ...]
    columns: tuple[str, ...] | None = None


def by_header(listing: Listing, options: Mapping[str, str]) -> list[Alike]:
    """The files by their headers, in the order of their first files; together where all are alike.

    So it is too where headers cannot be read here: Spark then says which file has others.
    """
    together = tuple(listing.for_spark())
    given = CsvOptions.of(options)
    headers = headers_of(listing, given)
    if headers is None:
        return [Alike(together)]
    groups: dict[tuple[str, ...], list[str]] = {}
    for (root, file), header in zip(listing.placed, headers, strict=True):
        if header not in groups:
            _check(header, file.path, given)
        groups.setdefault(header, []).append(root.for_spark(file))
    groups.pop((), None)  # empty files
    if len(groups) > 1:
        return [Alike(tuple(paths), _columns(header, listing)) for header, paths in groups.items()]
    return [Alike(together, _columns(next(iter(groups), ()), listing))]


def _columns(header: tuple[str, ...], listing: Listing) -> tuple[str, ...] | None:
    """A header of plain words means the same to every reader, where folders of partitions (`day=1/`) add no column.

    Spark compares it with that of each file when it reads them.
    """
    is_plain = header and all(map(_PLAIN_NAME.fullmatch, header))
    return header if is_plain and not any("=" in file.path for file in listing.files) else None


def headers_of(listing: Listing, given: CsvOptions) -> list[tuple[str, ...]] | None:
    """The header of each file, in their order; None where they cannot be read here."""
    if not (given.has_header and len(given.separator) == 1 and given.encoding in _PLAIN):
        return None
    try:
        with ThreadPoolExecutor(_AT_A_TIME) as pool:
            return list(pool.map(lambda placed: _header(placed[0], placed[1], given), listing.placed))
    except OSError:  # Spark says what is wrong with a file that cannot be read
        return None


def _header(root: Root, file: fs.FileInfo, given: CsvOptions) -> tuple[str, ...]:
    with root.files.open_input_stream(file.path, compression="detect") as stream:
        text = stream.read(_ENOUGH).decode(given.encoding, errors="replace").removeprefix("\ufeff")
    comment = given.comment
    lines = (line for line in text.splitlines() if line.strip() and not (comment and line.startswith(comment)))
    return tuple(next(csv.reader(lines, delimiter=given.separator, quotechar=given.quote or '"'), ()))


def _check(header: Sequence[str], path: str, given: CsvOptions) -> None:
    if "" in header:
        raise ConnectorError(
            "source.unnamed_column",
            f"{path} has no name for its column {header.index('') + 1} of {len(header)}.",
            "Name it in the header line; a comma at the end of the line makes a column too.",
        )
    names = [name.lower() for name in header]
    twice = [name for place, name in enumerate(header) if name.lower() in names[:place]]
    if twice:
        raise ConnectorError(
            "source.duplicate_columns",
            f"{path} has the column {twice[0]} twice in its header.",
            "Rename one of them there; names are matched without case.",
        )
    sign = next((sign for sign in _SEPARATORS if len(header) == 1 and sign in header[0]), None)
    if sign and not given.names_separator:
        shown = _SEPARATORS[sign]
        raise ConnectorError(
            "source.separator",
            f'{path} has one column, {header[0]!r}: it seems that "{shown}" separates its columns.',
            f'Say so: --option sep="{shown}" of tidemill merge, "sep" in the params of its source; or sep="," if not.',
        )


REMEDY = "Write each object in one line, as jq -c does; a file may also be one object or one array of objects."
_LONG = 1 << 20  # bytes of a line that is treated as a value without a look
_JSON_AT_A_TIME = 1 << 20  # bytes
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
        look_at_files(listing, _document)
        return True
    found = look_at_files(listing, _look_at_json)
    if "multiline" in given or _Shape.DOCUMENT not in found:
        return False
    if _Shape.LINES in found:
        one, other = (listing.files[found.index(shape)].path for shape in (_Shape.DOCUMENT, _Shape.LINES))
        raise _not_lines(f"{one} is one value that goes over its lines, and {other} has a value in each.")
    return True


@lru_cache(KEPT)
def _look_at_json(text: Text) -> _Shape:
    before = 0
    with contextlib.suppress(OSError, UnicodeDecodeError):  # Spark says what is wrong with a file
        for some in _lines(text):
            if not before and not _begins_with_value(some):
                return _document(text)
            _check_json(some, before, text.path)
            before += some.count(b"\n")
    return _Shape.LINES if before > 1 else _Shape.ONE_LINE


def _lines(text: Text) -> Iterator[bytes]:
    """Whole lines, many at a time, each with its end before it."""
    with text.opened() as stream, io.BufferedReader(stream) as reader:
        while lines := reader.readlines(_JSON_AT_A_TIME):
            yield b"\n" + b"".join(lines).rstrip()


def _check_json(lines: bytes, before: int, path: str) -> None:
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
