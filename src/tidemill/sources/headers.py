"""CSV files that do not all have the same columns: those with the same header are read together."""

from __future__ import annotations

import csv
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tidemill.sources.csv_options import CsvOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyarrow import fs

    from tidemill.sources.listing import Listing, Root

_ENOUGH = 1 << 16  # bytes; a header that is longer is not looked at
_AT_A_TIME = 16
_PLAIN = {"utf-8", "utf8", "us-ascii", "iso-8859-1"}


def by_header(listing: Listing, options: Mapping[str, str]) -> list[list[str]]:
    """The files, as Spark knows them, by their headers in the order of their first files; one list where all are alike.

    So it is too where headers cannot be told here: Spark then says which file has others.
    """
    given = CsvOptions.of(options)
    is_told = given.has_header and len(given.separator) == 1 and given.encoding in _PLAIN
    if len(listing.files) < 2 or not is_told:  # noqa: PLR2004
        return [listing.for_spark()]
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        headers = list(pool.map(lambda placed: _header(placed[0], placed[1], given), listing.placed))
    groups: dict[tuple[str, ...], list[str]] = {}
    for (root, file), header in zip(listing.placed, headers, strict=True):
        groups.setdefault(header, []).append(root.for_spark(file))
    groups.pop((), None)  # empty files
    return [*groups.values()] if len(groups) > 1 else [listing.for_spark()]


def _header(root: Root, file: fs.FileInfo, given: CsvOptions) -> tuple[str, ...]:
    with root.files.open_input_stream(file.path, compression="detect") as stream:
        text = stream.read(_ENOUGH).decode(given.encoding, errors="replace").removeprefix("\ufeff")
    comment = given.comment
    lines = (line for line in text.splitlines() if line.strip() and not (comment and line.startswith(comment)))
    return tuple(next(csv.reader(lines, delimiter=given.separator, quotechar=given.quote or '"'), ()))
