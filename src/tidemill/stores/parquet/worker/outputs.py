"""New files in the staging folder, and the reports of them."""

from __future__ import annotations

import os
import uuid
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.dataset.codecs import USUAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from concurrent.futures import Future
    from typing import Protocol

    class Reported(Protocol):
        """Something that was done to files, and can be reported."""

        def report(self) -> pa.RecordBatch: ...


WRITTEN = (
    "staged string, folder string, instead_of string, rows long, size long, mtime long, replaced long, moved long, "
    "dropped long"
)
_ROW_GROUP = 131_072
_ROW_GROUP_BYTES = 64 * 1024 * 1024
_ON_THE_WAY = 4


@dataclass(frozen=True)
class Shape:
    """How files are written: Arrow's columns, compression (None: as the file had it), and whether times are INT96.

    `theirs` is the compression of the files that are there, which new ones take where none is asked for.

    `exact` when a rewritten file gets these very columns; else it keeps its own, as long as they have room for these.
    """

    staging: str
    schema: pa.Schema
    compression: str | None = None
    int96: bool = False
    exact: bool = False
    theirs: str = USUAL


class Output:
    """One new file in the staging folder; its rows are written in groups of a fair size."""

    def __init__(
        self, shape: Shape, schema: pa.Schema, compression: str, *, int96: bool, dictionaries: bool | list[str] = True
    ) -> None:
        self.name = uuid.uuid4().hex  # without an ending: some readers look for *.parquet in all folders
        self.path = f"{shape.staging}/{self.name}"
        self.rows = 0
        self._file = pa.OSFile(self.path, "wb")
        self._writer = pq.ParquetWriter(
            self._file,
            schema,
            compression=compression,
            use_deprecated_int96_timestamps=int96,
            use_dictionary=dictionaries,
        )
        self._waiting: list[pa.Table] = []

    def add(self, rows: pa.Table) -> None:
        self._waiting.append(rows)
        self.rows += rows.num_rows
        if sum(each.num_rows for each in self._waiting) >= _ROW_GROUP or (
            sum(each.nbytes for each in self._waiting) >= _ROW_GROUP_BYTES
        ):
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            rows = pa.concat_tables(self._waiting)
            if rows.num_rows:
                self._writer.write_table(rows, row_group_size=rows.num_rows)
            self._waiting = []

    @property
    def size(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        self.flush()
        self._writer.close()
        self._file.close()

    def settle(self) -> tuple[int, int]:
        """Its size and time, once it is on disk."""
        _to_disk(self.path)
        found = os.stat(self.path)  # noqa: PTH116
        return found.st_size, found.st_mtime_ns


@dataclass(frozen=True)
class Written:
    """A file that is closed, or None where no row was left; and what that did to the rows of the one it replaces."""

    output: Output | None
    folder: str | None = None
    instead_of: str | None = None
    replaced: int = 0
    moved: int = 0
    dropped: int = 0

    def report(self) -> pa.RecordBatch:
        """One row of WRITTEN, once the file is on disk."""
        size, mtime = self.output.settle() if self.output else (0, 0)
        values = {
            "staged": (self.output.name if self.output else None, pa.string()),
            "folder": (self.folder, pa.string()),
            "instead_of": (self.instead_of, pa.string()),
            "rows": (self.output.rows if self.output else 0, pa.int64()),
            "size": (size, pa.int64()),
            "mtime": (mtime, pa.int64()),
            "replaced": (self.replaced, pa.int64()),
            "moved": (self.moved, pa.int64()),
            "dropped": (self.dropped, pa.int64()),
        }
        return pa.record_batch({name: pa.array([value], kind) for name, (value, kind) in values.items()})


def reports(files: Iterable[Reported]) -> Iterator[pa.RecordBatch]:
    """The report of each file. While some are on their way to the disk, the next is written."""
    with ThreadPoolExecutor(_ON_THE_WAY) as disk:
        waiting: deque[Future[pa.RecordBatch]] = deque()
        for file in files:
            waiting.append(disk.submit(file.report))
            if len(waiting) > _ON_THE_WAY:
                yield waiting.popleft().result()
        for report in waiting:
            yield report.result()


def _to_disk(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
