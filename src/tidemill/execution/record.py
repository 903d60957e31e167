"""What a step writes down of itself: the record of its commit, and a copy that log clean-up does not reach."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidemill.model.record import InputRecord, Record
from tidemill.planning.starts import follows_variables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from tidemill.execution.attempt import Attempt, Gathered
    from tidemill.execution.joins import Tally
    from tidemill.execution.load_rows import Read
    from tidemill.execution.prepare import Prepared
    from tidemill.formats.base import Compiled, Profile
    from tidemill.formats.port import Store
    from tidemill.model.cursor import Cursor
    from tidemill.model.record import Snapshot
    from tidemill.model.table import Table
    from tidemill.planning.windows import WindowPlan


@dataclass(frozen=True, slots=True)
class Recording:
    """The table before the step, and the window of the step. `known` is what of the snapshot counts for its rows."""

    table: Table
    snapshot: Snapshot | None
    known: Snapshot | None
    window: WindowPlan | None

    def record(
        self,
        prepared: Prepared,
        compiled: Compiled,
        *,
        run_id: str,
        what: str,
        now: datetime,
        held: int,
        input_version: str | None = None,
        read_versions: Mapping[str, str] | None = None,
        tally: Tally | None = None,
    ) -> Record:
        """`what` the commit is called, the rows that the table `held` before, and what a join has met (`tally`)."""
        profile, strategy, window = prepared.change.profile, prepared.strategy, self.window
        return Record(
            run_id=run_id,
            table=self.table.name,
            sequence=(self.snapshot.sequence if self.snapshot else 0) + 1,
            strategy=what,
            at=now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            rows=profile.rows,
            counts=compiled.record_counts(),
            remainder=compiled.remainder,
            keys=strategy.keys,
            unique=self._stays_unique(compiled),
            window=window.to_json() if window else {},
            progress=self._progress(profile, now),
            highest=self._highest(profile),
            floor=window.floor if window else None,
            sql_hash=self.table.sql_hash,
            config_hash=self.table.config_hash,
            declared_strategy=self.table.declared_strategy,
            input_versions={self.table.input: input_version} if input_version else {},
            read_versions=read_versions or {},
            columns=tuple(prepared.columns),
            reset=self._reset(),
            backfill=self.backfill(),
            base=self.snapshot.version if self.snapshot else None,
            held=held,
            joined=self._joined(tally),
        )

    def stands_for_its_inputs(self, variables: Mapping[str, str]) -> bool:
        """Whether inputs that are the same mean that the next run has nothing to do."""
        bounded = self.window is not None and self.window.is_partial
        return not bounded and not follows_variables(self.table, variables, first_run=self.known is None)

    def backfill(self) -> Mapping[str, str]:
        """How far a backfill in batches has come; other runs keep what is known of it."""
        if self.window is not None and self.window.is_backfill:
            return self.window.mark or {}
        return self._before.backfill if self._before else {}

    @property
    def _before(self) -> Record | None:
        return self.known.record if self.known else None

    def _progress(self, profile: Profile, now: datetime) -> dict[str, Cursor]:
        progress = dict(self._before.progress) if self._before else {}
        watermark = self.window.next_watermark(profile.highest, now) if self.window else None
        if watermark is not None:
            progress[self.table.input] = watermark
        elif self.table.window is None:
            progress.pop(self.table.input, None)
        return progress

    def _reset(self) -> tuple[str, ...]:
        """Inputs that were reset, and that no run has read as a whole since."""
        is_part = self.window is not None and self.window.is_partial
        return tuple(
            name for name in (self._before.reset if self._before else ()) if is_part or name != self.table.input
        )

    def _joined(self, tally: Tally | None) -> Mapping[str, int | str]:
        """What a join has met in its newest window; a window of the past leaves that as it is."""
        if tally is None:
            return {}
        before = self._before.joined if self._before else {}
        past = self.window is not None and self.window.is_backfill and not self.window.moves_on
        return before if before and past else tally.to_json()

    def _stays_unique(self, compiled: Compiled) -> bool:
        keys = self.table.strategy.keys
        if not compiled.unique or not keys:
            return False
        whole = self.known is None or self.table.strategy.deletes_missing
        return whole or (self.known is not None and self.known.unique_on(keys))

    def _highest(self, profile: Profile) -> Cursor | None:
        """The highest time that the table can hold after this commit, where that is known."""
        if self.known is None or self.table.window is None:
            return profile.highest
        record = self.known.record
        if record is None or self.known.foreign_adds or record.highest is None:
            return None
        return record.highest if profile.highest is None else max(record.highest, profile.highest)


def explained(record: Record, table: Table) -> tuple[object, ...]:
    """What a record says that bounds or explains the runs after it."""
    columns = {name.lower() for name in record.columns} if table.strategy.appends else set()
    inputs = {name: (each.floor, each.config_hash) for name, each in record.inputs.items()}
    return record.sql_hash, record.config_hash, record.floor, record.reset, columns, inputs


_SHARE = 4  # a copy older than a quarter of the retention is replaced


def keep_anchor(store: Store, spark: SparkSession, snapshot: Snapshot | None) -> None:
    """Copies the last record to where it stays, when the log may lose it before the next look."""
    if snapshot is None or snapshot.record is None or snapshot.record_version is None:
        return
    if snapshot.anchored == snapshot.record_version or not _is_due(store, snapshot):
        return
    store.anchor(spark, snapshot.record, snapshot.record_version)


def _is_due(store: Store, snapshot: Snapshot) -> bool:
    retained = store.retention(snapshot)
    if retained is None:
        return False
    last_copied = snapshot.anchored if snapshot.anchored is not None else 0
    commit = store.log.commit(last_copied)
    return commit is None or datetime.fromisoformat(commit.at) <= datetime.now(UTC) - retained / _SHARE


def record_of_loads(attempt: Attempt, gathered: Gathered, record: Record) -> Record:
    """The record of the commit, with the progress of each source."""
    before, versions = attempt.before, gathered.versions
    whole = {read.part.load.input for read in gathered.reads if not (read.window and read.window.is_partial)}
    inputs, progress = inputs_of(attempt, gathered.reads), before.progress if before else {}
    columns = dict.fromkeys(name for each in inputs.values() for name in each.columns)
    some_appended = any(load.strategy.appends for load in attempt.table.loads)
    return record.with_(
        progress=_progress(attempt, gathered, {name: each for name, each in progress.items() if name in versions}),
        input_versions=_input_versions(gathered, before, whole),
        inputs=inputs,
        columns=tuple(columns),
        floor=None,
        highest=record.highest if attempt.table.window else None,
        reset=tuple(name for name in (before.reset if before else ()) if name not in whole),
        unique=record.unique and not some_appended,
    )


def inputs_of(attempt: Attempt, reads: Sequence[Read]) -> dict[str, InputRecord]:
    """What the record is to say of each source."""
    before = attempt.before.inputs if attempt.before else {}
    found = {load.input: before[load.input] for load in attempt.table.loads if load.input in before}
    return found | {read.part.load.input: _input_record(read, found) for read in reads}


def _progress(attempt: Attempt, gathered: Gathered, progress: dict[str, Cursor]) -> dict[str, Cursor]:
    for read in gathered.reads:
        watermark = read.window.next_watermark(read.highest, attempt.now) if read.window else None
        if watermark is not None:
            progress[read.part.load.input] = watermark
        elif read.window is None:
            progress.pop(read.part.load.input, None)
    return progress


def _input_versions(gathered: Gathered, before: Record | None, whole: set[str]) -> dict[str, str]:
    read = {each.part.load.input for each in gathered.reads}
    kept = {name: each for name, each in (before.input_versions if before else {}).items() if name not in read}
    fresh = {name: version for name in whole if (version := gathered.versions[name]) is not None}
    return {name: version for name, version in {**kept, **fresh}.items() if name in gathered.versions}


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
