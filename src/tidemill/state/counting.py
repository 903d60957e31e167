"""Exact counts of a commit: what its record knew before, completed by the commit's own metrics."""

from __future__ import annotations

import re
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
    "DELETE": {"deleted": "numDeletedRows"},
    "UPDATE": {"updated": "numUpdatedRows"},
}
_WRITES = {
    "WRITE",
    "CREATE TABLE AS SELECT",
    "REPLACE TABLE AS SELECT",
    "CREATE OR REPLACE TABLE AS SELECT",
    "STREAMING UPDATE",
}
_CAPITAL = re.compile("([A-Z])")


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
        return {count: _metric(commit.metrics, metric) for count, metric in metrics.items()}
    came, gone = _written(commit.metrics)
    if commit.record is not None and commit.record.keys:  # a row that came for one that left has changed
        return {"inserted": came - gone, "updated": gone}
    return {"inserted": came, "deleted": gone}


def _written(metrics: Mapping[str, str]) -> tuple[int, int]:
    """Rows that came and rows that left. Delta counts those that stay, in a file with marked ones, as copies."""
    came = _metric(metrics, "numOutputRows") - _metric(metrics, "numCopiedRows")
    return came or _metric(metrics, "numAddedRows"), _metric(metrics, "numDeletedRows")


def _metric(metrics: Mapping[str, str], name: str) -> int:
    """A metric by Spark's name for it, or by that of delta-rs, which writes num_deleted_rows."""
    return int(metrics.get(name) or metrics.get(_CAPITAL.sub(r"_\1", name).lower()) or 0)
