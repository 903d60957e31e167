"""A file again, with some of its rows replaced or gone, and all others as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tidemill.dataset.fitting import fitted
from tidemill.stores.parquet.worker.originals import Original, local_path
from tidemill.stores.parquet.worker.outputs import Written, reports
from tidemill.stores.parquet.worker.writing import by_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tidemill.stores.parquet.worker.outputs import Shape

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
