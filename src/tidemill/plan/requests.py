"""What a run is asked for beyond its usual work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError

if TYPE_CHECKING:
    from tidemill.declare.tables import Table
    from tidemill.plan.backfills import Backfill


@dataclass(frozen=True, slots=True)
class Request:
    """A full refresh, or a backfill; else every table reads what is new."""

    full_refresh: bool = False
    backfill: Backfill | None = None

    def starts(self, table: Table) -> bool:
        """Whether it says where the run of this table starts, whatever its declaration says."""
        return self.backfill is not None and self.backfill.start is not None and table.reads_windows

    def __post_init__(self) -> None:
        if self.full_refresh and self.backfill:
            raise ArgumentError(
                "run.refresh_and_backfill",
                "A full refresh reads everything, so it takes no --start, --end or --batch.",
                "Leave out --full-refresh, or the bounds.",
            )


USUAL = Request()
