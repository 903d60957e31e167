"""A step of several LOADs: each source has its own progress, and what they give is one change.

A source is planned as if it were alone. All that is read is read from the lowest start on: the sources are then
one source, whose newest rows are known, and no stored row has to tell where it came from (ADR 18).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tidemill.execution.attempt import Gathered, Task, held_rows
from tidemill.execution.commit import commit
from tidemill.execution.load_parts import LoadPart, LoadsSource
from tidemill.execution.load_record import inputs_of
from tidemill.execution.load_rows import MeetingLoads, Read, put_together, ready
from tidemill.execution.prepare import Prepared
from tidemill.execution.reading import RowsRead, facts_of, rows_of, session_of_rows, table_facts, versions_read
from tidemill.execution.results import together
from tidemill.formats.base import Change, Profile
from tidemill.model.table import SchemaPolicy
from tidemill.planning.gaps import NO_FACTS, Facts
from tidemill.planning.loads import SourcePlan, window_of_all
from tidemill.planning.plan import fill
from tidemill.planning.windows import known_of
from tidemill.sources.protocol import Reading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from tidemill.execution.attempt import Attempt
    from tidemill.execution.results import StepResult
    from tidemill.planning.plan import StepPlan


def run_loads(spark: SparkSession, plan: StepPlan, source: LoadsSource) -> StepResult:
    """Executes the plan: in one commit, or in one for its APPENDs and one for its MERGEs.

    A first run and a full refresh take all sources in one.
    """
    results: list[StepResult] = []
    for number in range(1 if plan.request.full_refresh else len(source.rounds)):
        results.append(commit(Task(spark, plan, source, partial(_gather, number=number))))
        if results[0].first_run:
            break
    return replace(together(results), batches=1, reason=results[0].reason, mode=results[0].mode)


def read_recomputed(attempt: Attempt, reading: Reading) -> RowsRead:
    """The rows that all LOADs give together; how many these read is known here, and not from the result."""
    found = _sources(attempt).whole(reading).prepared
    filled = fill(attempt.plan, facts_of(attempt, found.change.rows.schema))
    return RowsRead(found.change.rows, filled, filled.window, read=found.rows_read)


def _gather(attempt: Attempt, number: int) -> Gathered:
    """One round of LOADs; on a first run, and where the table is rebuilt, all of them."""
    source = _sources(attempt)
    # Asked before any rows are read: what comes in between is then seen by the next run.
    versions = {part.load.input: part.source.version() for part in source.parts}
    gathered = partial(Gathered, versions=versions, read_versions=versions_read(attempt))
    session = session_of_rows(attempt)
    reading = Reading(session, attempt.store.schema(attempt.spark) if attempt.base else None)
    held = held_rows(attempt, session)
    if attempt.base is None or held is None:
        whole = source.whole(reading, attempt.plan.part)
        window = window_of_all([_read_plan(read) for read in whole.reads])
        explained = replace(window, reason=attempt.plan.reason) if window and not attempt.plan.part else window
        return gathered(attempt.plan, whole.prepared, held, explained, reads=whole.reads)
    facts = _facts(attempt, source.rounds[number], reading)
    plan = fill(attempt.plan, replace(facts, versions=versions))
    reads = _read_round(attempt, plan.rounds[number], reading, held.rows)
    prepared = _prepare(attempt, source.rounds[number], reads, reading, held.rows)
    window = window_of_all([_read_plan(read) for read in reads])
    met = window.predicate if window else None
    return gathered(plan, prepared, held, window, met=met, reads=reads)


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
    with part.reading():
        snapshot = known_of(part.table, attempt.base)
        return table_facts(attempt.spark, attempt.store, part.table, snapshot, part.source.schema(reading))


def _read_round(attempt: Attempt, planned: Sequence[SourcePlan], reading: Reading, held: DataFrame) -> tuple[Read, ...]:
    source = _sources(attempt)
    meeting, parts = MeetingLoads(source, reading, held), {part.load.input: part for part in source.parts}
    found = []
    for each in planned:
        part = parts[each.load.input]
        with part.reading():
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
