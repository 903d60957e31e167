"""Whoever reads a table has nothing to do while its content is the same, whatever is noted in its log."""

from __future__ import annotations

from tidemill.contracts.records import Record
from tidemill.contracts.snapshots import Commit, Snapshot


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
