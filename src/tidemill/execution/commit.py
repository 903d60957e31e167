"""One commit of a step: the change that was gathered is compiled, checked, recorded and committed, or only counted.

When another writer was first, the task is planned again on what that one has left.
"""

from __future__ import annotations

import logging
import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from tidemill.changes import ALL_COUNTS
from tidemill.changes.compare import compile_whole
from tidemill.execution import StepResult
from tidemill.execution.attempt import (
    Attempt,
    commit_change,
    commit_note,
    count_after,
    count_before,
    count_change,
    drop_columns,
    is_small,
    no_rows,
    part_met,
    refuse_dropping,
    target_of,
)
from tidemill.execution.record import Recording, explained
from tidemill.formats.base import AppendRows, Compiled, OverwriteRows
from tidemill.formats.filesystem import with_retries
from tidemill.formats.registry import attempting, store_of
from tidemill.model.strategy import Replace
from tidemill.planning import Mode
from tidemill.planning.notices import layout_notices
from tidemill.planning.refusals import protection
from tidemill.spark.session import pace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidemill.execution.attempt import Gathered, Task
    from tidemill.execution.prepare import Prepared
    from tidemill.formats.base import CommitResult, HeldRows
    from tidemill.model.check import Checked
    from tidemill.model.record import Record
    from tidemill.model.strategy import Strategy
    from tidemill.model.table import Table

logger = logging.getLogger("tidemill")


def commit(task: Task) -> StepResult:
    """Executes the plan in one commit or none; attempted until no other writer is first."""
    began = time.monotonic()

    def attempted(number: int) -> StepResult:
        with attempting(task.plan.table, number):
            return _attempt(task, number, began)

    return with_retries(task.plan.table.name, attempted)


def _attempt(task: Task, number: int, began: float) -> StepResult:
    with closing(store_of(task.plan.table)) as store:
        attempt = Attempt.of(task, store, number)
        gathered = task.gather(attempt)
        prepared, table = gathered.prepared, attempt.table
        logger.info("%s: %s, %s", table.name, table.strategy, gathered.plan.reason)
        pace(prepared.change.rows.sparkSession, small=is_small(attempt, prepared))
        compiled = _compile(attempt, gathered)
        record = _record(attempt, gathered, compiled)
        checks, warned = _checked(table, prepared, compiled, record, gathered.held) if table.checks else ((), ())
        if not prepared.dropped:
            result = _committed(attempt, gathered, compiled, record, began)
            return replace(result, checks=checks, notices=(*result.notices, *warned))
        _drop(attempt, prepared.dropped)  # only now, when nothing refuses the change
    return _without(prepared.dropped, _attempt(task, number, began))


def _committed(attempt: Attempt, gathered: Gathered, compiled: Compiled, record: Record, began: float) -> StepResult:
    if attempt.plan.dry_run:
        counted, notice = count_change(attempt, compiled, record)
        result = _result(attempt, gathered, compiled, counted, record, began)
        return replace(result, notices=(*result.notices, notice))
    record = _with_sums(attempt, gathered, record)
    committed = commit_change(attempt, compiled, record) or _note(attempt, gathered, compiled, record)
    _tidy_sums(attempt, record)
    return _result(attempt, gathered, compiled, committed, record, began)


def _checked(
    table: Table, prepared: Prepared, compiled: Compiled, record: Record, held: HeldRows | None
) -> tuple[tuple[Checked, ...], tuple[str, ...]]:
    """The checks that let the change pass, and what they warn of."""
    from tidemill.execution.checks import check_change, warnings  # noqa: PLC0415  most merges have no checks

    checks = check_change(table, prepared, compiled, record, held)
    return checks, warnings(checks)


def _drop(attempt: Attempt, columns: Sequence[str]) -> None:
    if attempt.plan.dry_run:
        raise refuse_dropping(attempt.table.name, columns)
    drop_columns(attempt, columns)


# what is to be written


def _compile(attempt: Attempt, gathered: Gathered) -> Compiled:
    prepared, held, merges = gathered.prepared, gathered.held, bool(attempt.table.strategy.keys)
    if gathered.refreshed is not None and gathered.refreshed.compiled is not None:
        return gathered.refreshed.compiled
    if attempt.snapshot is None or held is None:
        return Compiled(AppendRows(prepared.change.rows), unique=merges)
    if attempt.plan.rebuilds:
        compiled = replace(_rebuilt(attempt, gathered, held), unique=merges)
    else:
        compiled = _entering(attempt, gathered, held)
    if compiled.operation is not None or not _has_news(attempt, gathered):
        return compiled
    unique = compiled.unique or attempt.table.function is not None
    return replace(compiled, operation=no_rows(attempt, held), known=ALL_COUNTS, unique=unique)


def _entering(attempt: Attempt, gathered: Gathered, held: HeldRows) -> Compiled:
    """What is small is compared in memory; tables with a protected history are not."""
    prepared, window = gathered.compared or gathered.prepared, gathered.window
    gathered = replace(gathered, prepared=prepared)
    bounded = window is not None and window.beyond is not None
    met = None if bounded else gathered.whole or part_met(attempt, prepared)
    compiled = compile_whole(prepared.strategy, prepared.change, met, attempt.table.name) if met else None
    return compiled or _by_spark(attempt, gathered, prepared.strategy, held)


def _rebuilt(attempt: Attempt, gathered: Gathered, held: HeldRows) -> Compiled:
    """The rows of a first run in the place of those that the table holds, in the layout that is declared now."""
    compiled = _by_spark(attempt, gathered, Replace(), held)
    assert attempt.snapshot is not None  # noqa: S101  it is rebuilt
    if not layout_notices(attempt.table, attempt.snapshot.partition_columns):
        return compiled
    rows = OverwriteRows(gathered.prepared.change.rows, attempt.table.partition_by)
    return replace(compiled, operation=rows, known=ALL_COUNTS)


def _by_spark(attempt: Attempt, gathered: Gathered, strategy: Strategy, held: HeldRows) -> Compiled:
    """Every operation of Spark's on a table that is there: where its history is protected, none loses any of it."""
    from tidemill.changes.protect import compile_on_spark  # noqa: PLC0415  what is small is compared in memory

    target, change = target_of(attempt, gathered, held.rows), gathered.prepared.change
    stages = not attempt.plan.dry_run and not attempt.plan.rebuilds and not attempt.table.checks
    found = protection(target.snapshot, attempt.table)
    store = attempt.store if stages else None
    return compile_on_spark(strategy, change, target, store=store, protected=found[0] if found else None)


# the sums beside a view


def _with_sums(attempt: Attempt, gathered: Gathered, record: Record) -> Record:
    """They are written first, and count once the commit of the rows is there, whose record names them."""
    sums = gathered.refreshed.sums if gathered.refreshed else None
    if sums is None:
        return record
    from tidemill.execution.view_sums import keep_sums  # noqa: PLC0415  few tables have some

    return record.with_(sums=keep_sums(attempt, sums))


def _tidy_sums(attempt: Attempt, record: Record) -> None:
    """Those that no record names any more go."""
    before = attempt.snapshot.record if attempt.snapshot else None
    if record.sums is None and (attempt.table.strategy.refresh or (before and before.sums)):
        from tidemill.execution.sums import forget_sums  # noqa: PLC0415  few tables have some

        forget_sums(attempt.table.path)


# what is to be known, though no row has changed


def _has_news(attempt: Attempt, gathered: Gathered) -> bool:
    """Whether progress or the declaration has moved on, so that a commit has to say so."""
    if attempt.plan.rebuilds:
        return _declares_otherwise(attempt, gathered)
    if attempt.table.function is not None:
        return _was_fetched(attempt, gathered)
    return gathered.window is not None and gathered.window.moves_on


def _declares_otherwise(attempt: Attempt, gathered: Gathered) -> bool:
    """The rows are right, and the record still has another declaration: windows would go by that."""
    record, table = attempt.snapshot.record if attempt.snapshot else None, attempt.table
    if record is None:
        return True
    now = (table.sql_hash, table.config_hash, None, (), gathered.read_versions)
    return (record.sql_hash, record.config_hash, record.floor, record.reset, record.read_versions) != now


def _was_fetched(attempt: Attempt, gathered: Gathered) -> bool:
    """Dates were fetched that the record does not have."""
    record, window = attempt.before, gathered.window
    if window is None or gathered.adopted or record is None:
        return window is not None
    reached = window.next_watermark(gathered.prepared.change.profile.highest, attempt.now)
    backfill = dict(Recording(attempt, gathered).backfill())
    return reached != record.progress.get(attempt.table.input) or dict(record.backfill) != backfill


def _note(attempt: Attempt, gathered: Gathered, compiled: Compiled, record: Record) -> CommitResult | None:
    """A commit without rows, where the last record says otherwise than this one: else it would be news forever."""
    before, table = attempt.snapshot.record if attempt.snapshot else None, attempt.table
    if compiled.operation is not None or gathered.held is None or before is None or table.producer is None:
        return None
    again = attempt.plan.part is not None and before.read_versions != record.read_versions
    if explained(before, table) == explained(record, table) and not again:
        return None
    return commit_note(attempt, compiled, record, gathered.held)


# what is recorded and reported


def _record(attempt: Attempt, gathered: Gathered, compiled: Compiled) -> Record:
    what = str(Mode.FULL_REFRESH if attempt.plan.rebuilds else attempt.table.strategy)
    return Recording(attempt, gathered).record(compiled, what=what, held=count_before(attempt))


def _result(
    attempt: Attempt,
    gathered: Gathered,
    compiled: Compiled,
    committed: CommitResult | None,
    record: Record,
    began: float,
) -> StepResult:
    before, plan, prepared, window = attempt.snapshot, gathered.plan, gathered.prepared, gathered.window
    return StepResult(
        table=attempt.table.name,
        status="created" if before is None else "changed" if compiled.operation else "unchanged",
        strategy=str(attempt.table.strategy),
        version=committed.version if committed else before.version if before else 0,
        counts=committed.counts if committed else compiled.counts,
        total=count_after(attempt, record.held, committed),
        rows_read=prepared.rows_read,
        bytes_read=gathered.bytes_read,
        seconds=time.monotonic() - began,
        first_run=before is None,
        rebuilt=plan.rebuilds,
        mode=plan.mode,
        reason=plan.reason,
        window=window,
        watermark=record.reached(attempt.table.input_names),
        files_rewritten=committed.files_rewritten if committed else 0,
        files_kept=committed.files_kept if committed else before.files if before else 0,
        commit_id=record.run_id if committed else None,
        expectations=gathered.expected,
        joined=gathered.tally,
        refresh=gathered.refreshed.report if gathered.refreshed else None,
        notices=(*prepared.notices, *compiled.notices, *((window.notice,) if window and window.notice else ())),
    )


def _without(dropped: Sequence[str], result: StepResult) -> StepResult:
    """A table that has lost columns has changed, whatever its rows did."""
    them = "it" if len(dropped) == 1 else "them"
    lost = f"{', '.join(dropped)} dropped from {result.table}: its source does not have {them}"
    return replace(result, status="changed", notices=(lost, *result.notices))
