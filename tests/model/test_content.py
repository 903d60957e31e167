"""Whoever reads a table has nothing to do while its content is the same, whatever is noted in its log."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import write_deltalake

from tidemill import Commit, Record
from tidemill.execution.catalog import Catalog
from tidemill.formats.delta.log import DeltaLog
from tidemill.model.record import Snapshot

if TYPE_CHECKING:
    from pathlib import Path


def snapshot(version: int, record_version: int, *foreign: Commit, **said: object) -> Snapshot:
    record = Record("r", "t", 1, "set watermark", "", **said)  # type: ignore[arg-type]
    return Snapshot(version, 1, record, record_version, foreign, table_id="t")


def test_a_commit_that_only_notes_something_leaves_the_content_as_it_was():
    assert snapshot(5, 5).content == "t@5"
    noted = snapshot(6, 6, base=5, same_rows_as=5)
    assert noted.content == "t@5"
    assert snapshot(7, 7, base=6, same_rows_as=noted.content_version).content == "t@5"


def test_what_others_commit_before_or_after_a_note_is_new_content():
    assert snapshot(7, 7, base=5, same_rows_as=5).content == "t@7"
    assert snapshot(7, 6, base=5, same_rows_as=5).content == "t@7"


def stamped(table: Path, version: int, moment: int) -> None:
    """Gives the commit another time, as if the clock had stood still."""
    file = table / "_delta_log" / f"{version:020d}.json"
    actions = [json.loads(line) for line in file.read_text().splitlines()]
    for action in actions:
        if "commitInfo" in action:
            action["commitInfo"]["timestamp"] = moment
    file.write_text("\n".join(map(json.dumps, actions)))


def test_the_same_version_number_of_another_history_is_other_content(tmp_path: Path) -> None:
    """A table that was copied back from an older copy counts on from there: its numbers come again, its rows do not."""
    table, copy = tmp_path / "t", tmp_path / "copy"
    write_deltalake(table, pa.table({"id": [1]}))
    shutil.copytree(table, copy)
    before = DeltaLog(str(table)).snapshot()
    write_deltalake(table, pa.table({"id": [2]}), mode="append")
    stamped(table, 1, 1_700_000_000_000)
    seen = DeltaLog(str(table)).snapshot()
    shutil.rmtree(table)
    shutil.copytree(copy, table)
    assert DeltaLog(str(table)).snapshot() == before
    write_deltalake(table, pa.table({"id": [3]}), mode="append")
    stamped(table, 1, 1_700_000_000_000)
    again = DeltaLog(str(table)).snapshot()
    assert seen is not None
    assert again is not None
    assert (seen.version, seen.table_id) == (again.version, again.table_id)
    assert seen.content != again.content


def test_a_table_that_was_created_again_up_to_the_same_version_is_another_input(tmp_path: Path) -> None:
    table = tmp_path / "t"
    catalog = Catalog(lambda _: str(table))
    write_deltalake(table, pa.table({"id": [1]}))
    before = catalog.version("main.t")
    assert catalog.version("main.t") == before
    shutil.rmtree(table)
    write_deltalake(table, pa.table({"id": [2]}))
    assert DeltaLog(str(table)).version() == 0
    assert catalog.version("main.t") not in (None, before)
