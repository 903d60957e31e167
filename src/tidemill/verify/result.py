"""What verifying a table has found: counts, a few samples of each, and what to do about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from tidemill.display import html_table, text_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidemill.errors import TidemillError


class VerifyOutcome(StrEnum):
    """What `verify` says of a table. Of several findings the worst counts: different outranks kept."""

    EQUAL = "equal"
    KEPT = "kept"
    DIFFERENT = "different"
    FAILED = "failed"
    NOT_VERIFIABLE = "not verifiable"
    NOT_THERE = "not there yet"

    @property
    def equal(self) -> bool | None:
        """Whether the table equals a full rebuild; None where nothing was compared."""
        nothing_compared = self in {VerifyOutcome.NOT_VERIFIABLE, VerifyOutcome.NOT_THERE}
        return None if nothing_compared else self is VerifyOutcome.EQUAL


class Kind(StrEnum):
    """How a row of the table and of a full run can lie to each other when they are not the same."""

    MISSING = "missing"
    EXTRA = "extra"
    DIFFERENT = "different"
    KEPT = "kept"
    IGNORED = "ignored"


WRONG = (Kind.MISSING, Kind.EXTRA, Kind.DIFFERENT)
BY_STRATEGY = (Kind.KEPT, Kind.IGNORED)


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
    """How one table compares with a full run over its source as it is now.

    `rows` is how many rows a full run returns, `total` how many the table holds. `kept` are rows of the table that a
    full run no longer returns and its strategy keeps, `ignored` rows of a full run that its strategy does not take.
    `keeps_rows`: such rows are what the declaration asks for, so they are no failure. A table that is not `verifiable`
    was not compared: its notes say why.

    >>> found = tidemill.Project.load("shop").verify("daily")[0]
    >>> found.table, found.equal, found.missing.count
    ('daily', True, 0)
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
    total: int = 0
    keeps_rows: bool = False

    @property
    def outcome(self) -> VerifyOutcome:
        if self.error is not None:
            return VerifyOutcome.FAILED
        if not self.there:
            return VerifyOutcome.NOT_THERE
        if not self.verifiable:
            return VerifyOutcome.NOT_VERIFIABLE
        if self._has(WRONG):
            return VerifyOutcome.DIFFERENT
        return VerifyOutcome.KEPT if self._has(BY_STRATEGY) else VerifyOutcome.EQUAL

    @property
    def equal(self) -> bool | None:
        """Whether the table equals a full rebuild; None where nothing was compared."""
        return self.outcome.equal

    @property
    def ok(self) -> bool:
        """Whether the command ends with 0 for this table."""
        kept = self.outcome is VerifyOutcome.KEPT
        return self.keeps_rows if kept else self.equal is not False

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

    def of(self, kind: Kind) -> Found:
        return self.found.get(kind, Found())

    def _has(self, kinds: tuple[Kind, ...]) -> bool:
        return any(self.of(kind).count for kind in kinds)

    def _repr_html_(self) -> str:
        return VerifiedTables([self])._repr_html_()

    def line(self) -> tuple[object, ...]:
        """The table as the cells of a line."""
        compared = self.equal is not None and self.error is None
        error = [f"[{self.error.code}] {self.error.problem}"] if self.error else []
        counts = (self.rows, self.total, *(self.of(kind).count for kind in Kind))
        shown = counts if compared else (None,) * len(counts)
        return (self.table, str(self.outcome), *shown, " · ".join([*error, *self.notes, *self.remedies]))


class VerifiedTables(list[Verified]):
    """What verifying tables has found, one by one; it prints as a table.

    >>> all(each.ok for each in tidemill.Project.load("shop").verify("daily"))
    True
    """

    def __repr__(self) -> str:
        return text_table(_HEADINGS, [each.line() for each in self]) if self else "no tables"

    def _repr_html_(self) -> str:
        return html_table(_HEADINGS, [each.line() for each in self])


_HEADINGS = ("table", "outcome", "rows", "total", *Kind, "notes")
