"""The window of a table's next run as far as it is known: its gaps are named, and placeholders stand for them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidemill.planning.gaps import (
    WATERMARK,
    Gap,
    GapError,
    Placeholder,
    cursor_kind,
    open_window,
    reason_unfilled,
    unfilled_window,
)
from tidemill.planning.starts import window_for
from tidemill.planning.windows import EVERYTHING, FIRST_RUN, WindowPlan, plan_window

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from tidemill.model.cursor import CursorKind
    from tidemill.model.record import Snapshot
    from tidemill.model.table import Table
    from tidemill.planning.gaps import Facts
    from tidemill.planning.request import Part


@dataclass(frozen=True, slots=True)
class TableWindow:
    """A window, what of it is not known yet, and what a reader has to know about that."""

    window: WindowPlan | None
    gap: Gap | None = None
    notes: tuple[str, ...] = ()


def table_window(
    table: Table,
    snapshot: Snapshot | None,
    variables: Mapping[str, str],
    now: datetime,
    part: Part | None,
    facts: Facts,
) -> TableWindow:
    """The window that the next run reads, or one batch of a backfill; without a snapshot it is a first run."""
    if table.window is None:
        return TableWindow(None)
    kind, assumed = cursor_kind(table, snapshot, facts, variables, first_run=snapshot is None)
    notes = (assumed,) if assumed else ()
    if kind is None:
        gap = Gap.CURSOR_TYPE
        if snapshot is None:
            return TableWindow(open_window(window_for(table, variables, first_run=True), FIRST_RUN), gap)
        return TableWindow(_unfilled(table, None, snapshot, variables, now), gap)
    if assumed and snapshot is None:  # what is only assumed must not be found wrong, and a first run does not look back
        table = _without_lookback(table)
    try:
        window = plan_window(table, kind, facts.columns, snapshot, facts.highest, now, part, variables)
    except GapError:
        assert snapshot is not None  # noqa: S101  its rows were asked for
        unfilled = _unfilled(table, kind, snapshot, variables, now)
        return TableWindow(unfilled, Gap.HIGHEST, (*notes, *_asked_of_rows(table, snapshot, unfilled)))
    return TableWindow(window, Gap.CURSOR_TYPE if assumed else None, notes)


def _without_lookback(table: Table) -> Table:
    return replace(table, window=replace(table.window, lookback=None)) if table.window else table


def _unfilled(
    table: Table, kind: CursorKind | None, snapshot: Snapshot, variables: Mapping[str, str], now: datetime
) -> WindowPlan:
    if not table.reads_windows:
        return open_window(window_for(table, variables, first_run=False), EVERYTHING)
    return unfilled_window(table, kind, variables, now, reason_unfilled(table, snapshot))


def _asked_of_rows(table: Table, snapshot: Snapshot, window: WindowPlan) -> tuple[str, ...]:
    if not isinstance(window.start, Placeholder):
        return ()
    column = table.window.time_column if table.window else ""
    event = "somebody else removed rows" if snapshot.record else "the table was made by others"
    return (f"{WATERMARK} is the highest {column} that the table holds: {event}, so the run asks its rows",)
