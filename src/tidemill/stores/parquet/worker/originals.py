"""Files that are there: their rows, and how they were written, which their successors keep."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.dataset.calendars import refuse_old_days, without_notes
from tidemill.dataset.codecs import codec_of
from tidemill.dataset.fitting import fitted, has_room, optional
from tidemill.dataset.kinds import only_int96, with_times, workable
from tidemill.stores.parquet.worker.outputs import Output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidemill.stores.parquet.worker.outputs import Shape

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
