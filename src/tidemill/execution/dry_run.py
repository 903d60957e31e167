"""A step that only counts: what its commit would do to rows and files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError
from tidemill.formats.base import AppendRows, CommitResult
from tidemill.formats.history import completed
from tidemill.model.format import Capability

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidemill.execution.attempt import Attempt
    from tidemill.formats.base import Compiled, Operation
    from tidemill.model.record import Record


def count_change(attempt: Attempt, compiled: Compiled, record: Record) -> tuple[CommitResult | None, str]:
    """What the commit would come to, and a notice of what it would do to files."""
    store, operation = attempt.store, compiled.operation
    files = attempt.snapshot.files if attempt.snapshot else 0
    if operation is None:
        return None, f"would write nothing: {files:,} {'file stays' if files == 1 else 'files stay'}"
    if not store.can(Capability.REHEARSAL):
        return _counted(attempt, compiled, operation, record)
    result, read = store.rehearse(operation, record, attempt.snapshot)
    return result, f"would read {read:,} of {files:,} files and rewrite {result.files_rewritten:,}"


def refuse_dropping(name: str, columns: Sequence[str]) -> ArgumentError:
    """The error for a change that drops columns before it can be counted."""
    return ArgumentError(
        "merge.dry_run",
        f"{', '.join(columns)} would leave {name} before the merge, in a commit of its own, and a dry run makes none.",
        "Ask with --schema-policy append_new_columns what the merge would do after that.",
    )


def _counted(attempt: Attempt, compiled: Compiled, operation: Operation, record: Record) -> tuple[CommitResult, str]:
    """Only the rows are reported where the store finds the files that it rewrites while it writes."""
    appends = isinstance(operation, AppendRows)
    counts = completed(record, {"inserted": operation.rows.count()}) if appends else compiled.counts
    before = attempt.snapshot.version if attempt.snapshot else -1
    result = CommitResult(max(before, 0), alone=True, counts=counts, files_rewritten=0, files_kept=0)
    return result, f"would be version {before + 1}"
