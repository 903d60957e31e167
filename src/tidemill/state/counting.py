"""Exact counts of a commit: what its record knew before, completed by the commit's own metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.contracts.records import Counts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidemill.contracts.records import Record
    from tidemill.contracts.snapshots import Commit

_METRICS = {
    "MERGE": {
        "inserted": "numTargetRowsInserted",
        "updated": "numTargetRowsUpdated",
        "deleted": "numTargetRowsDeleted",
    },
}
_WRITES = {"WRITE", "CREATE TABLE AS SELECT"}


def counts_of(commit: Commit) -> Counts:
    """The counts of a commit of ours; of somebody else's, what its metrics tell."""
    seen = _seen(commit)
    return completed(commit.record, seen) if commit.record else Counts(**seen)


def completed(record: Record, seen: Mapping[str, int]) -> Counts:
    """`seen`, with what the record knew before its commit, and the remainder where the record says."""
    counts = {**seen, **record.counts}
    counted = sum(counts.get(name, 0) for name in ("inserted", "updated", "unchanged", "ignored"))
    rest = max(record.rows - counted, 0)
    counts[record.remainder] = counts.get(record.remainder, 0) + rest
    return Counts(**counts)


def _seen(commit: Commit) -> dict[str, int]:
    if commit.operation not in _WRITES:
        metrics = _METRICS.get(commit.operation, {})
        return {count: int(commit.metrics.get(metric, 0)) for count, metric in metrics.items()}
    came, gone = _written(commit.metrics)
    if commit.record is not None and commit.record.keys:  # a row that came for one that left has changed
        return {"inserted": came - gone, "updated": gone}
    return {"inserted": came, "deleted": gone}


def _written(metrics: Mapping[str, str]) -> tuple[int, int]:
    """Rows that came and rows that left. Delta counts those that stay, in a file with marked ones, as copies."""
    came = int(metrics.get("numOutputRows", 0)) - int(metrics.get("numCopiedRows", 0))
    return came, int(metrics.get("numDeletedRows", 0))
