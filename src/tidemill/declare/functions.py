"""Functions that give tables their rows, as their decorators saw them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import date, datetime

    from tidemill.declare.durations import Duration
    from tidemill.errors import Origin

UTC = ZoneInfo("UTC")
DECLARED = "__tidemill_table__"  # the attribute of a function by which it is known as one of a table
EXPECTED = "__tidemill_expectations__"


class OnUnmet(StrEnum):
    """What happens to rows that do not meet an expectation: they enter and are counted, go aside, or fail the step."""

    COUNT = "count"
    DROP = "drop"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Expectation:
    """A condition that every row should make true; one that makes it false or NULL does not meet it."""

    name: str
    condition: str
    on_unmet: OnUnmet = OnUnmet.COUNT
    origin: Origin | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Function:
    """The rows that a function gives when it is called for some dates, or for none.

    `schema` is their columns as DDL, where declared. Dates are those of `timezone`; a call is given those of one
    `batch`, all where there is none.
    """

    call: Callable[..., Any]
    timezone: ZoneInfo = UTC
    batch: Duration | None = None
    schema: str | None = None
    expectations: tuple[Expectation, ...] = ()
    origin: Origin | None = field(default=None, repr=False, compare=False)

    def today(self, now: datetime) -> date:
        """The day that it is at this moment in its time zone."""
        return now.astimezone(self.timezone).date()


@dataclass(frozen=True, slots=True)
class Decorated:
    """A function with the arguments of its decorators, as written."""

    call: Callable[..., Any]
    given: Mapping[str, object]
    origin: Origin
    expectations: tuple[Expectation, ...] = ()


def decorated(function: object) -> Decorated | None:
    """What a function's decorators said; None where it is no table."""
    found = getattr(function, DECLARED, None)
    return found if isinstance(found, Decorated) else None
