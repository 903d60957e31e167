"""Exact counts of a commit: what its record knew before, completed by the commit's own metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.contracts import Counts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidemill.contracts import Commit, Record

_METRICS = {
    "MERGE": {
        "inserted": "numTargetRowsInserted",
        "updated": "numTargetRowsUpdated",
        "deleted": "numTargetRowsDeleted",
    },
}
_WRITE = {"inserted": "numOutputRows"}


def counts_of(commit: Commit) -> Counts:
    """The counts of a commit of ours; of somebody else's, what its metrics tell."""
    seen = _from_metrics(commit.operation, commit.metrics)
    return completed(commit.record, seen) if commit.record else Counts(**seen)


def completed(record: Record, seen: Mapping[str, int]) -> Counts:
    """`seen`, with what the record knew before its commit, and the remainder where the record says."""
    counts = {**seen, **record.counts}
    counted = sum(counts.get(name, 0) for name in ("inserted", "updated", "unchanged", "ignored"))
    rest = max(record.rows - counted, 0)
    counts[record.remainder] = counts.get(record.remainder, 0) + rest
    return Counts(**counts)


def _from_metrics(operation: str, metrics: Mapping[str, str]) -> dict[str, int]:
    names = _METRICS.get(operation, _WRITE if operation in {"WRITE", "CREATE TABLE AS SELECT"} else {})
    return {count: int(metrics.get(metric, 0)) for count, metric in names.items()}
