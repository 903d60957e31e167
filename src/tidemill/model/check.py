"""What must hold of a table's rows, and how checks and expectations fared, in words. Plain data; running them is
another matter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tidemill.errors import ArgumentError
from tidemill.model import rejected_name
from tidemill.model.function import OnUnmet

if TYPE_CHECKING:
    from tidemill.errors import Origin
    from tidemill.model.function import Expectation

Accepted = str | int | float | bool


class Severity(StrEnum):
    """What a check does that fails: it fails the step before its commit, or it is only reported."""

    ERROR = "error"
    WARN = "warn"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Check:
    """What all checks have; `name` is what its author calls it. Their `columns` are those of the table."""

    severity: Severity = Severity.ERROR
    name: str | None = None
    origin: Origin | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class NotNull(_Check):
    """No row has NULL in any of them."""

    columns: tuple[str, ...]

    def __str__(self) -> str:
        return self.name or f"not_null({', '.join(self.columns)})"


@dataclass(frozen=True, slots=True)
class Unique(_Check):
    """No two rows of the table have the same values in all of them; rows with a NULL in one are not compared."""

    columns: tuple[str, ...]

    def __str__(self) -> str:
        return self.name or f"unique({', '.join(self.columns)})"


@dataclass(frozen=True, slots=True)
class AcceptedValues(_Check):
    """Every value of the column is one of these, or NULL."""

    column: str
    values: tuple[Accepted, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise _bad("accepted_values has no values.", "Name at least one.")

    def __str__(self) -> str:
        return self.name or f"accepted_values({self.column})"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)


@dataclass(frozen=True, slots=True)
class Relationships(_Check):
    """Every value of the column is one of `to_column` in the table `to`, or NULL."""

    column: str
    to: str
    to_column: str

    def __str__(self) -> str:
        return self.name or f"relationships({self.column} → {self.to}.{self.to_column})"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)


@dataclass(frozen=True, slots=True)
class RowCount(_Check):
    """The table has so many rows after the change, at least and at most."""

    least: int | None = None
    most: int | None = None

    def __post_init__(self) -> None:
        if self.least is None and self.most is None:
            raise _bad("row_count has neither min nor max.", "Give one of them, or both.")
        if self.least is not None and self.most is not None and self.least > self.most:
            raise _bad(f"row_count has a min of {self.least}, above its max of {self.most}.", "Turn them around.")

    def __str__(self) -> str:
        bounds = (("min", self.least), ("max", self.most))
        return self.name or f"row_count({', '.join(f'{word} {count}' for word, count in bounds if count is not None)})"

    @property
    def columns(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class Holds(_Check):
    """No row makes the condition false; NULL is not false, as in a CHECK of SQL.

    `columns` are those that it visibly names.
    """

    condition: str
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name or self.condition


Check = NotNull | Unique | AcceptedValues | Relationships | RowCount | Holds


def _bad(problem: str, remedy: str) -> ArgumentError:
    return ArgumentError("checks.bad_check", problem, remedy)


class Verdict(StrEnum):
    """How a check fared; one of severity warn that does not hold has warned."""

    PASSED = "passed"
    FAILED = "failed"
    WARNED = "warned"


@dataclass(frozen=True, slots=True)
class Place:
    """Which rows are checked: those that are about to enter the table, or those that it holds."""

    table: str
    entering: bool


@dataclass(frozen=True, slots=True)
class Checked:
    """How one check fared on so many `rows`: for `row_count` all of the table's, None where none had to be read.

    `failures` counts the rows that break it, for `unique` the values that occur more than once. `samples` are some of
    them, as texts; `more` says that there are others.
    """

    check: Check
    place: Place
    rows: int | None
    failures: int = 0
    samples: tuple[str, ...] = ()
    more: bool = False

    @property
    def verdict(self) -> Verdict:
        if not self.failures:
            return Verdict.PASSED
        return Verdict.WARNED if self.check.severity is Severity.WARN else Verdict.FAILED

    def __str__(self) -> str:
        """What was found, as the end of a sentence that begins with the check."""
        if not self.failures:
            return "" if self.rows is None else _rows(self.rows)
        some = [*self.samples, "…"] if self.more else self.samples
        return f"{self._fact()}: {', '.join(some)}" if some else self._fact()

    def to_json(self) -> dict[str, Any]:
        return {
            "check": str(self.check),
            "severity": str(self.check.severity),
            "status": str(self.verdict),
            "rows": self.rows,
            "failures": self.failures,
            "samples": list(self.samples),
            "origin": str(self.check.origin) if self.check.origin else None,
        }

    def _fact(self) -> str:
        have, would = ("has" if self.failures == 1 else "have"), ("would " if self.place.entering else "")
        rows = _rows(self.rows or 0)
        broken = f"{self.failures:,} of {rows}{' that would enter' if would else ''}"
        match self.check:
            case NotNull(columns):
                return f"{broken} {have} no {' or no '.join(columns)}"
            case AcceptedValues(column):
                return f"{broken} {have} a value in {column} that is not accepted"
            case Holds(condition, name=name):
                return f"{broken} {'makes' if self.failures == 1 else 'make'} {condition if name else 'it'} false"
            case Relationships(column, to, to_column):
                return f"{broken} {have} a value in {column} that {to}.{to_column} does not have"
            case Unique(columns):
                what = columns[0] if len(columns) == 1 else f"({', '.join(columns)})"
                values = "1 value" if self.failures == 1 else f"{self.failures:,} values"
                occur = "occurs" if self.failures == 1 and not would else "occur"
                return f"{values} of {what} {would}{occur} more than once in {self.place.table}"
            case RowCount(least, most):
                hold = f"would hold {rows} after this commit" if would else f"holds {rows}"
                few = least is not None and (self.rows or 0) < least
                return f"{self.place.table} {hold}, not {f'{least:,} at least' if few else f'{most:,} at most'}"


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


_DONE = {OnUnmet.COUNT: "entered all the same", OnUnmet.DROP: "are in {}", OnUnmet.FAIL: "fail the step"}


@dataclass(frozen=True, slots=True)
class Expected:
    """Of so many `rows` that were fetched, `unmet` did not meet the expectation."""

    expectation: Expectation
    rows: int
    unmet: int

    def describe(self, table: str) -> str:
        """What came of it, for people."""
        rows = f"{self.unmet:,} of {self.rows:,} row{'' if self.rows == 1 else 's'}"
        done = _DONE[self.expectation.on_unmet].format(rejected_name(table))
        return f"{self.expectation}: {rows} do not meet {self.expectation.condition}, and {done}"

    def to_json(self) -> dict[str, Any]:
        return {
            "expectation": self.expectation.name,
            "condition": self.expectation.condition,
            "on_unmet": str(self.expectation.on_unmet),
            "rows": self.rows,
            "unmet": self.unmet,
        }
