"""What the next run would ask a function for, in words: as far as the table's own log tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.plan.dates import fetches_of, last_asked, progress_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from tidemill.contracts.snapshots import Snapshot
    from tidemill.declare.cursors import Cursor
    from tidemill.declare.tables import Table
    from tidemill.plan.backfills import Backfill
    from tidemill.plan.dates import Fetch


class _OnlyRowsTellError(Exception):
    """The log does not say how far the table was fetched."""


def reason_to_fetch(table: Table, snapshot: Snapshot | None, asked: Backfill | None, now: datetime) -> str:
    """Which dates, and why; a function without a time column is called once."""
    if table.window is None:
        return "its function is called once" if snapshot else "first run: its function is called once"
    try:
        progress = progress_of(table, snapshot, _unknown, now)
    except _OnlyRowsTellError:
        if asked is None or asked.start is None:
            known = snapshot is not None and snapshot.record is not None
            since = f"{'' if known else 'adopted: '}since its highest {table.window.time_column}"
            return f"{since}, to {last_asked(asked) or 'today'}"
        progress = progress_of(table, None, _unknown, now)
    done = snapshot.record.backfill if snapshot and snapshot.record else {}
    fetches = fetches_of(table, progress, now, asked, done)
    return f"{fetches[0].reason}: {_dates(fetches)}"


def _unknown(version: int) -> Cursor | None:
    raise _OnlyRowsTellError(version)


def _dates(fetches: Sequence[Fetch]) -> str:
    count, first, last = sum(each.count for each in fetches), fetches[0].first, fetches[-1].last
    batches = f" in {len(fetches)} batches" if len(fetches) > 1 else ""
    return f"{first}, 1 date" if count == 1 else f"{first} … {last}, {count:,} dates{batches}"
