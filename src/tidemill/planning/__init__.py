"""What a run is asked for, and one plan per step: what it will do to a table, and why. The run executes it; commands
and records explain it.

What only rows or a source's schema can tell is a named gap. Whoever has Spark fills it, by planning the same step on
the facts that it has found (`fill`): a plan and its run cannot differ in anything else.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError
from tidemill.model.cursor import Cursor, CursorKind, Duration, cursor, duration, first_behind, present
from tidemill.model.project import NOTHING_GIVEN
from tidemill.planning.notices import (
    NO_FACTS,
    Gap,
    changed_query,
    layout_notices,
    rebuilt_query,
    table_window,
)
from tidemill.planning.windows import FIRST_RUN, condition_given, reason_of_everything

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tidemill.model.query import View
    from tidemill.model.record import Record, Snapshot
    from tidemill.model.table import Table
    from tidemill.planning.dates import Fetch
    from tidemill.planning.loads import SourcePlan
    from tidemill.planning.notices import Facts
    from tidemill.planning.refresh import RefreshPlan
    from tidemill.planning.windows import WindowPlan

INPUTS_UNCHANGED = "up to date: its inputs are unchanged"
REFRESHED = "full refresh: everything is read, and the table becomes what a first run gives"


@dataclass(frozen=True, slots=True)
class Backfill:
    """What was asked for: bounds as users write them, and how much one commit takes."""

    start: str | None = None
    end: str | None = None
    batch: Duration | int | None = None

    def __post_init__(self) -> None:
        if self.batch is not None and self.start is None:
            raise ArgumentError(
                "backfill.no_start", "Batches need a start to be counted from.", "Give --start beside --batch."
            )
        if isinstance(self.batch, int) and self.batch < 1:
            raise ArgumentError("backfill.bad_batch", f"A batch of {self.batch} is none.", "Give at least 1.")
        if all(_is_time(bound) for bound in (self.start, self.end)):  # in order or not, whatever the column
            self.bounds(CursorKind.TIMESTAMP)

    def __str__(self) -> str:
        words = [f"from {self.start}" if self.start else "", f"to {self.end}" if self.end else ""]
        return " ".join(word for word in (*words, f"by {self.batch}" if self.batch else "") if word)

    def to_json(self) -> dict[str, str]:
        return {name: str(value) for name in ("start", "end", "batch") if (value := getattr(self, name)) is not None}

    def parts(self, kind: CursorKind, now: datetime, done: Mapping[str, str]) -> list[Part]:
        """Its batches on a cursor of this kind, without those that `done` lists: an earlier try of the same."""
        start, end = self.bounds(kind, now.tzinfo)
        begin = self.reached(kind, done)
        parts = list(self._cut(start, end, kind, now))
        return [part for part in parts if begin is None or part.start is None or begin <= part.start]

    def bounds(self, kind: CursorKind, zone: tzinfo | None = UTC) -> tuple[Cursor | None, Cursor | None]:
        """Where it starts and what lies behind its end, on a cursor of this kind; raises where they mean nothing."""
        start = _given("start", self.start, kind, zone) if self.start is not None else None
        end = first_behind(_given("end", self.end, kind, zone), self.end, zone) if self.end is not None else None
        if start is not None and end is not None and end <= start:
            raise ArgumentError(
                "backfill.empty", f"Nothing lies between {self.start} and {self.end}.", "Give an --end after --start."
            )
        return start, end

    def mark(self, reached: str) -> dict[str, str]:
        """What the record keeps, so that the same backfill goes on from there."""
        return {**self.to_json(), "reached": reached}

    def reached(self, kind: CursorKind, done: Mapping[str, str]) -> Cursor | None:
        """How far an earlier try of the same has come, by the mark of it; None where there was none."""
        same = "reached" in done and self.mark(done["reached"]) == dict(done)
        return cursor(kind, done["reached"]) if same else None

    def _cut(self, start: Cursor | None, end: Cursor | None, kind: CursorKind, now: datetime) -> Iterator[Part]:
        if self.batch is None or start is None:
            yield Part(self, start, start, end)
            return
        last = end or (present(kind, now) if kind.is_time else None)
        if last is None:
            raise ArgumentError(
                "backfill.no_end", f"Batches over a column of type {kind} need an end.", "Give --end beside --batch."
            )
        low, number = start, 1
        while (high := start.plus(self.batch, number)) < last:
            yield Part(self, start, low, high)
            low, number = high, number + 1
        yield Part(self, start, low, end)


@dataclass(frozen=True, slots=True)
class Part:
    """One batch of a backfill: from `start`, open where there is none, up to and without `end`.

    `begin` is where the backfill as a whole starts: what lies between is in the table when this batch is read.
    """

    of: Backfill
    begin: Cursor | None
    start: Cursor | None
    end: Cursor | None

    @property
    def mark(self) -> dict[str, str]:
        """What the record keeps, so that the same backfill goes on behind this batch; nothing after the last."""
        if self.of.batch is None or self.end is None:
            return {}
        return self.of.mark(self.end.text())

    def __str__(self) -> str:
        return f"{self.start or 'the beginning'} … {self.end or 'the end'}"


def backfill_of(start: str | None, end: str | None, batch: str | int | None) -> Backfill | None:
    """The backfill that flags ask for, or None when they ask for none."""
    if start is None and end is None and batch is None:
        return None
    text = batch.strip() if isinstance(batch, str) else batch
    length = int(text) if isinstance(text, str) and text.isdecimal() else text
    return Backfill(start, end, duration(length) if isinstance(length, str) else length)


def _given(flag: str, text: str, kind: CursorKind, zone: tzinfo | None) -> Cursor:
    try:
        return cursor(kind, text, zone)
    except ArgumentError as bad:
        raise ArgumentError(bad.code, f"--{flag} is {text!r}, which is no {kind}.", bad.remedy) from bad


def _is_time(text: str | None) -> bool:
    try:
        return text is not None and bool(datetime.fromisoformat(text.strip()))
    except ValueError:
        return False


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


class Mode(StrEnum):
    """How a step goes, as the ledger keeps it."""

    FIRST = "first"
    INCREMENTAL = "incremental"
    FULL = "full"
    BACKFILL = "backfill"
    FULL_REFRESH = "full refresh"
    UP_TO_DATE = "skipped"


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What one step does to its table, on one snapshot of it.

    `window` is what is read of its source, `fetches` are the calls of a function, `batches` those of a backfill, and
    `rounds` the sources of several LOADs that enter as one change; each call, batch and round is a commit of its own,
    and `part` is the batch that this plan is for. `batches_done` are those of an earlier try of the same. `notes`
    explain what stands in the place of a `gap`. `refresh` is how a materialized view follows its inputs. A `dry_run`
    counts, and commits nothing.
    """

    table: Table
    snapshot: Snapshot | None
    request: Request
    variables: Mapping[str, str]
    now: datetime
    mode: Mode
    reason: str
    window: WindowPlan | None = None
    fetches: tuple[Fetch, ...] = ()
    batches: tuple[Part, ...] = ()
    batches_done: int = 0
    rounds: tuple[tuple[SourcePlan, ...], ...] = ()
    part: Part | None = None
    notices: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    gap: Gap | None = None
    refresh: RefreshPlan | None = None
    dry_run: bool = field(default=False, kw_only=True)

    @property
    def base(self) -> Snapshot | None:
        """The snapshot whose rows count: a first run and a full refresh go by none."""
        return None if self.request.full_refresh else self.snapshot

    @property
    def rebuilds(self) -> bool:
        """Whether the rows of the table give way to those of a first run."""
        return self.mode is Mode.FULL_REFRESH

    def on(self, snapshot: Snapshot | None, facts: Facts = NO_FACTS) -> StepPlan:
        """The same step on the table as it is now."""
        again = plan_step(self.table, snapshot, self.request, self.variables, self.now, facts, part=self.part)
        return replace(again, dry_run=self.dry_run)


def fill(plan: StepPlan, facts: Facts) -> StepPlan:
    """The plan with what rows and schemas tell: it has no gap."""
    return plan.on(plan.snapshot, facts)


def plan_step(
    table: Table,
    snapshot: Snapshot | None,
    request: Request = USUAL,
    variables: Mapping[str, str] = NOTHING_GIVEN,
    now: datetime | None = None,
    facts: Facts = NO_FACTS,
    *,
    part: Part | None = None,
) -> StepPlan:
    """What the next run of a table does, as far as its log and these facts tell; or what one batch of a backfill does.

    `snapshot` is as `known_of` gives it, `variables` are those that the run is given, and nothing is wrong with them;
    `now` is in the zone of the run's session.
    """
    ground = StepPlan(table, snapshot, request, variables, now or datetime.now(UTC), Mode.FULL, "", part=part)
    if _is_up_to_date(ground, facts):
        return replace(_planned(ground, facts), mode=Mode.UP_TO_DATE, reason=INPUTS_UNCHANGED, gap=None)
    return _planned(ground, facts)


def _planned(ground: StepPlan, facts: Facts) -> StepPlan:
    table, snapshot = ground.table, ground.snapshot
    found = _of_producer(ground, facts)
    if ground.request.full_refresh and snapshot is not None:
        return replace(found, mode=Mode.FULL_REFRESH, reason=REFRESHED, window=_refreshed(found.window))
    layout = layout_notices(table, snapshot.partition_columns) if snapshot else ()
    return replace(found, notices=(*found.notices, *layout))


def _refreshed(window: WindowPlan | None) -> WindowPlan | None:
    """The window of a first run, of which a full refresh reads the same rows."""
    return window and replace(window, reason=window.reason.replace(FIRST_RUN, Mode.FULL_REFRESH, 1))


def _of_producer(ground: StepPlan, facts: Facts) -> StepPlan:
    """The plan by what gives the table its rows."""
    table, whole_backfill = ground.table, is_backfill(ground) and ground.part is None
    several = table.several is not None and not table.several.recomputed and ground.base is not None
    follows = table.strategy.refresh is not None
    if not (table.function or table.join or follows or whole_backfill or several):
        return plan_window(ground, facts)
    from tidemill.planning.producers import plan_producer  # noqa: PLC0415  most tables are read by a window, or whole

    return plan_producer(ground, facts)


def plan_window(ground: StepPlan, facts: Facts) -> StepPlan:
    """The plan of a table whose rows are read by a window, or whole."""
    table = ground.table
    found = table_window(table, ground.base, ground.variables, ground.now, ground.part, facts)
    window = found.window
    whole = FIRST_RUN if ground.base is None else reason_of_whole(table, ground.variables)
    reason = window.reason if window else whole
    changed = changed_query(table, ground.base, ground.request) or rebuilt_query(table, ground.base)
    gap_in_time = (f"{table.name}: {window.notice}",) if window and window.notice else ()
    notices = () if is_backfill(ground) else (*changed, *gap_in_time)
    plan = replace(ground, reason=reason, window=window, notices=notices, notes=found.notes, gap=found.gap)
    return replace(plan, mode=mode_of(plan))


def is_backfill(ground: StepPlan) -> bool:
    """Whether a backfill was asked for, and the table reads windows."""
    return ground.request.backfill is not None and ground.table.reads_windows


def mode_of(plan: StepPlan) -> Mode:
    """How a step goes; a full refresh is known before."""
    if plan.part is not None or is_backfill(plan):
        return Mode.BACKFILL
    if plan.snapshot is None:
        return Mode.FIRST
    windows = (plan.window, *(each.window for together in plan.rounds for each in together))
    bounded = any(window is not None and window.start is not None for window in windows)
    by_progress = plan.gap is Gap.JOIN_SIDES or bool(plan.table.function and plan.table.window)
    return Mode.INCREMENTAL if bounded or by_progress else Mode.FULL


def reason_of_whole(table: Table, variables: Mapping[str, str]) -> str:
    """Why a table without a window that is there already reads what it does."""
    shown = condition_given(table, variables)
    return shown or reason_of_everything(table.strategy)


def _is_up_to_date(ground: StepPlan, facts: Facts) -> bool:
    """Whether its input is known to be what it was, so is its declaration, and nobody touched its rows."""
    table, snapshot = ground.table, ground.snapshot
    record = snapshot.record if snapshot else None
    if ground.request != USUAL or facts.version is None or record is None:
        return False
    known = snapshot is not None and snapshot.rows is not None and not _is_disturbed(table, snapshot)
    return known and _is_of(record, table) and _versions_of(record, table) == facts.version


def _is_disturbed(table: Table, snapshot: Snapshot) -> bool:
    """Whether others changed rows of a view, which is then made good."""
    return table.strategy.refresh is not None and bool(snapshot.foreign_adds or snapshot.versions_with_removals)


def _is_of(record: Record, table: Table) -> bool:
    """Whether the declaration is what it was, that of one of several sources included."""
    alone = record.inputs.get(table.input)
    config = alone.config_hash if alone else record.config_hash
    return (record.sql_hash, config) == (table.sql_hash, table.config_hash)


def _versions_of(record: Record, table: Table) -> str | None:
    """The versions that the inputs had, as the source of the table gives them."""
    if table.several is None or table.several.recomputed:
        return record.input_versions.get(table.input)
    found = {name: record.input_versions.get(name) for name in table.input_names}
    return None if None in found.values() else json.dumps(found, sort_keys=True)


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step of a plan: what a run would do to a table, and why.

    >>> step = tidemill.Project.load("shop").plan(select="daily")[0]
    >>> step.table, step.reason
    ('daily', 'up to date: its inputs are unchanged')
    """

    table: str
    strategy: str
    reason: str
    notices: tuple[str, ...] = ()


def explain(plan: StepPlan) -> PlannedStep:
    """What a run will do to a table, and why."""
    return PlannedStep(plan.table.name, plan.table.declared_strategy, plan.reason, plan.notices)


def explain_view(view: View, record: Record | None, *, up_to_date: bool = False) -> PlannedStep:
    """When the query of a view, and its checks if it has any, are tried, as far as its own record says."""
    return PlannedStep(view.name, view.strategy, INPUTS_UNCHANGED if up_to_date else _view_reason(view, record))


def _view_reason(view: View, record: Record | None) -> str:
    if record is None:
        return "first run"
    if record.sql_hash != view.sql_hash:
        return "its query changed, and is checked"
    if record.config_hash != view.config_hash:
        return "its checks changed, and are run"
    what = "its checks are run" if view.checks else "its query is checked"
    return f"{what} when what it reads has changed"
