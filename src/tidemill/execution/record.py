"""What a step writes down: the record of its commit, a copy that log clean-up does not reach, and what its
declaration says of the table, as properties.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidemill.formats import DEFAULT_FORMAT, FORMATS
from tidemill.formats.filesystem import with_retries
from tidemill.formats.registry import store_of
from tidemill.model import KEPT_FROM_RESET
from tidemill.model.record import InputRecord, Record
from tidemill.planning.notices import layout_notices
from tidemill.planning.starts import follows_variables

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from tidemill.execution import StepResult
    from tidemill.execution.attempt import Attempt, Gathered
    from tidemill.execution.joins import Tally
    from tidemill.execution.load_rows import Read
    from tidemill.formats.base import Compiled, Profile
    from tidemill.formats.port import Store
    from tidemill.model.cursor import Cursor
    from tidemill.model.record import Described, Snapshot
    from tidemill.model.table import Table
    from tidemill.planning.windows import WindowPlan


@dataclass(frozen=True, slots=True)
class Recording:
    """What the record of an attempt says of the change that it has gathered."""

    attempt: Attempt
    gathered: Gathered

    def record(self, compiled: Compiled, *, what: str, held: int) -> Record:
        """`what` the commit is called, and the rows that the table `held` before."""
        attempt, gathered, table, window = self.attempt, self.gathered, self._table, self._window
        prepared, snapshot = gathered.prepared, attempt.snapshot
        profile, version = prepared.change.profile, gathered.input_version
        made = Record(
            run_id=attempt.run_id,
            table=table.name,
            sequence=(snapshot.sequence if snapshot else 0) + 1,
            strategy=what,
            at=attempt.now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            rows=profile.rows,
            counts=compiled.record_counts(),
            remainder=compiled.remainder,
            keys=prepared.strategy.keys,
            unique=self._stays_unique(compiled),
            window=window.to_json() if window else {},
            progress=self._progress(profile),
            highest=self._highest(profile),
            floor=window.floor if window else None,
            sql_hash=table.sql_hash,
            config_hash=table.config_hash,
            declared_strategy=table.declared_strategy,
            input_versions={table.input: version} if version and self._stands_for_its_inputs() else {},
            read_versions=gathered.read_versions,
            columns=tuple(prepared.columns),
            reset=self._reset(),
            backfill=self.backfill(),
            base=snapshot.version if snapshot else None,
            held=held,
            joined=self._joined(gathered.tally),
            refresh=self._refresh(),
            expectations={each.expectation.name: each.unmet for each in gathered.expected},
        )
        return record_of_loads(attempt, gathered, made) if gathered.versions else made

    def backfill(self) -> Mapping[str, str]:
        """How far a backfill in batches has come; other runs keep what is known of it."""
        if self._window is not None and self._window.is_backfill:
            return self._window.mark or {}
        return self._before.backfill if self._before else {}

    def _refresh(self) -> Mapping[str, object]:
        found = self.gathered.refreshed
        if found is None:
            return {}
        guard = found.guard or self.attempt.guard
        rest = {"cost": dict(found.cost), "guard": guard}
        return {**found.report.to_json(), **{name: value for name, value in rest.items() if value}}

    def _stands_for_its_inputs(self) -> bool:
        """Whether inputs that are the same mean that the next run has nothing to do."""
        bounded = self._window is not None and self._window.is_partial
        variables, first_run = self.attempt.plan.variables, self.attempt.base is None
        return not bounded and not follows_variables(self._table, variables, first_run=first_run)

    @property
    def _table(self) -> Table:
        return self.attempt.table

    @property
    def _window(self) -> WindowPlan | None:
        return self.gathered.window

    @property
    def _before(self) -> Record | None:
        return self.attempt.before

    def _progress(self, profile: Profile) -> dict[str, Cursor]:
        progress = dict(self._before.progress) if self._before else {}
        watermark = self._window.next_watermark(profile.highest, self.attempt.now) if self._window else None
        if watermark is not None:
            progress[self._table.input] = watermark
        elif self._table.window is None:
            progress.pop(self._table.input, None)
        return progress

    def _reset(self) -> tuple[str, ...]:
        """Inputs that were reset, and that no run has read as a whole since."""
        is_part = self._window is not None and self._window.is_partial
        return tuple(
            name for name in (self._before.reset if self._before else ()) if is_part or name != self._table.input
        )

    def _joined(self, tally: Tally | None) -> Mapping[str, int | str]:
        """What a join has met in its newest window; a window of the past leaves that as it is."""
        if tally is None:
            return {}
        before = self._before.joined if self._before else {}
        past = self._window is not None and self._window.is_backfill and not self._window.moves_on
        return before if before and past else tally.to_json()

    def _stays_unique(self, compiled: Compiled) -> bool:
        keys = self._table.strategy.keys
        if not compiled.unique or not keys:
            return False
        whole = self.attempt.base is None or self._table.strategy.deletes_missing
        return whole or (self.attempt.base is not None and self.attempt.base.unique_on(keys))

    def _highest(self, profile: Profile) -> Cursor | None:
        """The highest time that the table can hold after this commit, where that is known."""
        if self.attempt.base is None or self._table.window is None:
            return profile.highest
        record = self.attempt.base.record
        if record is None or self.attempt.base.foreign_adds or record.highest is None:
            return None
        return record.highest if profile.highest is None else max(record.highest, profile.highest)


def explained(record: Record, table: Table) -> tuple[object, ...]:
    """What a record says that bounds or explains the runs after it."""
    columns = {name.lower() for name in record.columns} if table.strategy.appends else set()
    inputs = {name: (each.floor, each.config_hash) for name, each in record.inputs.items()}
    versions = (record.input_versions, record.sums) if table.strategy.refresh else None
    return record.sql_hash, record.config_hash, record.floor, record.reset, columns, inputs, versions


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


CLUSTERED = "tidemill.cluster_by"  # what the table was clustered by, known without Spark
COMMENT = "comment"  # the property of this name is the table's description


def described(spark: Callable[[], SparkSession], table: Table, result: StepResult) -> StepResult:
    """The result of a step, once its table says of itself what its declaration does; asks for Spark if it does not.

    Properties that are no longer declared stay: somebody may have come to rely on them.
    """
    found, changed = with_retries(table.name, lambda _: _describe(spark, table))
    news = [f"{table.name} has its new {', '.join(changed)}"] if changed and not result.first_run else []
    version = store_of(table).log.version() if changed else result.version
    notices = (*result.notices, *news, *layout_notices(table, found.partition_by))
    return replace(result, version=version, notices=notices)


def _describe(spark: Callable[[], SparkSession], table: Table) -> tuple[Described, list[str]]:
    store = store_of(table)
    found = store.log.described()
    news = differences(table, found)
    if CLUSTERED in news:
        store.cluster(spark(), table.cluster_by)
    if news:
        store.set_properties(spark(), news)
    return found, [_word_of(name) for name in news]


def differences(table: Table, found: Described) -> dict[str, str]:
    """The properties, description included, that the declaration has and the table has not, or has otherwise."""
    held = {name.lower(): value for name, value in found.properties.items()} | {COMMENT: found.description}
    elsewhere = FORMATS[table.format or DEFAULT_FORMAT].protocol
    declared = {name: value for name, value in table.properties.items() if not name.lower().startswith(elsewhere)}
    if not table.reset_allowed or KEPT_FROM_RESET in held:
        declared[KEPT_FROM_RESET] = str(table.reset_allowed).lower()
    if table.description:
        declared[COMMENT] = table.description
    if (table.cluster_by or CLUSTERED in held) and not found.partition_by:
        # The clustering of a table that is overwritten with other columns is forgotten.
        declared[CLUSTERED] = json.dumps({"by": table.cluster_by, "columns": found.columns})
    return {name: value for name, value in declared.items() if held.get(name.lower()) != value}


def _word_of(name: str) -> str:
    return {COMMENT: "description", CLUSTERED: "cluster_by", KEPT_FROM_RESET: "reset_allowed"}.get(name, name)
