"""What the record of a step of several LOADs says of each source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.model.record import InputRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidemill.execution.attempt import Attempt, Gathered
    from tidemill.execution.load_rows import Read
    from tidemill.model.cursor import Cursor
    from tidemill.model.record import Record


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
