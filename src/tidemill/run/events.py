"""What a run tells while it lasts, and what it has done at its end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tidemill.errors import TidemillError
    from tidemill.run.exports.export import ExportResult
    from tidemill.run.results import StepResult, ViewResult


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a table, a view or an export fared: `result` if it was done, `error` if it failed; neither if not tried.

    `seconds` is how long it took, failed or not.
    """

    name: str
    result: StepResult | ViewResult | ExportResult | None = None
    error: TidemillError | None = None
    waits_for: str | None = None
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return self.result is not None


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run fared, in the order of its plan."""

    outcomes: tuple[Outcome, ...] = field(default=())
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return all(outcome.ok for outcome in self.outcomes)


class Listener(Protocol):
    """Receives what happens, from whichever thread it happens in."""

    def starting(self) -> None:
        """A step waits for Spark, which is started when the first one needs it."""

    def started(self) -> None: ...

    def began(self, name: str) -> None: ...

    def moved(self, name: str, where: str) -> None:
        """A step that takes several commits has come to this one."""

    def ended(self, outcome: Outcome) -> None: ...


class Silent:
    """Hears nothing."""

    def starting(self) -> None: ...

    def started(self) -> None: ...

    def began(self, name: str) -> None: ...

    def moved(self, name: str, where: str) -> None: ...

    def ended(self, outcome: Outcome) -> None: ...
