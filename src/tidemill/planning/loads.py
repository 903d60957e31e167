"""What a run reads of each source of a table that has several, and why: each as if it were alone (ADR 18)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidemill.errors import StateError, TidemillError
from tidemill.model.source import common_cursor
from tidemill.model.table import NullTime, SchemaPolicy
from tidemill.planning.notices import NO_FACTS, table_window
from tidemill.planning.windows import FIRST_RUN, NOT_READ_YET, known_of, reason_of_everything

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from tidemill.model.cursor import Cursor
    from tidemill.model.record import Record, Snapshot
    from tidemill.model.source import Load
    from tidemill.model.table import Table
    from tidemill.planning import Part
    from tidemill.planning.notices import Facts, Gap
    from tidemill.planning.windows import WindowPlan


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """What is read of one source; `table` is the table as if it were its only one.

    `changed`: its rows may be others than before. `highest` is the highest time that it ever gave. Without its
    `bound` its declaration lets it be read from the beginning.
    """

    load: Load
    table: Table
    window: WindowPlan | None
    changed: bool
    highest: Cursor | None = None
    bound: Cursor | None = None
    gap: Gap | None = None

    @property
    def reason(self) -> str:
        """What is read of it, and why."""
        return self.window.reason if self.window else reason_of_everything(self.load.strategy)

    def reaches(self, start: Cursor | None) -> bool:
        """Whether it may hold rows from there on."""
        if start is None or self.highest is None or self.highest.kind is not start.kind:
            return True
        includes = self.window is not None and self.window.null_time is NullTime.INCLUDE
        return includes or self.highest >= start

    def since(self, start: Cursor | None) -> SourcePlan:
        """The same, read from there on; rows of old columns, and those below its bound, stay out."""
        if self.window is None or self.window.exclusive or self.window.is_backfill:
            return self
        bounded = self.bound if start is None or (self.bound is not None and start < self.bound) else start
        return replace(self, window=replace(self.window, start=bounded))


@dataclass(frozen=True, slots=True)
class LoadsPlanning:
    """The ground on which the sources of a table are planned: its log, one batch of a backfill, and what is known."""

    table: Table
    snapshot: Snapshot
    variables: Mapping[str, str]
    now: datetime
    part: Part | None
    facts: Facts

    def round(self, loads: Sequence[Load]) -> tuple[SourcePlan, ...]:
        """The sources that a run reads of these, which enter as one change."""
        return sources_to_read([self._placed(load) for load in loads])

    def _placed(self, load: Load) -> SourcePlan:
        try:
            return self._source(load)
        except TidemillError as failure:
            failure.origin = failure.origin or load.origin
            raise

    def _source(self, load: Load) -> SourcePlan:
        table, record = source_table(self.table, load), self.snapshot.record
        before = record.inputs.get(load.input) if record else None
        config = before.config_hash if before else record.config_hash if record else None
        changed = self._is_changed(load, table, config)
        if table.window is None:
            return SourcePlan(load, table, None, changed)
        window, gap = self._window(load, table)
        bound = self._first_window(load, table).start if table.window.start else None
        return SourcePlan(load, table, window, changed, before.highest if before else None, bound, gap)

    def _window(self, load: Load, table: Table) -> tuple[WindowPlan, Gap | None]:
        """The window of a source; one that was never read is read from the beginning."""
        if _is_unread(load, self.snapshot.record):
            window, gap = self._planned(load, table, None)
            return (replace(window, reason=NOT_READ_YET) if window.reason == FIRST_RUN else window), gap
        return self._planned(load, table, known_of(table, self.snapshot))

    def _first_window(self, load: Load, table: Table) -> WindowPlan:
        return self._planned(load, table, None)[0]

    def _planned(self, load: Load, table: Table, snapshot: Snapshot | None) -> tuple[WindowPlan, Gap | None]:
        facts = self.facts.sources.get(load.input, NO_FACTS)
        found = table_window(table, snapshot, self.variables, self.now, self.part, facts)
        assert found.window is not None  # noqa: S101  asked only of sources with a cursor
        return found.window, found.gap

    def _is_changed(self, load: Load, table: Table, config: str | None) -> bool:
        """Whether a source has to be read; one without a cursor that is appended is only if its rows may be others."""
        record, version = self.snapshot.record, self.facts.versions.get(load.input)
        if self.part is not None or record is None or load.input in record.reset:
            return True
        if version is None or record.input_versions.get(load.input) != version:
            return True
        if load.strategy.appends and table.window is None:
            return False
        return config != table.config_hash or bool(self.snapshot.versions_with_removals)


def source_table(table: Table, load: Load) -> Table:
    """The table as if this LOAD were its only one. A column leaves it only when no source has it."""
    alone = table.alone(load)
    if alone.schema_policy is SchemaPolicy.SYNC_ALL_COLUMNS:
        return replace(alone, schema_policy=SchemaPolicy.APPEND_NEW_COLUMNS)
    return alone


def sources_to_read(sources: Sequence[SourcePlan]) -> tuple[SourcePlan, ...]:
    """Those with a common cursor are read from the lowest start on, so that they are as one.

    One that is as it was is left out unless it may hold rows from there on.
    """
    changed = [each for each in sources if each.changed]
    if not changed or common_cursor(tuple(each.load for each in sources)) is None:
        return tuple(changed)
    start = (
        None if any(each.gap for each in changed) else lowest_start([each.window for each in changed if each.window])
    )
    return tuple(each.since(start) for each in sources if each.changed or each.reaches(start))


def lowest_start(windows: Sequence[WindowPlan]) -> Cursor | None:
    """The lowest of their starts; None where one of them has none."""
    kinds = {window.kind for window in windows}
    if len(kinds) > 1:
        raise StateError(
            "load.cursor_types",
            f"The sources have {windows[0].column} in several types: {', '.join(sorted(map(str, kinds)))}.",
            "Cast it to one type in all of them.",
        )
    starts = [window.start for window in windows]
    known = [start for start in starts if start is not None]
    return min(known) if known and len(known) == len(starts) else None


def window_of_all(sources: Sequence[SourcePlan]) -> WindowPlan | None:
    """The windows of all sources that are read as one; none where they do not go by one column."""
    windows = [each.window for each in sources if each.window]
    if not windows or common_cursor(tuple(each.load for each in sources)) is None:
        return None
    reason = reason_of_all(sources)
    if len(windows) == 1:
        return replace(windows[0], reason=reason, floor=None)
    start = lowest_start(windows)
    first = next(window for window in windows if window.start == start)
    nulls = next((window.null_time for window in windows if window.null_time is not NullTime.SKIP), NullTime.SKIP)
    notice = " · ".join(dict.fromkeys(window.notice for window in windows if window.notice)) or None
    return replace(first, null_time=nulls, floor=None, reason=reason, notice=notice)


def reason_of_all(sources: Sequence[SourcePlan]) -> str:
    """What is read of each source, and why."""
    return " · ".join(f"{each.load.source.name} {each.reason}" for each in sources) or "its sources are unchanged"


def _is_unread(load: Load, record: Record | None) -> bool:
    return record is None or (load.input not in record.progress and load.input not in record.reset)
