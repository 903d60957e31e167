"""What Spark's workers do: write rows to new files, and rewrite a file with some of its rows replaced or gone.

Sent to them by value, and so is all that it imports of Tidemill's. Every call writes to a name of its own: one that is
repeated, or that outlives its run, writes a file that nobody names.
"""

from __future__ import annotations

import os
import uuid
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.dataset.fitting import fitted, has_room, optional

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from concurrent.futures import Future
    from typing import Protocol

    class Told(Protocol):
        """Something that was done to files, and can be told of."""

        def report(self) -> pa.RecordBatch: ...


FILE, ROW, FATE = "__tidemill_file", "__tidemill_row", "__tidemill_fate"
UNREADABLE = " cannot be read: "
REPLACE, MOVE, DROP, STAY = "replace", "move", "drop", "stay"
WRITTEN = (
    "staged string, folder string, instead_of string, rows long, size long, mtime long, replaced long, moved long, "
    "dropped long"
)
_ROW_GROUP = 131_072
_ROW_GROUP_BYTES = 64 * 1024 * 1024
_FILE_BYTES = 256 * 1024 * 1024
_MANY_RUNS = 1000
_ON_THE_WAY = 4
_WORTH = 0.7
_NULL = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = frozenset("\"#%'*/:=?\\{[]^") | {chr(code) for code in (*range(0x20), 0x7F)}  # as Spark and Hive do


@dataclass(frozen=True)
class Shape:
    """How files are written: Arrow's columns, compression (None: as the file had it), and whether times are INT96.

    `exact` when a rewritten file gets these very columns; else it keeps its own, as long as they have room for these.
    """

    staging: str
    schema: pa.Schema
    compression: str | None = None
    int96: bool = False
    exact: bool = False


class Output:
    """One new file in the staging folder; its rows are written in groups of a fair size."""

    def __init__(
        self, shape: Shape, schema: pa.Schema, compression: str, *, int96: bool, dictionaries: bool | list[str] = True
    ) -> None:
        self.name = f"{uuid.uuid4().hex}.parquet"
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


def splice(batches: Iterable[pa.RecordBatch], shape: Shape) -> Iterator[pa.RecordBatch]:
    """Rewrites each file that the actions name: rows at some places are replaced, or go. All else stays as it is.

    Actions on one file come one after the other. Reads and writes one row group at a time. A file that has no rows left
    is not written.
    """
    yield from reports(_rewritten(file, actions, shape) for file, actions in _by_file(batches))


def reports(files: Iterable[Told]) -> Iterator[pa.RecordBatch]:
    """What is told of each file. While some are on their way to the disk, the next is written."""
    with ThreadPoolExecutor(_ON_THE_WAY) as disk:
        waiting: deque[Future[pa.RecordBatch]] = deque()
        for file in files:
            waiting.append(disk.submit(file.report))
            if len(waiting) > _ON_THE_WAY:
                yield waiting.popleft().result()
        for told in waiting:
            yield told.result()


def _written(
    batches: Iterable[pa.RecordBatch],
    shape: Shape,
    partitions: dict[str, str],
    folders: dict[tuple[str | None, ...], str],
) -> Iterator[Written]:
    place: tuple[str | None, ...] = ()
    output, folder = None, ""
    for batch in batches:
        for values, rows in _by_partition(pa.Table.from_batches([batch]), list(partitions)):
            if output is not None and (values != place or output.size >= _FILE_BYTES):
                output.close()
                yield Written(output, folder)
                output = None
            if output is None:
                folder = _folder(values, partitions, folders)
                output, place = Output(shape, shape.schema, shape.compression or "snappy", int96=shape.int96), values
            output.add(fitted(rows, shape.schema))
    if output is not None:
        output.close()
        yield Written(output, folder)


def _by_file(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.Table]]:
    file: str | None = None
    waiting: list[pa.Table] = []
    for batch in batches:
        for (name,), actions in _by_partition(pa.Table.from_batches([batch]), [FILE]):
            if name != file and waiting:
                yield str(file), pa.concat_tables(waiting)
                waiting = []
            file = name
            waiting.append(actions)
    if waiting:
        yield str(file), pa.concat_tables(waiting)


class Source:
    """A file that is there, with its columns as its successor will have them. The row group read last is kept."""

    def __init__(self, path: str, shape: Shape) -> None:
        self.path = path
        with _naming(path):
            self.file = pq.ParquetFile(path, coerce_int96_timestamp_unit="us")
        own = not shape.exact and _all_have_room(self.file.schema_arrow, shape.schema)
        schema = optional(self.file.schema_arrow if own else shape.schema)
        self.old_times = _all_int96(self.file) if own else shape.int96
        self.schema = schema if self.old_times else _without_int96(schema, self.file)
        self._last: tuple[int, pa.Table] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def group(self, number: int) -> pa.Table:
        """All columns of a row group."""
        if self._last is None or self._last[0] != number:
            self._last = None  # so that there are never two in memory
            self._last = number, fitted(self.read(number), self.schema)
        return self._last[1]

    def read(self, number: int, columns: list[str] | None = None) -> pa.Table:
        """Some columns of a row group, as they are."""
        with _naming(self.path):
            return self.file.read_row_group(number, columns, use_threads=False)

    def successor(self, shape: Shape) -> Output:
        """A new file that is written as this one was."""
        codec = shape.compression or _codecs(self.file)
        dictionaries = _worth_a_dictionary(self.file, self.group(0))
        return Output(shape, self.schema, codec, int96=self.old_times, dictionaries=dictionaries)


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """An error of Arrow's about a file names it; one that has gone is told as it is."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as failure:
        raise OSError(f"{path}{UNREADABLE}{failure}") from failure


def rewrite(source: Source, actions: pa.Table, shape: Shape) -> Written:
    """The file with the actions done to it."""
    actions = actions.sort_by(ROW)
    places = actions.column(ROW).to_numpy()
    fates = np.array(actions.column(FATE).to_pylist(), dtype=object)
    new = fitted(actions.filter(pa.array(fates == REPLACE)), source.schema)
    output, start, used = None, 0, 0
    for group in range(source.file.num_row_groups):
        held = source.group(group)
        low, high = np.searchsorted(places, (start, start + held.num_rows))
        coming = int((fates[low:high] == REPLACE).sum())
        rows = _spliced(held, places[low:high] - start, fates[low:high], new.slice(used, coming))
        start, used = start + held.num_rows, used + coming
        if rows.num_rows:
            output = output or source.successor(shape)
            output.add(rows)
            output.flush()
    if output is not None:
        output.close()
    moved, dropped = (int((fates == fate).sum()) for fate in (MOVE, DROP))
    return Written(output, None, source.path, used, moved, dropped)


def _rewritten(file: str, actions: pa.Table, shape: Shape) -> Written:
    with Source(local_path(file), shape) as source:
        return rewrite(source, actions, shape)


def _spliced(held: pa.Table, places: np.ndarray, fates: np.ndarray, new: pa.Table) -> pa.Table:
    """One row group with what is new in its places, and without what goes."""
    touched = fates != STAY
    places, fates = places[touched], fates[touched]
    if not len(places):
        return held
    both = pa.concat_tables([held, new])
    order = np.arange(held.num_rows)
    replaced = fates == REPLACE
    order[places[replaced]] = held.num_rows + np.arange(int(replaced.sum()))
    order = np.delete(order, places[~replaced])
    ends = np.flatnonzero(np.diff(order) != 1) + 1
    if len(ends) > _MANY_RUNS:
        return both.take(pa.array(order))
    runs = np.split(order, ends)  # pieces of the old and the new rows, none of them copied
    return pa.concat_tables([both.slice(int(run[0]), len(run)) for run in runs if len(run)] or [both.slice(0, 0)])


def _by_partition(rows: pa.Table, columns: list[str]) -> Iterator[tuple[tuple[str | None, ...], pa.Table]]:
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


def _to_disk(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def local_path(address: str) -> str:
    """The path of a file whose address Spark tells: escaped, with a scheme."""
    bare = address.removeprefix("file:")
    path = "/" + bare.lstrip("/")
    decoded = unquote(path)
    return decoded if os.path.exists(decoded) else path  # noqa: PTH110


def _worth_a_dictionary(source: pq.ParquetFile, held: pa.Table) -> list[str] | bool:
    """The columns that a file holds in less space than plain values take; for others, trying costs half of the writing.

    `held` are the rows of its first row group.
    """
    group = source.metadata.row_group(0)
    sizes = {group.column(n).path_in_schema: group.column(n).total_uncompressed_size for n in range(group.num_columns)}
    flat = [name for name in held.column_names if name in sizes]
    nested = [path for path in sizes if path not in flat]
    return [*nested, *(name for name in flat if sizes[name] < _WORTH * _plain_size(held.column(name)))]


def _plain_size(column: pa.ChunkedArray) -> int:
    return max(int(column.nbytes), 1)


def _codecs(source: pq.ParquetFile) -> str:
    """The compression that a file has, which its successor keeps."""
    if source.num_row_groups == 0 or source.metadata.num_columns == 0:
        return "snappy"
    group = source.metadata.row_group(0)
    found = {group.column(number).compression.lower() for number in range(group.num_columns)}
    kept = next(iter(found - {"uncompressed"}), "none")
    return {"lzo": "snappy", "lz4_raw": "lz4"}.get(kept, str(kept))


def _all_have_room(schema: pa.Schema, wanted: pa.Schema) -> bool:
    kinds = {field.name.lower(): field.type for field in schema}
    return all(item.name.lower() in kinds and has_room(kinds[item.name.lower()], item.type) for item in wanted)


def _times(schema: pa.Schema) -> list[str]:
    return [field.name for field in schema if pa.types.is_timestamp(field.type)]


def _int96_columns(source: pq.ParquetFile) -> set[str]:
    columns = (source.schema.column(number) for number in range(len(source.schema)))
    return {column.path.partition(".")[0] for column in columns if column.physical_type == "INT96"}


def _all_int96(source: pq.ParquetFile) -> bool:
    """Whether all its times are INT96, so that they can be written as they were."""
    old = _int96_columns(source)
    return bool(old) and set(_times(source.schema_arrow)) <= old


def _without_int96(schema: pa.Schema, source: pq.ParquetFile) -> pa.Schema:
    """INT96 stands for an instant; beside times of another kind it is written as one of today's."""
    old = _int96_columns(source) & set(_times(schema))
    for name in old:
        place = schema.get_field_index(name)
        schema = schema.set(place, schema.field(place).with_type(pa.timestamp("us", tz="UTC")))
    return schema
