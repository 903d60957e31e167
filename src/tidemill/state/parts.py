"""Commits that belong together: a restore is three of them, and its last one speaks for it; some only prepare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.dataset.entries import COMPACTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tidemill.contracts.snapshots import Commit

RESTORE_BEGINS = "restore begins"


def without_parts(commits: Iterable[Commit]) -> Iterator[Commit]:
    """The commits, newest first, without those that only prepare or carry a later one of the same run."""
    seen: set[str] = set()
    for commit in commits:
        record = commit.record
        if commit.prepares and commit.operation != COMPACTS:
            continue
        if record is not None:
            if record.strategy == RESTORE_BEGINS or record.run_id in seen:
                continue
            seen.add(record.run_id)
        yield commit
