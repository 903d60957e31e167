"""CSV files as bytes: what has to be known of them before Spark reads them line by line."""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from tidemill.errors import ConnectorError
from tidemill.sources.files.contents import KEPT, Text, looks
from tidemill.sources.files.csv_options import CsvOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidemill.sources.files.listing import Listing

_SHOWN = 20  # bytes on either side of one that is wrong
_WIDE = ("utf-16", "utf16", "utf-32", "utf32")  # encodings in which Spark does not find the ends of lines
_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# 00123, +49123, 10d, or more digits than a double has: Spark reads them as numbers, and they may be none. They are
# several, because Python is fast where an expression begins with a sign.
_CODES = (re.compile(rb"0(?<![\w.:/+-]0)[0-9](?!:)"), re.compile(rb"\+(?<!\w\+)[0-9]"))
_ALIKE = bytes.maketrans(b"123456789DfF", b"000000000ddd")
_CODES_ALIKE = (b"0" * 16, b"0d", b"0.d")
_LONGEST = 20  # bytes of them


def lines_are_records(listing: Listing, options: Mapping[str, str]) -> bool:
    """Whether every line is a record; a text in quotes may go on in the next, where Spark would begin another row.

    Bytes that are no UTF-8, unless the options name another encoding, are an error: Spark would put � in their place.
    So is a quote that never closes: all lines after it would be one text.
    """
    given = CsvOptions.of(options)
    are_records = all(looks(listing, lambda text: _look(text, given)))
    return given.names_lines or (are_records and not given.encoding.startswith(_WIDE))


def may_hold_codes(listing: Listing, options: Mapping[str, str]) -> bool:
    """Whether there may be digits that are no number; where not, it is sure."""
    return CsvOptions.of(options).encoding.startswith(_WIDE) or any(looks(listing, _has_codes))


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


def _has_codes(text: Text) -> bool:
    before = b""
    with contextlib.suppress(OSError):
        for block in text.blocks():
            some = before + block  # one may lie in two blocks
            alike = some.translate(_ALIKE)
            if any(code in alike for code in _CODES_ALIKE) or any(
                code.search(some, len(before[:1])) for code in _CODES
            ):
                return True
            before = block[-_LONGEST:]
    return False


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
