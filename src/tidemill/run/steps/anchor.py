"""Keeps a copy of the last record where Delta's log clean-up does not reach."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tidemill.stores.delta import DeltaStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemill.contracts.snapshots import Snapshot
    from tidemill.stores.opened import AnyStore

_DEFAULT_RETENTION = timedelta(days=30)
_SHARE = 4  # a copy older than a quarter of the retention is replaced
_INTERVAL = re.compile(r"interval\s+(\d+)\s+(\w+?)s?", re.IGNORECASE)
_UNITS = {"second": "seconds", "minute": "minutes", "hour": "hours", "day": "days", "week": "weeks"}


def keep_anchor(store: AnyStore, spark: SparkSession, snapshot: Snapshot | None) -> None:
    """Copies the last record into a table property when the log may lose it before the next look; only Delta's does."""
    if (
        not isinstance(store, DeltaStore)
        or snapshot is None
        or snapshot.record is None
        or snapshot.record_version is None
    ):
        return
    if snapshot.anchored == snapshot.record_version or not _is_due(store, snapshot):
        return
    store.anchor(spark, snapshot.record, snapshot.record_version)


def _is_due(store: DeltaStore, snapshot: Snapshot) -> bool:
    oldest_safe = datetime.now(UTC) - _retention(snapshot) / _SHARE
    last_copied = snapshot.anchored if snapshot.anchored is not None else 0
    commit = store.log.commit(last_copied)
    return commit is None or datetime.fromisoformat(commit.at) <= oldest_safe


def _retention(snapshot: Snapshot) -> timedelta:
    found = _INTERVAL.fullmatch(snapshot.properties.get("delta.logRetentionDuration", "").strip())
    unit = _UNITS.get(found.group(2).lower()) if found else None
    return timedelta(**{unit: int(found.group(1))}) if found and unit else _DEFAULT_RETENTION
