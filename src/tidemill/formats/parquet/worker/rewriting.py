"""A file written again with some of its rows replaced or gone; and the keys of a small change, found in a file.

A small change lies in a file of its own that all workers read; its columns are flat, and its keys are distinct
by their bits.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.formats.parquet.worker.arrow import fitted
from tidemill.formats.parquet.worker.files import WRITTEN, Original, Written, by_value, local_path, reports, write_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tidemill.formats.parquet.worker.files import Shape

FILE, ROW, FATE = "__tidemill_file", "__tidemill_row", "__tidemill_fate"
REPLACE, MOVE, DROP, STAY = "replace", "move", "drop", "stay"
_MANY_RUNS = 1000


def splice(batches: Iterable[pa.RecordBatch], shape: Shape) -> Iterator[pa.RecordBatch]:
    """Rewrites each file that the actions name: rows at some places are replaced, or go. All else stays as it is.

    Actions on one file come one after the other. Reads and writes one row group at a time. A file that has no rows left
    is not written.
    """
    yield from reports(_rewritten(file, actions, shape) for file, actions in _by_file(batches))


def rewrite(original: Original, actions: pa.Table, shape: Shape) -> Written:
    """The file with the actions done to it."""
    actions = actions.sort_by(ROW)
    places = actions.column(ROW).to_numpy()
    fates = np.array(actions.column(FATE).to_pylist(), dtype=object)
    new = fitted(actions.filter(pa.array(fates == REPLACE)), original.schema)
    output, start, used = None, 0, 0
    for group in range(original.file.num_row_groups):
        held = original.group(group)
        low, high = np.searchsorted(places, (start, start + held.num_rows))
        coming = int((fates[low:high] == REPLACE).sum())
        rows = _spliced(held, places[low:high] - start, fates[low:high], new.slice(used, coming))
        start, used = start + held.num_rows, used + coming
        if rows.num_rows:
            output = output or original.successor(shape)
            output.add(rows)
            output.flush()
    if output is not None:
        output.close()
    moved, dropped = (int((fates == fate).sum()) for fate in (MOVE, DROP))
    return Written(output, None, original.path, used, moved, dropped)


def _rewritten(file: str, actions: pa.Table, shape: Shape) -> Written:
    with Original(local_path(file), shape) as original:
        return rewrite(original, actions, shape)


def _by_file(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.Table]]:
    file: str | None = None
    waiting: list[pa.Table] = []
    for batch in batches:
        for (name,), actions in by_value(pa.Table.from_batches([batch]), [FILE]):
            if name != file and waiting:
                yield str(file), pa.concat_tables(waiting)
                waiting = []
            file = name
            waiting.append(actions)
    if waiting:
        yield str(file), pa.concat_tables(waiting)


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


KEPT = "name string, rows long"
MET = f"{WRITTEN}, met array<long>, moving array<long>, same long"


@dataclass(frozen=True)
class Coming:
    """A change by the path of its file; its keys, the columns that are compared, and whether known rows are updated.

    `partitions` are columns that hold the texts of partition values, by what those are called.
    """

    path: str
    keys: tuple[str, ...]
    compared: tuple[str, ...] = ()
    partitions: dict[str, str] = field(default_factory=dict)
    updates: bool = True

    def rows(self) -> pa.Table:
        return pa.ipc.open_file(pa.memory_map(self.path)).read_all()


@dataclass(frozen=True)
class Met:
    """What of a change one file holds, by the numbers of its rows, and what became of the file."""

    written: Written
    rows: np.ndarray
    moving: np.ndarray
    same: int

    def report(self) -> pa.RecordBatch:
        """One row of MET."""
        report = self.written.report()
        numbers = pa.list_(pa.int64())
        report = report.append_column("met", pa.array([self.rows], numbers))
        report = report.append_column("moving", pa.array([self.moving], numbers))
        return report.append_column("same", pa.array([self.same], pa.int64()))


def keep(batches: Iterable[pa.RecordBatch], folder: str) -> Iterator[pa.RecordBatch]:
    """Writes rows to one file, and tells its name and how many they are."""
    name, output, rows = f"{uuid.uuid4().hex}.arrow", None, 0
    for batch in batches:
        output = output or pa.ipc.new_file(f"{folder}/{name}", batch.schema)
        output.write_batch(batch)
        rows += batch.num_rows
    if output is not None:
        output.close()
        yield pa.record_batch({"name": [name], "rows": [rows]})


def meet(
    batches: Iterable[pa.RecordBatch], files: Sequence[tuple[str, tuple[str | None, ...]]], coming: Coming, shape: Shape
) -> Iterator[pa.RecordBatch]:
    """Brings the change to files, which come by their number; reports those that hold some of it.

    Each of the `files` has its path, and the texts of its partition's values. One that holds nothing that differs is
    not rewritten.
    """
    change = coming.rows()
    numbers = (number for batch in batches for number in batch.column(0).to_pylist())
    met = (_met(files[number], change, coming, shape) for number in numbers)
    yield from reports(each for each in met if each is not None)


def write_some(
    batches: Iterable[pa.RecordBatch],
    coming: Coming,
    numbers: Sequence[int],
    shape: Shape,
    folders: dict[tuple[str | None, ...], str],
) -> Iterator[pa.RecordBatch]:
    """Writes some rows of the change, by their numbers, to new files."""
    marks = [(mark, "ascending") for mark in coming.partitions]
    for _ in batches:
        rows = coming.rows().take(pa.array(numbers, pa.int64()))
        rows = rows.sort_by(marks) if marks else rows
        yield from write_rows(rows.to_batches(), shape, coming.partitions, folders)


def _met(file: tuple[str, tuple[str | None, ...]], change: pa.Table, coming: Coming, shape: Shape) -> Met | None:
    path, texts = file
    near, moves = _of_partition(change, coming, texts)
    with Original(path, shape) as original:
        found, places = _found(original, change.take(near), coming)
        if not len(found):
            return None
        rows = near[found]
        if not coming.updates:
            return Met(Written(None), rows, rows[:0], 0)
        new, moving = change.take(rows), moves[rows]
        differs = _differing(original, new, places, coming.compared)
        fates = np.where(moving, MOVE, np.where(differs, REPLACE, STAY))
        same = int((fates == STAY).sum())
        if same == len(rows):
            return Met(Written(None), rows, rows[:0], same)
        actions = new.append_column(ROW, pa.array(places)).append_column(FATE, pa.array(fates))
        return Met(rewrite(original, actions, shape), rows, rows[moving], same)


def _of_partition(change: pa.Table, coming: Coming, texts: tuple[str | None, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The rows of a change whose keys a partition can hold; and of all rows, whether they belong to another one."""
    nothing = np.zeros(change.num_rows, bool)
    marks = zip(coming.partitions.items(), texts, strict=True)
    others = {name: _unlike(change.column(mark), text) for (mark, name), text in marks}
    beyond = reduce(np.logical_or, (other for name, other in others.items() if name in coming.keys), nothing)
    return np.flatnonzero(~beyond), reduce(np.logical_or, others.values(), nothing)


def _unlike(texts: pa.ChunkedArray, text: str | None) -> np.ndarray:
    return _flags(pc.is_valid(texts) if text is None else pc.fill_null(pc.not_equal(texts, text), True))  # noqa: FBT003


def _found(original: Original, near: pa.Table, coming: Coming) -> tuple[np.ndarray, np.ndarray]:
    """The rows of a change whose keys a file holds, and the places where it does, in their order."""
    inside = [key for key in coming.keys if key not in coming.partitions.values()]
    lookup = Lookup([near.column(key).combine_chunks() for key in inside], near.num_rows)
    spelled = {name.lower(): name for name in original.file.schema_arrow.names}
    if any(key.lower() not in spelled for key in inside):  # its rows have no key
        return np.zeros(0, int), np.zeros(0, int)
    names = [spelled[key.lower()] for key in inside]
    rows, places, start = [], [], 0
    for group in range(original.file.num_row_groups if near.num_rows else 0):
        size = original.file.metadata.row_group(group).num_rows
        held = original.read(group, names)
        found, where = lookup.rows_of([held.column(name) for name in names], size)
        rows.append(found)
        places.append(where + start)
        start += size
    return (np.concatenate(rows), np.concatenate(places)) if rows else (np.zeros(0, int), np.zeros(0, int))


class Lookup:
    """The rows of a change by their keys, of one or more columns. No two have the same."""

    def __init__(self, keys: list[pa.Array], rows: int) -> None:
        self._values = [pc.unique(column) for column in keys]
        self._codes: list[np.ndarray] = []
        code = np.zeros(rows, np.int64)
        for column, values in zip(keys, self._values, strict=True):
            both = code * len(values) + _places(column, values)
            known, code = np.unique(both, return_inverse=True)
            self._codes.append(known)
        self._row = np.argsort(code)

    def rows_of(self, held: list[pa.ChunkedArray], size: int) -> tuple[np.ndarray, np.ndarray]:
        """Of `size` rows with these keys: the rows of the change that have one of them, and where they stand."""
        here, code = np.arange(size), np.zeros(size, np.int64)
        for column, values, known in zip(held, self._values, self._codes, strict=True):
            place = _places(column.cast(values.type), values)[here]
            here, both = here[place >= 0], (code * len(values) + place)[place >= 0]
            code = np.minimum(np.searchsorted(known, both), len(known) - 1)
            met = known[code] == both
            here, code = here[met], code[met]
        return self._row[code], here


def _places(column: pa.ChunkedArray | pa.Array, values: pa.Array) -> np.ndarray:
    """Where each value stands among others; -1 where it does not."""
    return np.asarray(pc.fill_null(pc.index_in(column, value_set=values), -1), np.int64)


def _differing(original: Original, new: pa.Table, places: np.ndarray, compared: Sequence[str]) -> np.ndarray:
    """Of rows that stand at these places: whether the new one is another."""
    wanted = {name.lower() for name in compared}
    schema = pa.schema([item for item in original.schema if item.name.lower() in wanted])
    new, found, start = fitted(new, schema), np.zeros(len(places), bool), 0
    for group in range(original.file.num_row_groups):
        size = original.file.metadata.row_group(group).num_rows
        low, high = np.searchsorted(places, (start, start + size))
        if low < high:
            held = original.group(group).select(schema.names).take(pa.array(places[low:high] - start))
            pairs = zip(held.columns, new.slice(low, high - low).columns, strict=True)
            found[low:high] = reduce(np.logical_or, (_unequal(a, b) for a, b in pairs), found[low:high])
        start += size
    return found


def _unequal(held: pa.ChunkedArray, new: pa.ChunkedArray) -> np.ndarray:
    """NULL is the same as NULL, NaN as NaN, and 0.0 as -0.0."""
    if isinstance(held.type, pa.BaseExtensionType):  # such as JSON
        held, new = (column.cast(held.type.storage_type) for column in (held, new))
    if pa.types.is_dictionary(held.type):
        held, new = (column.cast(held.type.value_type) for column in (held, new))
    same = pc.or_(pc.fill_null(pc.equal(held, new), False), pc.and_(pc.is_null(held), pc.is_null(new)))  # noqa: FBT003
    if pa.types.is_floating(held.type):
        nans = (pc.fill_null(pc.is_nan(column), False) for column in (held, new))  # noqa: FBT003
        same = pc.or_(same, pc.and_(*nans))
    return ~_flags(same)


def _flags(values: pa.ChunkedArray) -> np.ndarray:
    return np.asarray(values, bool)
