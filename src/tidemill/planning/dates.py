"""Which dates a function is asked for, and why: progress is the last date fetched, whatever rows came."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError, StateError, TableError
from tidemill.model import quote
from tidemill.model.cursor import Cursor, CursorKind, Duration, cursor
from tidemill.model.project import NOTHING_GIVEN
from tidemill.model.table import NullTime
from tidemill.planning.notices import GapError
from tidemill.planning.windows import WindowPlan, highest_left, lookback_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tidemill.model.function import Function
    from tidemill.model.record import Snapshot
    from tidemill.model.table import Table, Window
    from tidemill.planning import Backfill
    from tidemill.sources import Mode

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Fetch(WindowPlan):
    """The dates of one call, from `start` up to and without `end`; its rows enter whatever their own time is."""

    mode: Mode = "first"
    fetched_to: date | None = None

    @property
    def first(self) -> date:
        assert self.start is not None  # noqa: S101  dates always begin somewhere
        assert isinstance(self.start.value, date)  # noqa: S101
        return self.start.value

    @property
    def last(self) -> date:
        assert self.end is not None  # noqa: S101  dates always end somewhere
        assert isinstance(self.end.value, date)  # noqa: S101
        return self.end.value - _DAY

    @property
    def count(self) -> int:
        return (self.last - self.first).days + 1

    def until(self, other: Fetch) -> Fetch:
        """From its first date to the last of another one."""
        return replace(other, start=self.start)

    @property
    def predicate(self) -> str:
        """Rows are not chosen by their time: a schedule holds games that are months ahead."""
        return f"{quote(self.column)} IS NOT NULL" if self.null_time is NullTime.SKIP else "true"

    @property
    def beyond(self) -> Cursor | None:
        """What is fetched is newer than all that is stored."""
        return None

    def next_watermark(self, highest: Cursor | None, now: datetime) -> Cursor | None:  # noqa: ARG002
        """The last date that was asked for, also when no rows came, and never one that is yet to come.

        A backfill that begins above it leaves a gap, so it does not move it; neither does a run whose table was taken
        back since its dates were planned.
        """
        assert self.fetched_to is not None  # noqa: S101
        reached = Cursor(CursorKind.DATE, self.fetched_to)
        if self.watermark is None:
            return reached
        above = self.begin or Cursor(CursorKind.DATE, self.first - _DAY)
        return self.watermark if self.watermark < above else max(self.watermark, reached)

    def to_json(self) -> dict[str, str]:
        return {
            "column": self.column,
            "reason": self.reason,
            "start": self.first.isoformat(),
            "last": self.last.isoformat(),
        }


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a table has been fetched: None where from the beginning. `adopted`: its record does not say so."""

    watermark: Cursor | None
    reason: str
    adopted: bool = False


def progress_of(
    table: Table, snapshot: Snapshot | None, held_highest: Callable[[int], Cursor | None], now: datetime
) -> Progress:
    """What the table's log tells or, where somebody else has made or changed it, its rows.

    `held_highest` asks a version of the table for its highest time.
    """
    function, window = _parts_of(table)
    if snapshot is None:
        return Progress(None, "first run")
    record = snapshot.record
    if record and table.input in record.reset:
        return Progress(None, "its watermark was reset")
    known = record.progress.get(table.input) if record else None
    if known is not None and known.kind is not CursorKind.DATE:
        known = Cursor(CursorKind.DATE, _day(table, function, known))
    if known is not None and not snapshot.versions_with_removals:
        return Progress(known, f"since {known}{lookback_text(window)}")
    tops = highest_left(snapshot, held_highest)
    if tops is None:
        return Progress(None, "the table is empty", adopted=True)
    held = Cursor(CursorKind.DATE, min(*(_day(table, function, top) for top in tops), function.today(now)))
    if known is None:
        whose = "" if record else "adopted: "
        return Progress(
            held, f"{whose}since its highest {window.time_column} {held}{lookback_text(window)}", adopted=True
        )
    lower = min(known, held)
    return Progress(lower, f"somebody else changed rows: since {lower}{lookback_text(window)}", adopted=True)


def fetches_of(
    table: Table,
    progress: Progress,
    now: datetime,
    asked: Backfill | None = None,
    done: Mapping[str, str] = NOTHING_GIVEN,
) -> list[Fetch]:
    """The calls of one run, in order: one, or one for each batch.

    `asked` are the dates that somebody wants, and `done` tells how far an earlier try of the same has come.
    """
    function, window = _parts_of(table)
    today = function.today(now)
    first, last = _bounds(window, progress, today, asked)
    if last < first:
        raise ArgumentError(
            "backfill.empty" if asked else "functions.no_dates",
            f"{table.name} has no dates to fetch: {first} lies after {last}.",
            "Give an --end after --start." if asked else "Its start lies ahead: give an earlier one.",
            origin=table.origin,
        )
    begin = Cursor(CursorKind.DATE, first) if asked and asked.start else None
    whole = Fetch(
        column=window.time_column,
        kind=CursorKind.DATE,
        reason=f"backfill {asked}" if begin else progress.reason,
        null_time=window.null_time,
        watermark=progress.watermark,
        begin=begin,
        mode=_mode(progress, asked),
    )
    batch = _batch(function, asked)
    pieces = list(_cut(first, last, batch))
    return [
        replace(
            whole,
            start=Cursor(CursorKind.DATE, low),
            end=Cursor(CursorKind.DATE, high + _DAY),
            fetched_to=min(high, today),
            mark=asked.mark((high + _DAY).isoformat())
            if asked and len(pieces) > 1 and high < last
            else {}
            if asked
            else None,
        )
        for low, high in pieces
        if _is_left(low, asked, done)
    ]


def last_asked(asked: Backfill | None) -> date | None:
    """The last date that somebody wants; None where that is today's."""
    return _date(asked.end) if asked and asked.end else None


def whole_of(table: Table, now: datetime) -> Fetch:
    """All dates that the table can have, in one call: for a rebuild, which is one commit."""
    _, window = _parts_of(table)
    if window.start is None:
        raise TableError(
            "functions.no_start",
            f"{table.name} cannot be rebuilt: nothing says which dates it has, and all but yesterday and today would "
            "be lost.",
            'Give its first date where it is declared: start="2023-10-01".',
            origin=table.origin,
        )
    fetches = fetches_of(table, Progress(None, "full refresh"), now)
    return fetches[0].until(fetches[-1])


def _parts_of(table: Table) -> tuple[Function, Window]:
    assert table.function is not None  # noqa: S101  asked only of tables that functions keep
    assert table.window is not None  # noqa: S101  and which have a time column
    return table.function, table.window


def _bounds(window: Window, progress: Progress, today: date, asked: Backfill | None) -> tuple[date, date]:
    last = last_asked(asked) or today
    if asked and asked.start:
        return _date(asked.start), last
    start = _date(window.start) if window.start else None
    if progress.watermark is None:
        return start or today - _DAY, last
    since = progress.watermark.less(window.lookback).value
    assert isinstance(since, date)  # noqa: S101  it is a cursor of dates
    return max(min(since, today), start or since), last


def _mode(progress: Progress, asked: Backfill | None) -> Mode:
    if asked:
        return "backfill"
    return "first" if progress.watermark is None and progress.reason != "its watermark was reset" else "incremental"


def _batch(function: Function, asked: Backfill | None) -> Duration | None:
    if asked is None or asked.batch is None:
        return function.batch
    if isinstance(asked.batch, Duration):
        return asked.batch
    raise ArgumentError(
        "backfill.bad_batch", f"Dates cannot be cut into batches of {asked.batch}.", 'Use a length of time ("7 days").'
    )


def _cut(first: date, last: date, batch: Duration | None) -> Iterator[tuple[date, date]]:
    low, number = first, 1
    while batch and (high := batch.after(first, number)) <= last:
        yield low, high - _DAY
        low, number = high, number + 1
    yield low, last


def _is_left(low: date, asked: Backfill | None, done: Mapping[str, str]) -> bool:
    """Whether an earlier try of the same backfill has not come so far."""
    reached = asked.reached(CursorKind.DATE, done) if asked else None
    return reached is None or reached <= Cursor(CursorKind.DATE, low)


def _date(text: str) -> date:
    found = cursor(CursorKind.DATE, text).value
    assert isinstance(found, date)  # noqa: S101  it is a cursor of dates
    return found


def _day(table: Table, function: Function, value: Cursor) -> date:
    """The date of a time, in the function's time zone."""
    match value.value:
        case datetime() as moment:
            return moment.astimezone(function.timezone).date() if moment.tzinfo else moment.date()
        case date() as day:
            return day
        case str() as text:
            try:
                return date.fromisoformat(text[:10])
            except ValueError:
                pass
    raise StateError(
        "state.no_date",
        f"{table.name} has no record of what was fetched, and its highest {_parts_of(table)[1].time_column}, {value}, "
        "is no date.",
        f"Say how far it goes: tidemill set-watermark {table.input} {table.name} 2024-01-31",
        origin=table.origin,
    )


@dataclass(frozen=True, slots=True)
class FetchPlan:
    """The calls of one run and why; `progress` is None where only the table's rows tell how far it was fetched."""

    fetches: tuple[Fetch, ...]
    reason: str
    progress: Progress | None


def plan_fetches(
    table: Table,
    snapshot: Snapshot | None,
    asked: Backfill | None,
    now: datetime,
    held_highest: Callable[[int], Cursor | None],
) -> FetchPlan:
    """Which dates, and why, as far as they are known; `held_highest` may raise `GapError`."""
    _, window = _parts_of(table)
    progress: Progress | None = None
    try:
        progress = progress_of(table, snapshot, held_highest, now)
    except GapError:
        if asked is None or asked.start is None:
            known = snapshot is not None and snapshot.record is not None
            since = f"{'' if known else 'adopted: '}since its highest {window.time_column}"
            return FetchPlan((), f"{since}, to {last_asked(asked) or 'today'}", None)
    done = snapshot.record.backfill if snapshot and snapshot.record else {}
    fetches = fetches_of(table, progress or Progress(None, "backfill"), now, asked, done)
    return FetchPlan(tuple(fetches), f"{fetches[0].reason}: {_dates(fetches)}", progress)


def _dates(fetches: Sequence[Fetch]) -> str:
    count, first, last = sum(each.count for each in fetches), fetches[0].first, fetches[-1].last
    batches = f" in {len(fetches)} batches" if len(fetches) > 1 else ""
    return f"{first}, 1 date" if count == 1 else f"{first} … {last}, {count:,} dates{batches}"
