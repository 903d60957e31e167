"""What the metrics of a Delta commit say of rows, by Spark's names for them and by those of delta-rs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def rows_seen(operation: str, metrics: Mapping[str, str], *, keyed: bool) -> dict[str, int]:
    """What a commit did to rows; of a write by keys, a row that came for one that left has changed."""
    if operation not in _WRITES:
        return {count: _metric(metrics, metric) for count, metric in _METRICS.get(operation, {}).items()}
    came, gone = _written(metrics)
    return {"inserted": came - gone, "updated": gone} if keyed else {"inserted": came, "deleted": gone}


def rows_counted(operation: str, metrics: Mapping[str, str]) -> tuple[int, int] | None:
    """How many rows came and went, an updated one as both; None where the metrics do not count them all."""
    names = _METRICS.get(operation)
    if names is None or any(_found(metrics, name) is None for name in names.values()):
        return None
    seen = rows_seen(operation, metrics, keyed=False)
    updated = seen.get("updated", 0)
    return seen.get("inserted", 0) + updated, seen.get("deleted", 0) + updated


def files_removed(metrics: Mapping[str, str]) -> int:
    names = ("numTargetFilesRemoved", "numRemovedFiles", "num_removed_files")  # the last is delta-rs's
    return next((int(metrics[name]) for name in names if name in metrics), 0)


def _written(metrics: Mapping[str, str]) -> tuple[int, int]:
    """Rows that came and rows that left. Delta counts those that stay, in a file with marked ones, as copies."""
    came = _metric(metrics, "numOutputRows") - _metric(metrics, "numCopiedRows")
    return came or _metric(metrics, "numAddedRows"), _metric(metrics, "numDeletedRows")


def _metric(metrics: Mapping[str, str], name: str) -> int:
    return int(_found(metrics, name) or 0)


def _found(metrics: Mapping[str, str], name: str) -> str | None:
    """A metric by Spark's name for it, or by that of delta-rs, which writes num_deleted_rows."""
    return metrics.get(name) or metrics.get(_CAPITAL.sub(r"_\1", name).lower())
