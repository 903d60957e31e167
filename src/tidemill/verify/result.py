"""What verifying a table has found: counts, a few samples of each, and what to do about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidemill.errors import TidemillError


class Kind(StrEnum):
    """How a row of the table and of a full run can lie to each other when they are not the same."""

    MISSING = "missing"
    EXTRA = "extra"
    DIFFERENT = "different"
    KEPT = "kept"
    IGNORED = "ignored"


WRONG = (Kind.MISSING, Kind.EXTRA, Kind.DIFFERENT)


@dataclass(frozen=True, slots=True)
class Sample:
    """One row as text. `instead` has, of a different row, what a full run gives in the columns that differ."""

    row: Mapping[str, str | None]
    instead: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Found:
    """The rows of one kind. `late` of them lie below the window of the next run, which will not read them.

    `copies` of them stand in the table more often than a full run gives them.
    """

    count: int = 0
    late: int = 0
    copies: int = 0
    samples: tuple[Sample, ...] = ()


@dataclass(frozen=True, slots=True)
class Verified:
    """How one table lies to a full run over its source as it is now.

    `rows` is how many rows a full run gives. `kept` are rows that the table keeps by its strategy though a full run
    would not give them, `ignored` those that it leaves out by its strategy; neither makes a table unequal. A table that
    is not `verifiable` was not looked at: its notes say why.
    """

    table: str
    against: str
    there: bool = True
    rows: int = 0
    found: Mapping[Kind, Found] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()
    error: TidemillError | None = None
    verifiable: bool = True

    @property
    def missing(self) -> Found:
        return self.of(Kind.MISSING)

    @property
    def extra(self) -> Found:
        return self.of(Kind.EXTRA)

    @property
    def different(self) -> Found:
        return self.of(Kind.DIFFERENT)

    @property
    def kept(self) -> Found:
        return self.of(Kind.KEPT)

    @property
    def ignored(self) -> Found:
        return self.of(Kind.IGNORED)

    @property
    def equal(self) -> bool:
        """Nothing is wrong, as far as there is something to compare."""
        return self.error is None and not any(self.of(kind).count for kind in WRONG)

    def of(self, kind: Kind) -> Found:
        return self.found.get(kind, Found())
