"""A merge without Spark: the protocol and the workers' functions as they are, with Arrow in the place of the join.

Run as a script it merges one batch after the other into a dataset, until somebody kills it.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.formats.parquet import protocol
from tidemill.formats.parquet.folder import Added, DataFile, Entry, Folder
from tidemill.formats.parquet.worker.files import Shape, write_rows
from tidemill.formats.parquet.worker.rewriting import FATE, FILE, REPLACE, ROW, splice

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = pa.schema([("id", pa.int64()), ("value", pa.string())])
BATCH = 40


def upsert(path: str | Path, rows: dict[int, str]) -> None:
    """Known ids get the new value, others enter; again when another writer was first."""
    folder = Folder(str(path))
    while True:
        try:
            _attempt(folder, rows)
        except (protocol.Moved, FileNotFoundError):
            continue
        return


def _attempt(folder: Folder, rows: dict[int, str]) -> None:
    base = protocol.walk(protocol.opening(folder))
    attempt = protocol.walk(protocol.beginning(folder))
    with folder.ending(attempt):
        shape = Shape(str(attempt.folder), SCHEMA)
        known: set[int] = set()
        added: list[Added] = []
        for path in base.files:
            ids = pq.read_table(folder.root / path, columns=["id"]).column("id").to_pylist()
            places = [(place, key) for place, key in enumerate(ids) if key in rows]
            known |= {key for _, key in places}
            if places:
                actions = _actions(folder.root / path, places, rows)
                report = next(splice(actions.to_batches(), shape)).to_pylist()[0]
                added.append(_added(report, attempt.name, len(added), path))
        new = {key: value for key, value in rows.items() if key not in known}
        if new:
            for batch in write_rows(iter(_table(new).to_batches()), shape, {}, {}):
                added.append(_added(batch.to_pylist()[0], attempt.name, len(added), None))
        protocol.walk(protocol.committing(folder, base, _entry(base, attempt.name, added)))


def _actions(path: Path, places: list[tuple[int, int]], rows: dict[int, str]) -> pa.Table:
    return pa.table(
        {
            FILE: [f"file://{path}"] * len(places),
            ROW: [place for place, _ in places],
            FATE: [REPLACE] * len(places),
            "id": [key for _, key in places],
            "value": [rows[key] for _, key in places],
        }
    )


def _table(rows: dict[int, str]) -> pa.Table:
    return pa.table({"id": list(rows), "value": list(rows.values())}, schema=SCHEMA)


def _added(report: dict[str, object], attempt: str, number: int, instead_of: str | None) -> Added:
    file = DataFile(f"tidemill-{attempt}-{number}.parquet", report["size"], report["mtime"], report["rows"])
    return Added(report["staged"], file, instead_of)


def _entry(base: protocol.State, attempt: str, added: list[Added]) -> Entry:
    gone = [base.files[each.instead_of] for each in added if each.instead_of]
    kept = [file for file in base.files.values() if file not in gone]
    files = (*(replace(file, rows=1) for file in kept), *(each.file for each in added))
    return Entry(base.number + 1, "id", attempt, "", "MERGE", None, tuple(added), tuple(gone), files)


def rows_of(path: str | Path) -> list[tuple[int, str]]:
    """All rows of the dataset as somebody finds them who opens it through the protocol."""
    folder = Folder(str(path))
    state = protocol.walk(protocol.opening(folder))
    found = [row for each in state.files for row in pq.read_table(folder.root / each).to_pylist()]
    return sorted((row["id"], row["value"]) for row in found)


def batch(number: int) -> dict[int, str]:
    """Half of the ids of the batch before, and as many new ones, all with one value: half a batch would show."""
    return {number * BATCH // 2 + n: f"batch {number}" for n in range(BATCH)}


def after(number: int) -> list[tuple[int, str]]:
    """The rows after all batches up to this one."""
    rows: dict[int, str] = {}
    for each in range(number + 1):
        rows |= batch(each)
    return sorted(rows.items())


def _killed_at(step: int) -> None:
    """From now on this process ends at its n-th step, as by a power cut."""
    taken = 0

    def walk(steps: protocol.Steps[object]) -> object:
        nonlocal taken
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return end.value
            taken += 1
            if taken == step:
                os.kill(os.getpid(), signal.SIGKILL)

    protocol.walk = walk


def main() -> None:
    path, first, last, step = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    print("started", flush=True)
    if step:
        _killed_at(step)
    for number in range(first, last):
        upsert(path, batch(number))
        print(number, flush=True)


if __name__ == "__main__":
    main()
