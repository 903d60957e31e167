"""A step of several LOADs: each source has its own progress, and what they give is one change.

A source is planned as if it were alone. All that is read is read from the lowest start on: the sources are then
one source, whose newest rows are known, and no stored row has to tell where it came from (ADR 18).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial, singledispatch
from typing import TYPE_CHECKING

from tidemill.changes.compile import column_types
from tidemill.changes.profile import profile
from tidemill.execution import sum_up
from tidemill.execution.attempt import Gathered, Task, held_rows
from tidemill.execution.commit import commit
from tidemill.execution.load_rows import MeetingLoads, Read, put_together, reading_part, ready
from tidemill.execution.prepare import Prepared
from tidemill.execution.producers import LoadsSource
from tidemill.execution.record import inputs_of
from tidemill.execution.step import RowsRead, facts_of, gather, rows_of, session_of_rows, table_facts
from tidemill.formats.base import Change, Profile
from tidemill.model import spelled
from tidemill.model.strategy import Merge, MergeStrategy, Replace
from tidemill.model.table import SchemaPolicy
from tidemill.planning import fill
from tidemill.planning.loads import SourcePlan, window_of_all
from tidemill.planning.notices import NO_FACTS, Facts
from tidemill.planning.windows import known_of
from tidemill.sources import Reading, bytes_of, sum_of_known

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from tidemill.execution import StepResult
    from tidemill.execution.attempt import Attempt
    from tidemill.execution.producers import LoadPart
    from tidemill.formats.base import HeldRows
    from tidemill.model.source import Loads
    from tidemill.model.strategy import Strategy
    from tidemill.planning import StepPlan


def commit_loads(spark: SparkSession, plan: StepPlan, source: LoadsSource) -> StepResult:
    """Executes the plan: in one commit, or in one for its APPENDs and one for its MERGEs.

    A first run, a full refresh, and a run of a table that is computed whole take all sources in one.
    """
    if source.loads.recomputed:
        return commit(Task(spark, plan, source, _gather_recomputed))
    results: list[StepResult] = []
    for number in range(1 if plan.request.full_refresh else len(source.rounds)):
        results.append(commit(Task(spark, plan, source, partial(_gather, number=number))))
        if results[0].first_run:
            break
    return replace(sum_up(results), batches=1, reason=results[0].reason, mode=results[0].mode)


def _gather_recomputed(attempt: Attempt) -> Gathered:
    gathered = gather(attempt, _read_recomputed)
    if attempt.base is None or gathered.held is None:
        return gathered
    by_key = _by_key(_sources(attempt).loads, gathered.prepared, gathered.held)
    return replace(gathered, compared=by_key)


def _read_recomputed(attempt: Attempt, reading: Reading) -> RowsRead:
    """The rows that all LOADs give together; how many these read is known here, and not from the result."""
    found = _sources(attempt).rows(reading).whole().prepared
    filled = fill(attempt.plan, facts_of(attempt, found.change.rows.schema))
    return RowsRead(found.change.rows, filled, filled.window, read=found.rows_read)


def _gather(attempt: Attempt, number: int) -> Gathered:
    """One round of LOADs; on a first run, and where the table is rebuilt, all of them."""
    source, session = _sources(attempt), session_of_rows(attempt)
    # Asked before any rows are read: what comes in between is then seen by the next run.
    versions = source.versions()
    reading = Reading(session, attempt.store.schema(attempt.spark) if attempt.base else None)
    held = held_rows(attempt, session)
    if attempt.base is None or held is None:
        whole, plan, met = source.rows(reading).whole(attempt.plan.part), attempt.plan, None
        prepared, reads = whole.prepared, whole.reads
        window = window_of_all([_read_plan(read) for read in reads])
        window = replace(window, reason=plan.reason) if window and not plan.part else window
    else:
        parts = source.rounds[number]
        plan = fill(attempt.plan, replace(_facts(attempt, parts, reading), versions=versions))
        reads = _read_round(attempt, plan.rounds[number], reading, held.rows)
        prepared = _prepare(attempt, parts, reads, reading, held.rows)
        window = window_of_all([_read_plan(read) for read in reads])
        met = window.predicate if window else None
    starts = [(read.part.source, read.window.start if read.window else None) for read in reads]
    size = sum_of_known(bytes_of(part, start) for part, start in starts)
    return Gathered(plan, prepared, held, window, met=met, reads=reads, versions=versions, bytes_read=size)


def _sources(attempt: Attempt) -> LoadsSource:
    assert isinstance(attempt.source, LoadsSource)  # noqa: S101  such a task is made for no other
    return attempt.source


def _read_plan(read: Read) -> SourcePlan:
    return SourcePlan(read.part.load, read.part.table, read.window, changed=True)


def _facts(attempt: Attempt, parts: Sequence[LoadPart], reading: Reading) -> Facts:
    return Facts(sources={part.load.input: _facts_of_part(attempt, part, reading) for part in parts})


def _facts_of_part(attempt: Attempt, part: LoadPart, reading: Reading) -> Facts:
    if part.table.window is None:
        return NO_FACTS
    with reading_part(part):
        snapshot = known_of(part.table, attempt.base)
        return table_facts(attempt.spark, attempt.store, part.table, snapshot, part.source.schema(reading))


def _read_round(attempt: Attempt, planned: Sequence[SourcePlan], reading: Reading, held: DataFrame) -> tuple[Read, ...]:
    source = _sources(attempt)
    meeting, parts = MeetingLoads(source, reading, held), {part.load.input: part for part in source.parts}
    found = []
    for each in planned:
        part = parts[each.load.input]
        with reading_part(part):
            rows = rows_of(part.source, reading, each.window)
        found.append(meeting.without_overridden(ready(part, rows, each.window, held, attempt.base)))
    return tuple(found)


def _prepare(
    attempt: Attempt, parts: Sequence[LoadPart], reads: tuple[Read, ...], reading: Reading, held: DataFrame
) -> Prepared:
    """What is new in the sources of a round, as one change."""
    if not reads:
        return Prepared(Change(held.where("false"), Profile(0)), parts[0].load.strategy, 0, held.columns)
    prepared = put_together(attempt.table, reads)
    MeetingLoads(_sources(attempt), reading, held).check(prepared, parts)
    return replace(prepared, dropped=_columns_lost(attempt, reads, held))


def _columns_lost(attempt: Attempt, reads: Sequence[Read], held: DataFrame) -> tuple[str, ...]:
    """The columns of the table that none of its sources has, where these are to go."""
    if attempt.table.schema_policy is not SchemaPolicy.SYNC_ALL_COLUMNS:
        return ()
    inputs, parts = inputs_of(attempt, reads), _sources(attempt).parts
    theirs = {name.lower() for each in inputs.values() for name in each.columns}
    known = set(inputs) == {part.load.input for part in parts}
    return tuple(name for name in held.columns if known and name.lower() not in theirs)


def _by_key(loads: Loads, prepared: Prepared, held: HeldRows) -> Prepared | None:
    """The rows of a table that is computed whole, compared by the keys of its MERGEs where rows have one each.

    Then only the rows that differ are written.
    """
    rows = prepared.change.rows
    keys = _common_keys(loads, rows.columns)
    merge = _as_merge(prepared.strategy, keys) if keys else None
    if merge is None or column_types(rows.schema) != column_types(held.schema):
        return None
    found = profile(rows, keys=keys)
    if found.null_keys or found.rows > found.keys:
        return None
    return replace(prepared, strategy=merge, change=replace(prepared.change, profile=found))


@singledispatch
def _as_merge(strategy: Strategy, keys: tuple[str, ...]) -> Strategy | None:  # noqa: ARG001  dispatched on
    """The merge that gives the same table, where the rows of the change have one key each."""
    return None


@_as_merge.register(Replace)
def _(strategy: Replace, keys: tuple[str, ...]) -> Strategy:
    return Merge(keys, MergeStrategy.FULL_MERGE, max_shrink=strategy.max_shrink)


def _common_keys(loads: Loads, columns: Sequence[str]) -> tuple[str, ...]:
    """The keys on which all MERGEs are, as the rows spell them."""
    merges = [keys for load in loads.loads if (keys := load.strategy.keys)]
    alike = len({frozenset(key.lower() for key in keys) for keys in merges}) == 1
    return tuple(name for key in merges[0] if (name := spelled(key, columns))) if alike else ()
