"""A step of several LOADs: each source has its own progress, and what they give is one change.

A source is planned as if it were alone. All that is read is read from the lowest start on: the sources are then
one source, whose newest rows are known, and no stored row has to tell where it came from (ADR 18).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidemill.changes.compile import column_types
from tidemill.changes.profile import profile
from tidemill.errors import StateError
from tidemill.execution.load_parts import LoadPart, LoadsSource
from tidemill.execution.load_rows import MeetingLoads, Read, put_together, ready
from tidemill.execution.prepare import Prepared
from tidemill.execution.reading import window_of
from tidemill.execution.results import together
from tidemill.execution.step import Asked, Step, done, run_step
from tidemill.formats.base import Change, HeldRows, Profile
from tidemill.model.names import spelled
from tidemill.model.record import InputRecord
from tidemill.model.source import common_cursor
from tidemill.model.strategy import Append, Merge, MergeStrategy, Replace
from tidemill.model.table import NullTime, SchemaPolicy
from tidemill.model.variables import NOTHING_GIVEN
from tidemill.planning.windows import NOT_READ_YET, known_of
from tidemill.sources.protocol import Reading, bytes_of, sum_of_known

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from tidemill.execution.results import StepResult
    from tidemill.formats.base import Compiled
    from tidemill.model.cursor import Cursor
    from tidemill.model.record import Record
    from tidemill.model.table import Table
    from tidemill.planning.request import Part
    from tidemill.planning.windows import WindowPlan
    from tidemill.sources.protocol import Connector


def run_recomputed(
    spark: SparkSession,
    table: Table,
    source: LoadsSource,
    *,
    now: datetime | None = None,
    part: Part | None = None,
    variables: Mapping[str, str] = NOTHING_GIVEN,
) -> StepResult:
    """Makes the table what all its LOADs give to an empty one, in one commit or none."""
    asked = Asked(spark, table, source, now or datetime.now(UTC), variables)
    return done(asked, lambda again: RecomputedStep(again, part))


class RecomputedStep(Step):
    """Rows that are unique by the keys of the MERGEs are compared by these, and only those that differ are written."""

    def _again(self) -> Step:
        return RecomputedStep(self.asked, self.part)

    def _gathered(self) -> tuple[Prepared, HeldRows | None, WindowPlan | None, str | None]:
        prepared, held, window, version = super()._gathered()
        return replace(prepared, rows_read=self.rows_read), held, window, version

    def _window_of_rows(self, reading: Reading) -> tuple[DataFrame, WindowPlan | None]:
        """The rows that all LOADs give together; how many these read is known here, and not from the result."""
        assert isinstance(self.source, LoadsSource)  # noqa: S101  such a step is made for no other
        found = self.source.whole(reading).prepared
        self.rows_read = found.rows_read
        return found.change.rows, self._window(found.change.rows.schema)

    def _compile(self, prepared: Prepared, held: HeldRows | None, window: WindowPlan | None) -> Compiled:
        by_key = self._by_key(prepared, held) if held is not None else None
        return super()._compile(by_key or prepared, held, window)

    def _by_key(self, prepared: Prepared, held: HeldRows) -> Prepared | None:
        rows, strategy = prepared.change.rows, prepared.strategy
        keys = self._keys(rows)
        if not keys or not isinstance(strategy, Replace) or column_types(rows.schema) != column_types(held.schema):
            return None
        found = profile(rows, keys=keys)
        if found.null_keys or found.rows > found.keys:
            return None
        merge = Merge(keys, MergeStrategy.FULL_MERGE, max_shrink=strategy.max_shrink)
        return replace(prepared, strategy=merge, change=replace(prepared.change, profile=found))

    def _keys(self, rows: DataFrame) -> tuple[str, ...]:
        """The keys on which all MERGEs are, as the rows spell them."""
        merges = [load.strategy.keys for load in self.table.loads if isinstance(load.strategy, Merge)]
        alike = len({frozenset(key.lower() for key in keys) for keys in merges}) == 1
        return tuple(name for key in merges[0] if (name := spelled(key, rows.columns))) if alike else ()


def run_loads(
    spark: SparkSession,
    table: Table,
    source: LoadsSource,
    *,
    now: datetime | None = None,
    part: Part | None = None,
    variables: Mapping[str, str] = NOTHING_GIVEN,
) -> StepResult:
    """Brings the table up to date with all its sources: in one commit, or in one for its APPENDs and one for MERGEs."""
    started = now or datetime.now(UTC)
    results: list[StepResult] = []
    for number in range(len(source.rounds)):
        asked = Asked(spark, table, source, started, variables)  # each commit has a run id of its own
        results.append(done(asked, lambda again, number=number: LoadsStep(again, part, number)))  # type: ignore[misc]
        if results[0].first_run:
            break
    return replace(together(results), batches=1)


def run_any(
    spark: SparkSession,
    table: Table,
    source: Connector,
    *,
    now: datetime | None = None,
    part: Part | None = None,
    variables: Mapping[str, str] = NOTHING_GIVEN,
) -> StepResult:
    """One step, of however many sources; a table that is computed whole each run has one."""
    if isinstance(source, LoadsSource):
        run = run_recomputed if source.loads.recomputed else run_loads
        return run(spark, table, source, now=now, part=part, variables=variables)
    return run_step(spark, table, source, now=now, part=part, variables=variables)


@dataclass(frozen=True)
class _Planned:
    """One source before it is read. Without its `bound` its declaration lets it be read from the beginning."""

    part: LoadPart
    window: WindowPlan | None
    changed: bool
    highest: Cursor | None = None
    bound: Cursor | None = None

    def reaches(self, start: Cursor | None) -> bool:
        """Whether it may hold rows from there on."""
        if start is None or self.highest is None or self.highest.kind is not start.kind:
            return True
        includes = self.window is not None and self.window.null_time is NullTime.INCLUDE
        return includes or self.highest >= start

    def since(self, start: Cursor | None) -> _Planned:
        """The same, read from there on; rows of old columns, and those below its bound, stay out."""
        if self.window is None or self.window.exclusive or self.window.is_backfill:
            return self
        bounded = self.bound if start is None or (self.bound is not None and start < self.bound) else start
        return replace(self, window=replace(self.window, start=bounded))


class LoadsStep(Step):
    """One round of LOADs; on a first run, and where the table is rebuilt, all of them."""

    def __init__(self, asked: Asked, part: Part | None = None, number: int = 0) -> None:
        super().__init__(asked, part)
        assert isinstance(asked.source, LoadsSource)  # noqa: S101  such a step is made for no other
        self.sources, self.number = asked.source, number
        self.reads: tuple[Read, ...] = ()
        self.versions: Mapping[str, str | None] = {}

    def _again(self) -> Step:
        return LoadsStep(self.asked, self.part, self.number)

    def _gathered(self) -> tuple[Prepared, HeldRows | None, WindowPlan | None, str | None]:
        # Asked before any rows are read: what comes in between is then seen by the next run.
        self.versions = {part.load.input: part.source.version() for part in self.sources.parts}
        self.read_versions = self._versions()
        reading = Reading(self._session(), self.store.schema(self.spark) if self.known else None)
        held = self._held(reading.spark)
        if self.known is None or held is None:
            whole = self.sources.whole(reading, self.part)
            self.reads, prepared = whole.reads, whole.prepared
        else:
            prepared = self._round(reading, held.rows)
        return prepared, held, _window_of_all(self.reads), None

    @property
    def _parts(self) -> tuple[LoadPart, ...]:
        return self.sources.rounds[self.number]

    def _round(self, reading: Reading, held: DataFrame) -> Prepared:
        """What is new in the sources of this round, as one change."""
        meeting = MeetingLoads(self.sources, reading, held)
        planned = _to_read([self._planned(part, reading) for part in self._parts])
        self.reads = tuple(meeting.without_overridden(self._read(each, reading, held)) for each in planned)
        if not self.reads:
            nothing = Change(held.where("false"), Profile(0))
            return Prepared(nothing, self._parts[0].load.strategy, 0, held.columns)
        prepared = put_together(self.table, self.reads)
        meeting.check(prepared, self._parts)
        return replace(prepared, dropped=self._dropped(held))

    def _planned(self, part: LoadPart, reading: Reading) -> _Planned:
        record = self.known.record if self.known else None
        before = record.inputs.get(part.load.input) if record else None
        if part.table.window is None:
            return _Planned(part, None, self._is_changed(part, before))
        with part.reading():
            asked = (part.source.schema(reading), self.now, self.part, self.variables)
            window = self._window_of(part, *asked)
            bound = self._window_of(part, *asked, known=False).start if part.table.window.start else None
        return _Planned(part, window, self._is_changed(part, before), before.highest if before else None, bound)

    def _window_of(
        self,
        part: LoadPart,
        schema: StructType,
        now: datetime,
        batch: Part | None,
        variables: Mapping[str, str],
        *,
        known: bool = True,
    ) -> WindowPlan:
        """The window of a source as if it were alone; one that was never read is read from the beginning."""
        record, name = (self.known.record if self.known else None), part.load.input
        unread = record is None or (name not in record.progress and name not in record.reset)
        snapshot = None if unread or not known else known_of(part.table, self.known)
        window = window_of(self.spark, self.store, part.table, schema, snapshot, now, batch, variables)
        assert window is not None  # noqa: S101  asked only of sources with a cursor
        return replace(window, reason=NOT_READ_YET) if unread and window.reason == "first run" else window

    def _is_changed(self, part: LoadPart, before: InputRecord | None) -> bool:
        """Whether a source has to be read; one without a cursor that is appended is only if its rows may be others."""
        record, version = (self.known.record if self.known else None), self.versions[part.load.input]
        if self.part is not None or record is None or part.load.input in record.reset:
            return True
        if version is None or record.input_versions.get(part.load.input) != version:
            return True
        if isinstance(part.load.strategy, Append) and part.table.window is None:
            return False
        config = before.config_hash if before else record.config_hash
        return config != part.table.config_hash or bool(self.known and self.known.robbed)

    def _read(self, planned: _Planned, reading: Reading, held: DataFrame) -> Read:
        part, window = planned.part, planned.window
        with part.reading():
            if window is None or window.start is None:
                rows = part.source.read(replace(reading, until=window.end) if window else reading)
            else:
                rows = part.source.read_since(replace(reading, until=window.end), window.column, window.start)
        return ready(part, rows, window, held, self.known)

    def _bytes_read(self, window: WindowPlan | None) -> int | None:
        """Of the sources that were read, each in its own window."""
        del window
        starts = [(read.part.source, read.window.start if read.window else None) for read in self.reads]
        return sum_of_known(bytes_of(source, start) for source, start in starts)

    def _dropped(self, held: DataFrame) -> tuple[str, ...]:
        """The columns of the table that none of its sources has, where these are to go."""
        if self.table.schema_policy is not SchemaPolicy.SYNC_ALL_COLUMNS:
            return ()
        theirs = {name.lower() for each in self._inputs().values() for name in each.columns}
        known = set(self._inputs()) == {part.load.input for part in self.sources.parts}
        return tuple(name for name in held.columns if known and name.lower() not in theirs)

    def _inputs(self) -> dict[str, InputRecord]:
        """What the record is to say of each source."""
        record = self.known.record if self.known else None
        before = record.inputs if record else {}
        names = [part.load.input for part in self.sources.parts]
        found = {name: before[name] for name in names if name in before}
        return found | {read.part.load.input: _input_record(read, found) for read in self.reads}

    def _record(
        self, prepared: Prepared, compiled: Compiled, window: WindowPlan | None, input_version: str | None
    ) -> Record:
        record = super()._record(prepared, compiled, window, input_version)
        before = self.known.record if self.known else None
        whole = {read.part.load.input for read in self.reads if not (read.window and read.window.is_partial)}
        inputs, progress = self._inputs(), before.progress if before else {}
        columns = dict.fromkeys(name for each in inputs.values() for name in each.columns)
        appends = any(isinstance(part.load.strategy, Append) for part in self.sources.parts)
        return record.with_(
            progress=self._progress({name: each for name, each in progress.items() if name in self.versions}),
            input_versions=self._input_versions(before, whole),
            inputs=inputs,
            columns=tuple(columns),
            floor=None,
            highest=record.highest if self.table.window else None,
            reset=tuple(name for name in (before.reset if before else ()) if name not in whole),
            unique=record.unique and not appends,
        )

    def _progress(self, progress: dict[str, Cursor]) -> dict[str, Cursor]:
        for read in self.reads:
            watermark = read.window.next_watermark(read.highest, self.now) if read.window else None
            if watermark is not None:
                progress[read.part.load.input] = watermark
            elif read.window is None:
                progress.pop(read.part.load.input, None)
        return progress

    def _input_versions(self, before: Record | None, whole: set[str]) -> dict[str, str]:
        read = {each.part.load.input for each in self.reads}
        kept = {name: each for name, each in (before.input_versions if before else {}).items() if name not in read}
        fresh = {name: version for name in whole if (version := self.versions[name]) is not None}
        return {name: version for name, version in {**kept, **fresh}.items() if name in self.versions}


def _to_read(planned: Sequence[_Planned]) -> list[_Planned]:
    """The sources that a run reads. Those with a common cursor from the lowest start on, so that they are as one.

    One that is as it was is left out unless it may hold rows from there on.
    """
    changed = [each for each in planned if each.changed]
    if not changed or common_cursor(tuple(each.part.load for each in planned)) is None:
        return changed
    start = lowest_start([each.window for each in changed if each.window])
    return [each.since(start) for each in planned if each.changed or each.reaches(start)]


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


def _window_of_all(reads: Sequence[Read]) -> WindowPlan | None:
    """The windows of all that was read as one; none where they do not go by one column."""
    windows = [read.window for read in reads if read.window]
    if not windows or common_cursor(tuple(read.part.load for read in reads)) is None:
        return None
    if len(windows) == 1:
        return replace(windows[0], reason=f"{reads[0].part} {windows[0].reason}", floor=None)
    start = lowest_start(windows)
    first = next(window for window in windows if window.start == start)
    nulls = next((window.null_time for window in windows if window.null_time is not NullTime.SKIP), NullTime.SKIP)
    return replace(
        first,
        null_time=nulls,
        floor=None,
        reason=" · ".join(f"{read.part} {read.window.reason}" for read in reads if read.window),
        notice=" · ".join(dict.fromkeys(window.notice for window in windows if window.notice)) or None,
    )


def _input_record(read: Read, before: Mapping[str, InputRecord]) -> InputRecord:
    known, given = before.get(read.part.load.input), read.highest
    highest = [each for each in (known.highest if known else None, given) if each is not None]
    alike = given is None or all(each.kind is given.kind for each in highest)
    window = read.window
    return InputRecord(
        columns=tuple(read.prepared.columns),
        time_column=window.column if window else None,
        floor=window.floor if window else None,
        highest=max(highest) if highest and alike else given,
        config_hash=read.part.table.config_hash,
    )
