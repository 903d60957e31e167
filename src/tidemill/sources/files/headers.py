"""The headers of CSV files: what is wrong with one, and which files have the same, so that they are read together."""

from __future__ import annotations

import csv
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.errors import ConnectorError
from tidemill.sources.files.csv_options import CsvOptions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyarrow import fs

    from tidemill.sources.files.listing import Listing, Root

_ENOUGH = 1 << 16  # bytes; a header that is longer is not looked at
_AT_A_TIME = 16
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
    if not (given.has_header and len(given.separator) == 1 and given.encoding in _PLAIN):
        return [Alike(together)]
    try:
        with ThreadPoolExecutor(_AT_A_TIME) as pool:
            headers = list(pool.map(lambda placed: _header(placed[0], placed[1], given), listing.placed))
    except OSError:  # Spark says what is wrong with a file that cannot be read
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
