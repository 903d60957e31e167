"""Rows become new files, one or more for each partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from tidemill.dataset.fitting import fitted
from tidemill.stores.parquet.worker.outputs import Output, Written, reports

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tidemill.stores.parquet.worker.outputs import Shape

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
