"""What a plan says of a table beside its windows: what it cannot know without Spark, with what stands in its place
until a run; and what a user should know of the table's layout, of rows that stay, and of changes that are missed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import TYPE_CHECKING, NoReturn

from tidemill.formats.registry import kind_of_column
from tidemill.model.cursor import CurrentDate, Cursor, CursorKind, Duration, StartVariable
from tidemill.planning.starts import end_of, goes_by_days, start_of, window_for
from tidemill.planning.windows import EVERYTHING, FIRST_RUN, WindowPlan, column_of, lookback_text, plan_window

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from tidemill.model.record import Record, Snapshot
    from tidemill.model.table import Table, Window
    from tidemill.planning import Part, Request
    from tidemill.planning.joins import JoinFacts
    from tidemill.planning.refresh import ViewInputs

WATERMARK = "<watermark>"


class Gap(StrEnum):
    """What a plan leaves open until the run asks for it."""

    CURSOR_TYPE = "the type of the time column, which the schema of the source has"
    HIGHEST = "the highest value of the time column, which the rows of the table have"
    JOIN_SIDES = "how far both sides of a join go, which their rows have"
    INPUT_CHANGES = "what has changed in the inputs of a view, which their logs tell when it runs"


class GapError(Exception):
    """Only rows tell, and whoever plans cannot ask them."""


def ask_no_rows(version: int) -> NoReturn:
    raise GapError(version)


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known beyond a table's own log when a step is planned; without Spark, little is.

    `kind` is the type of the time column, `columns` are those of the source; None where they are not known. `highest`
    asks a version of the table for its highest time, or raises `GapError`. `sides` is what is known of a join's inputs.
    `version` is that of the source, or of all sources; of a table that has several, `versions` are those of each, by
    input, and `sources` the facts of each. `inputs` are those of a materialized view; `unsafe` is why the run
    has found that it must not, or had better not, go by changes.
    """

    kind: CursorKind | None = None
    columns: Sequence[str] | None = None
    highest: Callable[[int], Cursor | None] = ask_no_rows
    sides: JoinFacts | None = None
    version: str | None = None
    versions: Mapping[str, str | None] = field(default_factory=dict)
    sources: Mapping[str, Facts] = field(default_factory=dict)
    inputs: ViewInputs | None = None
    unsafe: str | None = None


NO_FACTS = Facts()


class Placeholder(Cursor):
    """A value that only a run knows; its literal is the text that stands for it."""

    @classmethod
    def named(cls, text: str) -> Placeholder:
        return cls(CursorKind.STRING, text)

    def literal(self) -> str:
        return self.text()


def cursor_kind(
    table: Table, snapshot: Snapshot | None, facts: Facts, variables: Mapping[str, str], *, first_run: bool
) -> tuple[CursorKind | None, str | None]:
    """The type of the time column, and how that was found where neither the source nor the table says it.

    It is the type of the declared start then; None where there is none.
    """
    known = snapshot.record.progress.get(table.input) if snapshot and snapshot.record else None
    kind = facts.kind or (known.kind if known else kind_of_column(table))
    if kind is not None:
        return kind, None
    window = window_for(table, variables, first_run=first_run)
    start = _bound_of(window, variables)
    if start is None:
        return None, None
    kind = CursorKind.DATE if start == str(CurrentDate()) else _kind_of(start)
    return kind, f"the type of {window.time_column} is not known yet: its start, {start}, is treated as a {kind}"


def open_window(window: Window, reason: str) -> WindowPlan:
    """A window that reads everything, of a column whose type is not known."""
    return WindowPlan(window.time_column, CursorKind.STRING, reason, window.null_time)


def unfilled_window(
    table: Table, kind: CursorKind | None, variables: Mapping[str, str], now: datetime, reason: str
) -> WindowPlan:
    """The window of a run whose watermark is not known: only a variable says where it starts all the same."""
    window = window_for(table, variables, first_run=False)
    bound = start_of(window, kind, None, variables, now) if kind else None
    end = end_of(table, kind, variables, now) if kind else None
    if bound and bound.given:
        return replace(open_window(window, bound.reason or ""), start=bound.value, end=end)
    since = f"{WATERMARK}{_minus(window.lookback)}"
    text = f"greatest({bound.value.literal()}, {since})" if bound and bound.value else since
    text = f"date_trunc('DAY', {text})" if goes_by_days(table) and kind is not CursorKind.DATE else text
    return replace(open_window(window, reason), start=Placeholder.named(text), end=end)


def reason_unfilled(table: Table, snapshot: Snapshot) -> str:
    """Why a run starts at a watermark that it has to ask the table's rows for."""
    record = snapshot.record
    known = record.progress.get(table.input) if record else None
    if known is None:
        return f"{'' if record else 'adopted: '}since its highest {column_of(table)}"
    return f"since {known}{lookback_text(table.window)} (or lower: somebody else removed rows)"


def _bound_of(window: Window, variables: Mapping[str, str]) -> str | None:
    """Where runs start, as it is written or given."""
    match window.moving_start:
        case CurrentDate() as today:
            return str(today)
        case StartVariable(name):
            return variables.get(name)
        case _:
            return window.start


def _kind_of(text: str) -> CursorKind:
    """The type that a bound looks like."""
    if text.strip().lstrip("-").isdecimal():
        return CursorKind.INTEGER
    for kind, read in _READERS:
        try:
            read(text.strip())
        except (ValueError, InvalidOperation):
            continue
        return kind
    return CursorKind.STRING


_READERS = (
    (CursorKind.DATE, date.fromisoformat),
    (CursorKind.TIMESTAMP, datetime.fromisoformat),
    (CursorKind.DECIMAL, Decimal),
)


def _minus(lookback: Duration | int | None) -> str:
    match lookback:
        case None:
            return ""
        case Duration(amount, unit):
            return f" - INTERVAL {amount} {unit.upper()}{'' if amount == 1 else 'S'}"
        case number:
            return f" - {number}"


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
    event = "somebody else removed rows" if snapshot.record else "the table was made by others"
    return (f"{WATERMARK} is the highest {column_of(table)} that the table holds: {event}, so the run asks its rows",)


def layout_notices(table: Table, partitions: Sequence[str]) -> tuple[str, ...]:
    """That a table of these partitions is not laid out as declared now, and what applies the declaration."""
    if table.partition_by and _lower(table.partition_by) != _lower(partitions):
        wanted = f"partitions it by {', '.join(table.partition_by)}"
    elif table.cluster_by and partitions:
        wanted = f"clusters it by {', '.join(table.cluster_by)}"
    else:
        return ()
    held = f"partitioned by {', '.join(partitions)}" if partitions else "without partitions"
    return (f"{table.name} stays {held}; {table.command} --full-refresh {wanted}",)


def _lower(names: Sequence[str]) -> list[str]:
    return [name.lower() for name in names]


def rows_will_stay(table: Table, parts: Sequence[str]) -> str | None:
    """Of a query maintained by MERGE in which `parts` decide which rows there are; None where that is intended."""
    strategy = table.strategy
    if not parts or table.keeps_rows or not strategy.keeps_rows:
        return None
    whole = " (without a time column)" if table.window else ""
    return (
        f"{table.name}: its query has {_listed(parts)} and is maintained by MERGE: rows that the query no longer "
        f"returns will stay; FULL_MERGE ON {', '.join(strategy.keys)}{whole} deletes them, "
        'kept_rows = "intended" accepts them'
    )


def may_miss(table: Table, missed: Sequence[str]) -> str:
    """Of a table whose window does not see changes of these inputs, whenever they come."""
    return (
        f"{table.name}: its window on {column_of(table)} does not see changes of {_listed(missed)} alone: rows "
        f"outside of the window keep their old values; after such a change {_remedy(table)}"
    )


def missed_changes(
    table: Table,
    missed: Sequence[str],
    snapshot: Snapshot | None,
    version_of: Callable[[str], str | None],
    coming: Collection[str] = (),
) -> tuple[str, ...]:
    """Which of these inputs have changed since the last record, or may have: the window of a run does not see that.

    `coming` are tables that the same run updates before, by their names in lower case.
    """
    record = snapshot.record if snapshot else None
    if record is None or table.input in record.reset:  # everything is read
        return ()
    before, now = _versions(record, table.input), {name: version_of(name) for name in missed}
    unknown = {name for name in missed if None in (before.get(name.lower()), now[name])}
    changed = [name for name in missed if name not in unknown and before[name.lower()] != now[name]]
    perhaps = [name for name in missed if name in unknown or (name not in changed and name.lower() in coming)]
    words = [f"{_listed(changed)} {_have(changed)} changed"] if changed else []
    words += [f"{_listed(perhaps)} may have changed"] if perhaps else []
    if not words:
        return ()
    unseen = f"since its last run, and its window on {column_of(table)} does not see that"
    stale = f"rows outside of the window keep their old values; {_remedy(table)}"
    return (f"{table.name}: {' and '.join(words)} {unseen}: {stale}",)


def _versions(record: Record, name: str) -> Mapping[str, str]:
    """By the inputs' names; records of older versions have them as one text, where the whole input was read."""
    if record.read_versions:
        return record.read_versions
    try:
        known = json.loads(record.input_versions.get(name, "{}"))
    except ValueError:
        return {}
    return {key.lower(): value for key, value in known.items()} if isinstance(known, dict) else {}


def _remedy(table: Table) -> str:
    rebuild = (
        f"rebuild them ({table.command} --full-refresh)" if table.reset_allowed else f"run {table.command} --start …"
    )
    some = ", read them again from a time on (--start)" if table.reset_allowed else ""
    return f"{rebuild}{some}, or make it a materialized view, which follows all of its inputs"


def _have(names: Sequence[str]) -> str:
    return "has" if len(names) == 1 else "have"


def _listed(words: Sequence[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def changed_query(table: Table, snapshot: Snapshot | None, request: Request) -> tuple[str, ...]:
    """That rows stay as an old query made them; of an append's, its window says so."""
    bounded = table.reads_windows and not table.strategy.appends
    usual = not request.full_refresh and request.backfill is None
    if not (bounded and usual and _query_changed(table, snapshot)):
        return ()
    again = f" Rebuild them with: {table.command} --full-refresh" if table.reset_allowed else ""
    return (f"{_CHANGED.format(table.name)}; rows before this window were made by the old one.{again}",)


def rebuilt_query(table: Table, snapshot: Snapshot | None) -> tuple[str, ...]:
    """That a table which is read whole becomes what its new query gives."""
    if table.reads_windows or not _query_changed(table, snapshot):
        return ()
    return (f"{_CHANGED.format(table.name)}; the next run rebuilds it",)


_CHANGED = "{}: its query changed since the last run"


def _query_changed(table: Table, snapshot: Snapshot | None) -> bool:
    record = snapshot.record if snapshot else None
    return record is not None and table.sql_hash is not None and record.sql_hash not in (None, table.sql_hash)
