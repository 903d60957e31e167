"""Files that are there and files that are new: how they were written, and rows written like them."""

from __future__ import annotations

import os
import uuid
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.formats.parquet.worker.arrow import (
    USUAL,
    codec_of,
    fitted,
    has_room,
    only_int96,
    optional,
    refuse_old_days,
    with_times,
    without_notes,
    workable,
)

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


UNREADABLE = " cannot be read: "
_WORTH = 0.7


class Original:
    """A file that is there, with its columns as its successor will have them. The row group read last is kept."""

    def __init__(self, path: str, shape: Shape) -> None:
        self.path = path
        with _naming(path):
            self.file = pq.ParquetFile(path, coerce_int96_timestamp_unit="us")
        own = not shape.exact and _all_have_room(self.file.schema_arrow, shape.schema)
        schema, self.old_times = _own_columns(self.file) if own else (shape.schema, shape.int96)
        self.schema = without_notes(optional(workable(schema)))
        self._last: tuple[int, pa.Table] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def group(self, number: int) -> pa.Table:
        """All columns of a row group."""
        if self._last is None or self._last[0] != number:
            self._last = None  # so that there are never two in memory
            rows = self.read(number)
            refuse_old_days(rows, self.file.schema_arrow.metadata, self.path)
            self._last = number, fitted(rows, self.schema)
        return self._last[1]

    def read(self, number: int, columns: list[str] | None = None) -> pa.Table:
        """Some columns of a row group, as they are."""
        with _naming(self.path):
            return self.file.read_row_group(number, columns, use_threads=False)

    def successor(self, shape: Shape) -> Output:
        """A new file that is written as this one was."""
        codec = shape.compression or codec_of(self.file.metadata)
        dictionaries = _worth_a_dictionary(self.file, self.group(0))
        return Output(shape, self.schema, codec, int96=self.old_times, dictionaries=dictionaries)


def local_path(address: str) -> str:
    """The path of a file whose address Spark tells: escaped, with a scheme."""
    bare = address.removeprefix("file:")
    path = "/" + bare.lstrip("/")
    decoded = unquote(path)
    return decoded if os.path.exists(decoded) else path  # noqa: PTH110


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """An error of Arrow's about a file names it; one that has gone is reported as it is."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as failure:
        raise OSError(f"{path}{UNREADABLE}{failure}") from failure


def _worth_a_dictionary(file: pq.ParquetFile, held: pa.Table) -> list[str] | bool:
    """The columns that a file holds in less space than plain values take; for others, trying costs half of the writing.

    `held` are the rows of its first row group.
    """
    group = file.metadata.row_group(0)
    sizes = {group.column(n).path_in_schema: group.column(n).total_uncompressed_size for n in range(group.num_columns)}
    flat = [name for name in held.column_names if name in sizes]
    nested = [path for path in sizes if path not in flat]
    return [*nested, *(name for name in flat if sizes[name] < _WORTH * _plain_size(held.column(name)))]


def _plain_size(column: pa.ChunkedArray) -> int:
    return max(int(column.nbytes), 1)


def _all_have_room(schema: pa.Schema, wanted: pa.Schema) -> bool:
    kinds = {field.name.lower(): field.type for field in schema}
    return all(item.name.lower() in kinds and has_room(kinds[item.name.lower()], item.type) for item in wanted)


def _own_columns(file: pq.ParquetFile) -> tuple[pa.Schema, bool]:
    """The columns of a file as they are written again, and whether its times are INT96 then."""
    columns = (file.schema.column(number) for number in range(len(file.schema)))
    int96 = {column.path.partition(".")[0] for column in columns if column.physical_type == "INT96"}
    schema = file.metadata.schema.to_arrow_schema()
    old = bool(int96) and only_int96(schema, int96)
    return with_times(schema, int96, old=old), old


_FILE_BYTES = 256 * 1024 * 1024
_NULL = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = frozenset("\"#%'*/:=?\\{[]^") | {chr(code) for code in (*range(0x20), 0x7F)}  # as Spark and Hive do


def write_rows(
    batches: Iterable[pa.RecordBatch],
    shape: Shape,
    partitions: dict[str, str],
    folders: dict[tuple[str | None, ...], str],
) -> Iterator[pa.RecordBatch]:
    """Writes rows to new files, one or more for each partition. Rows of one partition come one after the other.

    `partitions` are the columns that hold its values as text, and what they are called; they are not written.
    `folders` are those that there are already.
    """
    yield from reports(_written(batches, shape, partitions, folders))


def _written(
    batches: Iterable[pa.RecordBatch],
    shape: Shape,
    partitions: dict[str, str],
    folders: dict[tuple[str | None, ...], str],
) -> Iterator[Written]:
    place: tuple[str | None, ...] = ()
    output, folder = None, ""
    for batch in batches:
        for values, rows in by_value(pa.Table.from_batches([batch]), list(partitions)):
            if output is not None and (values != place or output.size >= _FILE_BYTES):
                output.close()
                yield Written(output, folder)
                output = None
            if output is None:
                folder = _folder(values, partitions, folders)
                output, place = (
                    Output(shape, shape.schema, shape.compression or shape.theirs, int96=shape.int96),
                    values,
                )
            output.add(fitted(rows, shape.schema))
    if output is not None:
        output.close()
        yield Written(output, folder)


def by_value(rows: pa.Table, columns: list[str]) -> Iterator[tuple[tuple[str | None, ...], pa.Table]]:
    """The rows of each partition, in the order in which they stand."""
    if not columns:
        yield (), rows
        return
    values = list(zip(*(rows.column(name).to_pylist() for name in columns), strict=True))
    begins = [place for place, value in enumerate(values) if place == 0 or value != values[place - 1]]
    for begin, end in zip(begins, [*begins[1:], len(values)], strict=True):
        yield values[begin], rows.slice(begin, end - begin).drop_columns(columns)


def _folder(
    values: tuple[str | None, ...], partitions: dict[str, str], folders: dict[tuple[str | None, ...], str]
) -> str:
    """The folder of a partition: the one that is there, or as Spark and Hive name it; with a slash at its end."""
    if values in folders:
        return folders[values]
    names = partitions.values()
    return "".join(f"{_escaped(name)}={_named(value)}/" for name, value in zip(names, values, strict=True))


def _named(value: str | None) -> str:
    if value == "":
        raise ValueError("an empty text cannot be the name of a partition's folder")
    return _NULL if value is None else _escaped(value)


def _escaped(text: str) -> str:
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in text)
