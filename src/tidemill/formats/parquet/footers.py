"""The footers of Parquet files: how many rows, of which types, and which values their row groups can hold."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.formats.parquet.files import unread, values_of
from tidemill.formats.parquet.worker.arrow import codec_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from tidemill.formats.parquet.folder import DataFile

_READERS = 8
_KEPT = 20_000
Span = tuple[Any, Any]
_READ: dict[type, Callable[[str], Any]] = {int: int, str: str, date: date.fromisoformat}


@dataclass(frozen=True, slots=True)
class Footer:
    """What a file says of itself. `spans` has the lowest and highest value of each column, by row group.

    A row group that does not tell has None; a column is known by its name in lower case.
    """

    rows: int
    schema: pa.Schema
    int96: frozenset[str]
    spans: dict[str, tuple[Span | None, ...]]
    codec: str


def footers(root: Path, files: Sequence[DataFile]) -> list[Footer]:
    """The footers of files, in their order; one that is no Parquet file is an error."""
    with ThreadPoolExecutor(_READERS) as readers:
        return list(readers.map(lambda file: _footer(str(root), file), files))


@lru_cache(_KEPT)
def _footer(root: str, file: DataFile) -> Footer:
    path = f"{root}/{file.path}"
    try:
        found = pq.read_metadata(path)
        schema = found.schema.to_arrow_schema()
        return Footer(found.num_rows, schema, _int96(found), _spans(found), codec_of(found))
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as failure:
        raise unread(root, path, failure) from failure


def _int96(found: pq.FileMetaData) -> frozenset[str]:
    columns = (found.schema.column(number) for number in range(found.num_columns))
    return frozenset(column.path.partition(".")[0] for column in columns if column.physical_type == "INT96")


def _spans(found: pq.FileMetaData) -> dict[str, tuple[Span | None, ...]]:
    flat = [
        number for number in range(found.num_columns) if "." not in found.schema.column(number).path.replace("\\.", "")
    ]
    groups = [found.row_group(number) for number in range(found.num_row_groups)]
    return {found.schema.column(n).path.lower(): tuple(_span(group, n) for group in groups) for n in flat}


def _span(group: pq.RowGroupMetaData, number: int) -> Span | None:
    statistics = group.column(number).statistics
    if statistics is None or not statistics.has_min_max:
        return None
    try:
        return statistics.min, statistics.max
    except (pa.ArrowException, ValueError, OverflowError):  # a type, or a value, that Arrow's statistics do not know
        return None


def holding(root: Path, files: Iterable[DataFile], wanted: Mapping[str, Sequence[Span]]) -> list[DataFile]:
    """The files that may hold a row with a value in one of the spans of each column.

    `wanted` knows columns by their names in lower case. A file that does not tell may hold anything. Of one in a folder
    of another value not even the footer is read.
    """
    files = [file for file in files if _may_lie_in(file, wanted)]
    found = footers(root, files)
    return [file for file, footer in zip(files, found, strict=True) if _may_hold(file, footer, wanted)]


def _may_lie_in(file: DataFile, wanted: Mapping[str, Sequence[Span]]) -> bool:
    values = {name.lower(): text for name, text in values_of(file.path).items()}
    return all(_may_be(values[name], spans) for name, spans in wanted.items() if name in values)


def _may_be(text: str | None, wanted: Sequence[Span]) -> bool:
    """Whether a partition's text may stand for a value that is looked for, which is never NULL."""
    read = _READ.get(type(wanted[0][0]))
    if text is None or read is None:
        return text is not None
    try:
        value = read(text)
    except ValueError:
        return True
    return _meets((value, value), wanted)


def _may_hold(file: DataFile, footer: Footer, wanted: Mapping[str, Sequence[Span]]) -> bool:
    """A row lies in one row group, so all columns have to be possible in the same one."""
    inside = {name.lower() for name in values_of(file.path)}
    known = {name: footer.spans[name] for name in wanted if name in footer.spans and name not in inside}
    if not known:
        return True
    return any(
        all(_meets(spans, wanted[name]) for name, spans in zip(known, group, strict=True))
        for group in zip(*known.values(), strict=True)
    )


def _meets(held: Span | None, wanted: Sequence[Span]) -> bool:
    if held is None:
        return True
    try:
        return any(held[0] <= high and held[1] >= low for low, high in wanted)
    except TypeError:  # statistics of another type tell nothing
        return True
