"""What must hold of a table's rows. Plain data; running it is another matter."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError

if TYPE_CHECKING:
    from tidemill.errors import Origin

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
