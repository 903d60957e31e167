"""Deletion vectors: the marks of rows of a file that are deleted, as Delta's protocol writes them down.

Marks are Roaring bitmaps. Here they are chunks of 65,536 rows, each a whole number with a bit for each row.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Marks = Mapping[int, int]  # by the number of the chunk

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_UUID = 20  # characters of Z85
_MAGIC = 1681511377
_PLAIN, _WITH_RUNS = 12346, 12347  # how a bitmap begins
_CHUNK = 1 << 16
_MOST_LISTED = 4096  # rows of a chunk that are listed; more are bits
_MOST_WITHOUT_OFFSETS = 3  # chunks, of a bitmap with runs
_FIRST = 1  # a file begins with its version


class UnknownMarks(Exception):  # noqa: N818  who meets them compares the rows themselves
    """They are written in another way."""


def file_of_marks(said: Mapping[str, Any] | None) -> str | None:
    """The file that holds them, below the table's folder or absolute; None where the log itself does."""
    if said is None or said["storageType"] == "i":
        return None
    named = str(said["pathOrInlineDv"])
    if said["storageType"] == "p":
        return named
    folder, name = named[:-_UUID], uuid.UUID(bytes=_from_z85(named[-_UUID:]))
    return f"{folder}/deletion_vector_{name}.bin" if folder else f"deletion_vector_{name}.bin"


def marks_of(said: Mapping[str, Any] | None, content: bytes | None) -> Marks:
    """The marks that the log says so; `content` is that of their file."""
    if said is None:
        return {}
    if content is None:
        return _bitmaps(_from_z85(said["pathOrInlineDv"])[: said["sizeInBytes"]])
    begin = said.get("offset") or 0
    (size,) = struct.unpack_from(">i", content, begin)
    return _bitmaps(content[begin + 4 : begin + 4 + size])


def without(marks: Marks, others: Marks) -> Marks:
    """Those that are not among the others."""
    left = {chunk: bits & ~others.get(chunk, 0) for chunk, bits in marks.items()}
    return {chunk: bits for chunk, bits in left.items() if bits}


def all_but(marks: Marks, rows: int) -> Marks:
    """All rows of a file of so many but these."""
    found = {}
    for chunk in range(-(-rows // _CHUNK)):
        whole = (1 << min(_CHUNK, rows - chunk * _CHUNK)) - 1
        found[chunk] = whole & ~marks.get(chunk, 0)
    return {chunk: bits for chunk, bits in found.items() if bits}


def count(marks: Marks) -> int:
    return sum(bits.bit_count() for bits in marks.values())


def file_with(vectors: Sequence[Marks]) -> tuple[bytes, list[dict[str, int]]]:
    """The content of a file with these, and where in it each is, as a log says that."""
    written = [_written(marks) for marks in vectors]
    framed = [struct.pack(">i", len(each)) + each + struct.pack(">I", zlib.crc32(each)) for each in written]
    places = accumulate(map(len, framed), initial=_FIRST)
    said = [
        {"offset": place, "sizeInBytes": len(each), "cardinality": count(marks)}
        for place, each, marks in zip(places, written, vectors, strict=False)
    ]
    return b"\x01" + b"".join(framed), said


def _from_z85(text: str) -> bytes:
    """Five characters are four bytes."""
    words = (text[at : at + 5] for at in range(0, len(text), 5))
    return b"".join(_word(word).to_bytes(4, "big") for word in words)


def _word(text: str) -> int:
    value = 0
    for sign in text:
        value = value * len(_Z85) + _Z85.index(sign)
    return value


def _bitmaps(data: bytes) -> Marks:
    """One for each 2^32 rows."""
    magic, number = struct.unpack_from("<iq", data)
    if magic != _MAGIC:
        raise UnknownMarks
    found: dict[int, int] = {}
    at = 12
    for _ in range(number):
        (high,) = struct.unpack_from("<i", data, at)
        at += 4
        for chunk, bits, at in _chunks(data, at):  # noqa: B007, B020  the last tells where the bitmap ends
            found[high << 16 | chunk] = bits
    return found


def _chunks(data: bytes, at: int) -> Iterator[tuple[int, int, int]]:
    """Its chunks, each with its bits and with where it ends."""
    (cookie,) = struct.unpack_from("<I", data, at)
    at += 4
    runs = 0
    if cookie & 0xFFFF == _WITH_RUNS:
        number = (cookie >> 16) + 1
        size = -(-number // 8)
        runs = int.from_bytes(data[at : at + size], "little")
        at += size
    elif cookie == _PLAIN:
        (number,) = struct.unpack_from("<I", data, at)
        at += 4
    else:
        raise UnknownMarks
    heads = struct.unpack_from(f"<{2 * number}H", data, at)
    at += 4 * number
    if cookie == _PLAIN or number > _MOST_WITHOUT_OFFSETS:
        at += 4 * number
    for place, (chunk, less) in enumerate(zip(heads[::2], heads[1::2], strict=True)):
        bits, at = _run_bits(data, at) if runs >> place & 1 else _listed_bits(data, at, less + 1)
        yield chunk, bits, at


def _run_bits(data: bytes, at: int) -> tuple[int, int]:
    (number,) = struct.unpack_from("<H", data, at)
    pairs = struct.unpack_from(f"<{2 * number}H", data, at + 2)
    bits = 0
    for first, more in zip(pairs[::2], pairs[1::2], strict=True):
        bits |= ((2 << more) - 1) << first
    return bits, at + 2 + 4 * number


def _listed_bits(data: bytes, at: int, number: int) -> tuple[int, int]:
    if number > _MOST_LISTED:
        return int.from_bytes(data[at : at + _CHUNK // 8], "little"), at + _CHUNK // 8
    found = bytearray(_CHUNK // 8)
    for row in struct.unpack_from(f"<{number}H", data, at):
        found[row >> 3] |= 1 << (row & 7)
    return int.from_bytes(found, "little"), at + 2 * number


def _written(marks: Marks) -> bytes:
    bitmaps: dict[int, dict[int, int]] = {}
    for chunk in sorted(marks):
        bitmaps.setdefault(chunk >> 16, {})[chunk & 0xFFFF] = marks[chunk]
    parts = [struct.pack("<iq", _MAGIC, len(bitmaps))]
    for high, chunks in bitmaps.items():
        bodies = [_body(bits) for bits in chunks.values()]
        parts += [struct.pack("<iII", high, _PLAIN, len(chunks))]
        parts += [struct.pack("<HH", chunk, bits.bit_count() - 1) for chunk, bits in chunks.items()]
        begin = 8 + 8 * len(chunks)
        places = accumulate(map(len, bodies[:-1]), initial=begin)
        parts += [struct.pack("<I", place) for place in places]
        parts += bodies
    return b"".join(parts)


def _body(bits: int) -> bytes:
    if bits.bit_count() > _MOST_LISTED:
        return bits.to_bytes(_CHUNK // 8, "little")
    rows = [
        8 * place + bit
        for place, byte in enumerate(bits.to_bytes(_CHUNK // 8, "little"))
        if byte
        for bit in range(8)
        if byte >> bit & 1
    ]
    return struct.pack(f"<{len(rows)}H", *rows)
