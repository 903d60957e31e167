"""Starts of a window that are known only when a run begins."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidemill.errors import Origin


@dataclass(frozen=True, slots=True)
class StartVariable:
    """`@name`: a later run begins at the value that it is given; a first run neither uses nor needs it."""

    name: str
    origin: Origin | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return f"@{self.name}"


@dataclass(frozen=True, slots=True)
class CurrentDate:
    """The midnight with which the day of the run begins; it bounds every run, as a literal does."""

    def __str__(self) -> str:
        return "CURRENT_DATE"


MovingStart = StartVariable | CurrentDate
