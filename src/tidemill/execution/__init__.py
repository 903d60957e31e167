"""What a step did, what a run says while it lasts, and when a step has nothing to do."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import reduce
from typing import TYPE_CHECKING, Protocol

from tidemill.model.cursor import SESSION_ZONE, zone_named
from tidemill.model.record import Counts
from tidemill.planning import Mode
from tidemill.sources import sum_of_known

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from pyspark.sql import SparkSession

    from tidemill.errors import TidemillError
    from tidemill.execution.joins import Tally
    from tidemill.model.check import Check, Checked, Expected
    from tidemill.model.cursor import Cursor
    from tidemill.planning import StepPlan
    from tidemill.planning.windows import WindowPlan

UP_TO_DATE = "up to date"
_NO_COUNTS = Counts()


@dataclass(frozen=True, slots=True)
class RefreshReport:
    """How a materialized view followed its inputs: by what changed in them, or whole, and for which reason.

    `changed` are the rows that came and went, by input, net; `keys` is how many pieces of the view were computed again.
    """

    mode: str
    reason: str
    rule: str | None = None
    key: str | None = None
    changed: Mapping[str, int] = field(default_factory=dict)
    keys: int | None = None

    def to_json(self) -> dict[str, object]:
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in found.items() if value not in (None, {})}


class StepKind(StrEnum):
    """What a step was about: a table of a project, a view, an export, or the target of a merge."""

    TABLE = "table"
    VIEW = "view"
    EXPORT = "export"
    MERGE = "merge"


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one step did, in one commit or, as a backfill, in several; `table` is the name of what it was about.

    `version` is the table's version after it; views and exports have none, and no `total`. `rows_read` are the rows of
    its source, and those that an export wrote. `bytes_read` is the size of the files that were read of its source.
    `mode` and `reason` are those of the plan that was executed. `checks` are those that were run on what it wrote; of
    several commits, the worst of each. `expectations` says how the rows of a function fared, over all commits.
    `columns` are those of a view: only its record was written. `path` is where an export went.
    """

    table: str
    status: str
    strategy: str | None = None
    version: int | None = None
    counts: Counts = _NO_COUNTS
    total: int | None = None
    rows_read: int = 0
    seconds: float = 0.0
    bytes_read: int | None = None
    first_run: bool = False
    rebuilt: bool = False
    batches: int = 1
    mode: Mode = Mode.FULL
    reason: str = ""
    window: WindowPlan | None = None
    watermark: Cursor | None = None
    files_rewritten: int = 0
    files_kept: int = 0
    commit_id: str | None = None
    notices: tuple[str, ...] = field(default=())
    checks: tuple[Checked, ...] = field(default=())
    expectations: tuple[Expected, ...] = field(default=())
    joined: Tally | None = None
    refresh: RefreshReport | None = None
    kind: StepKind = StepKind.TABLE
    columns: tuple[str, ...] = field(default=())
    path: str | None = None

    @property
    def rows_written(self) -> int:
        return self.rows_read if self.kind is StepKind.EXPORT else self.counts.written

    @property
    def up_to_date(self) -> bool:
        """Nothing that it reads has changed, so nothing was read."""
        return self.status == UP_TO_DATE


def sum_up(results: Sequence[StepResult]) -> StepResult:
    """Several commits of one step as one result."""
    last = results[-1]
    return replace(
        last,
        status=next((each.status for each in results if each.status != "unchanged"), "unchanged"),
        counts=reduce(Counts.plus, (each.counts for each in results)),
        rows_read=sum(each.rows_read for each in results),
        bytes_read=sum_of_known(each.bytes_read for each in results),
        seconds=sum(each.seconds for each in results),
        first_run=results[0].first_run,
        batches=len(results),
        files_rewritten=sum(each.files_rewritten for each in results),
        notices=tuple(dict.fromkeys(notice for each in results for notice in each.notices)),
        checks=worst(check for each in results for check in each.checks),
        expectations=summed(expected for each in results for expected in each.expectations),
    )


def worst(results: Iterable[Checked]) -> tuple[Checked, ...]:
    """Of several runs of the same checks, the one of each check that went worst."""
    found: dict[Check, Checked] = {}
    for each in results:
        known = found.setdefault(each.check, each)
        if each.failures > known.failures:
            found[each.check] = each
    return tuple(found.values())


def summed(results: Iterable[Expected]) -> tuple[Expected, ...]:
    """The same expectations of several batches, as of one."""
    found: dict[str, Expected] = {}
    for each in results:
        name = each.expectation.name
        known = found.get(name, replace(each, rows=0, unmet=0))
        found[name] = replace(known, rows=known.rows + each.rows, unmet=known.unmet + each.unmet)
    return tuple(found.values())


def up_to_date(plan: StepPlan) -> StepResult:
    """The result of a step that has nothing to read, known without Spark."""
    snapshot = plan.snapshot
    assert snapshot is not None  # noqa: S101  its record says so
    return StepResult(
        table=plan.table.name,
        status=UP_TO_DATE,
        strategy=str(plan.table.strategy),
        version=snapshot.version,
        total=snapshot.rows or 0,
        bytes_read=0,
        mode=plan.mode,
        reason=plan.reason,
        watermark=snapshot.record.reached(plan.table.input_names) if snapshot.record else None,
        files_kept=snapshot.files,
    )


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a table, a view or an export fared: `result` if it was done, `error` if it failed; neither if not tried.

    `plan` is what was heard of a table's step before it ran, failed or not; `seconds` is how long it took.
    """

    name: str
    result: StepResult | None = None
    error: TidemillError | None = None
    waits_for: str | None = None
    seconds: float = 0.0
    plan: StepPlan | None = None

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

    def planned(self, plan: StepPlan) -> None:
        """A table's step goes like this, as far as that is known without Spark."""

    def moved(self, name: str, where: str) -> None:
        """A step that takes several commits has come to this one."""

    def ended(self, outcome: Outcome) -> None: ...


class Silent:
    """Hears nothing."""

    def starting(self) -> None: ...

    def started(self) -> None: ...

    def began(self, name: str) -> None: ...

    def planned(self, plan: StepPlan) -> None: ...

    def moved(self, name: str, where: str) -> None: ...

    def ended(self, outcome: Outcome) -> None: ...


def in_zone_of(spark: SparkSession, moment: datetime) -> datetime:
    """The same moment by the session's clock."""
    return moment.astimezone(zone_named(spark.conf.get(SESSION_ZONE) or "UTC"))
