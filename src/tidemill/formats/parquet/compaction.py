"""Small files become fewer, with the same rows in the same order: one commit, without Spark."""

from __future__ import annotations

import os
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.errors import FilesGoneError, TableError
from tidemill.formats.base import Compacted
from tidemill.formats.parquet.files import columns_of, footers, reading
from tidemill.formats.parquet.folder import Added, DataFile, Entry, not_written
from tidemill.formats.parquet.protocol import Moved, beginning, committing, opening, walk
from tidemill.formats.parquet.worker.arrow import (
    fitted,
    only_int96,
    refuse_old_days,
    unified,
    with_times,
    without_notes,
)
from tidemill.model.record import COMPACTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tidemill.formats.parquet.files import Footer
    from tidemill.formats.parquet.folder import Attempt, Folder
    from tidemill.formats.parquet.protocol import State

_ROW_GROUP_BYTES = 16 * 1024 * 1024
_BARE_BYTES = ("INTERVAL", "BSON")
_INT96_AS = {"coerce_int96_timestamp_unit": "us"}


def compact(folder: Folder, target_size: int) -> Compacted:
    """Joins files of a partition until each has about `target_size` bytes; larger ones stay as they are.

    `Moved` when another writer commits meanwhile: then nothing was changed.
    """
    try:
        return _compacted(folder, target_size)
    except (FileNotFoundError, FilesGoneError) as failure:
        raise Moved(f"Files of {folder} have gone meanwhile") from failure
    except (OSError, pa.ArrowException) as failure:
        raise not_written(folder, failure) from failure


def _compacted(folder: Folder, target_size: int) -> Compacted:
    state = walk(opening(folder))
    groups = list(_groups(state, target_size))
    if not groups:
        return Compacted(0, 0, len(state.files), state.number)
    gone = [file for group in groups for file in group]
    attempt = walk(beginning(folder))
    with folder.ending(attempt):
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            added = list(pool.map(lambda item: _join(folder.root, attempt, *item), enumerate(groups)))
        walk(committing(folder, state, _entry(folder, state, attempt, added, gone)))
    return Compacted(len(gone), len(groups), len(state.files) - len(gone), state.number + 1)


def _groups(state: State, target_size: int) -> Iterator[list[DataFile]]:
    """Files of one partition that together come to about the size; one file alone is no group."""
    for _, inside in groupby(state.files.values(), key=lambda file: file.path.rpartition("/")[0]):
        group: list[DataFile] = []
        for file in (file for file in inside if file.size < target_size):
            if sum(each.size for each in group) + file.size > target_size:
                yield from [group] if len(group) > 1 else []
                group = []
            group.append(file)
        yield from [group] if len(group) > 1 else []


def _join(root: Path, attempt: Attempt, number: int, files: Sequence[DataFile]) -> Added:
    """Reads one row group at a time; a column that a file lacks is NULL in its rows."""
    name = uuid.uuid4().hex  # without an ending: some readers look for *.parquet in all folders
    found = footers(root, files)
    (schema, old_times), codec = _schema(root, files, found), found[0].codec
    with (attempt.folder / name).open("xb") as out:
        with pq.ParquetWriter(out, schema, compression=codec, use_deprecated_int96_timestamps=old_times) as writer:
            rows = _copy(root, files, writer, schema)
        out.flush()
        os.fsync(out.fileno())
    seen = (attempt.folder / name).stat()
    folder = files[0].path.rpartition("/")[0]
    path = f"{folder + '/' if folder else ''}tidemill-{attempt.name}-{number}.parquet"
    return Added(name, DataFile(path, seen.st_size, seen.st_mtime_ns, rows))


def _schema(root: Path, files: Sequence[DataFile], found: Sequence[Footer]) -> tuple[pa.Schema, bool]:
    """The columns of all files, with types that hold the values of each, and whether their times are INT96."""
    for file in files:
        with pq.ParquetFile(root / file.path) as source:
            _refuse_bare_bytes(root / file.path, source.schema)
    old = any(each.int96 for each in found) and all(only_int96(each.schema, each.int96) for each in found)
    return unified([with_times(without_notes(each.schema), each.int96, old=old) for each in found]), old


def _refuse_bare_bytes(path: Path, schema: pq.ParquetSchema) -> None:
    """Arrow reads some types as bytes, and would write no more than these."""
    columns = (schema.column(number) for number in range(len(schema)))
    if lost := next((column for column in columns if column.converted_type in _BARE_BYTES), None):
        raise TableError(
            "dataset.cannot_join",
            f"{lost.path} is {lost.converted_type} in {path}, which Arrow cannot write.",
            "Join such files with the tool that wrote them. Nothing was changed.",
        )


def _copy(root: Path, files: Sequence[DataFile], writer: pq.ParquetWriter, schema: pa.Schema) -> int:
    """Small row groups become larger ones, so that readers have less to do."""
    rows, waiting = 0, []
    for group in (group for file in files for group in _row_groups(root, file)):
        waiting.append(fitted(group, schema))
        rows += group.num_rows
        if sum(each.nbytes for each in waiting) >= _ROW_GROUP_BYTES:
            writer.write_table(pa.concat_tables(waiting))
            waiting = []
    if waiting:
        writer.write_table(pa.concat_tables(waiting))
    return rows


def _row_groups(root: Path, file: DataFile) -> Iterator[pa.Table]:
    path = root / file.path
    with pq.ParquetFile(path, **_INT96_AS) as source:
        for number in range(source.num_row_groups):
            with reading(str(root), str(path)):
                group = source.read_row_group(number)
            refuse_old_days(group, source.schema_arrow.metadata, str(path))
            yield group


def _entry(folder: Folder, state: State, attempt: Attempt, added: Sequence[Added], gone: Sequence[DataFile]) -> Entry:
    left = {file.path for file in gone}
    kept = [file for file in state.files.values() if file.path not in left]
    counted = [replace(file, rows=footer.rows) for file, footer in zip(kept, footers(folder.root, kept), strict=True)]
    before = state.entry
    return Entry(
        number=state.number + 1,
        dataset_id=before.dataset_id if before else uuid.uuid4().hex,
        attempt=attempt.name,
        at=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        operation=COMPACTS,
        add=tuple(added),
        remove=tuple(gone),
        files=(*counted, *(each.file for each in added)),
        partition_by=before.partition_by if before else columns_of(state.files, str(folder)),
        schema=before.schema if before and not state.came else None,
        properties=before.properties if before else {},
        notes=True,
        foreign_came=bool(state.came),
        foreign_left=bool(state.left),
    )
