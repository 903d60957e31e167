"""When a table changed, by its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidemill.contracts.snapshots import Snapshot
    from tidemill.state.logs import AnyLog


def changed_at(log: AnyLog, snapshot: Snapshot) -> str:
    """The time of the commit by which rows last came or went, ours or of others; what is noted on it is no change."""
    moments = [commit.at for commit in snapshot.foreign if commit.adds_rows or commit.removes_rows]
    record, version = snapshot.record, snapshot.record_version
    if record is None or version is None:
        last = log.commit(snapshot.version)
        return last.at if last else ""
    ours = log.commit(version if record.same_rows_as is None else record.same_rows_as)
    return max([ours.at if ours and ours.at else record.at, *moments])
