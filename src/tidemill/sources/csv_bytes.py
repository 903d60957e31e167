"""CSV files as bytes: what has to be known of them before Spark reads them line by line."""

from __future__ import annotations

import codecs
import contextlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from tidemill.errors import ConnectorError
from tidemill.sources.csv_options import CsvOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyarrow import fs

    from tidemill.sources.listing import Listing

_BLOCK = 1 << 20  # bytes
_AT_A_TIME = 16
_KEPT = 20_000
_SHOWN = 20  # bytes on either side of one that is wrong


def lines_are_records(listing: Listing, options: Mapping[str, str]) -> bool:
    """Whether every line is a record; a text in quotes may go on in the next, where Spark would begin another row.

    Bytes that are no UTF-8, unless the options name another encoding, are an error: Spark would put � in their place.
    """
    given = CsvOptions.of(options)
    quote, is_utf8 = given.quote.encode(), given.encoding in {"utf-8", "utf8"}
    texts = [_Text(root.scheme, file.path, file.size, file.mtime_ns, root.files) for root, file in listing.placed]
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        looks = pool.map(lambda text: _look(text, quote, is_utf8), texts)
        return all(looks) or given.names_lines


@dataclass(frozen=True, slots=True)
class _Text:
    """A file, which is the same one as long as its size and time are."""

    scheme: str
    path: str
    size: int
    mtime: int
    files: fs.FileSystem = field(compare=False)

    def blocks(self) -> Iterator[bytes]:
        with self.files.open_input_stream(self.path, compression="detect") as stream:
            while block := stream.read(_BLOCK):
                yield block


@lru_cache(_KEPT)  # a step reads its source several times
def _look(text: _Text, quote: bytes, is_utf8: bool) -> bool:
    decoder, lines = codecs.getincrementaldecoder("utf-8")(), _Lines(quote)
    with contextlib.suppress(OSError):  # Spark says what is wrong with a file that cannot be read
        for block in text.blocks():
            lines.take(block)
            if is_utf8:
                _decode(decoder, block, text.path)
        if is_utf8:
            _decode(decoder, b"", text.path)
    return lines.are_records


class _Lines:
    """A quote that is open at the end of a line closes in another one."""

    def __init__(self, quote: bytes) -> None:
        self.quote, self.are_records, self._open = quote, True, False

    def take(self, block: bytes) -> None:
        if not self.quote or not self.are_records or not (self._open or self.quote in block):
            return
        first, *more = block.replace(b"\r", b"\n").split(b"\n")
        self._open ^= self._odd(first)
        if more:
            self.are_records = not self._open and not any(map(self._odd, more[:-1]))
            self._open = self._odd(more[-1])

    def _odd(self, line: bytes) -> bool:
        return line.count(self.quote) % 2 == 1


def _decode(decoder: codecs.IncrementalDecoder, block: bytes, path: str) -> None:
    try:
        decoder.decode(block, final=not block)
    except UnicodeDecodeError as bad:
        before, after = bad.object[: bad.start].rpartition(b"\n")[2], bad.object[bad.start :].partition(b"\n")[0]
        raise ConnectorError(
            "source.not_utf8",
            f"{path} is no UTF-8 text: it holds {before[-_SHOWN:] + after[:_SHOWN]!r}.",
            'Save it as UTF-8, or name its encoding: "encoding": "ISO-8859-1" in the params of its source, '
            "--option encoding=ISO-8859-1 of tidemill merge.",
        ) from bad
