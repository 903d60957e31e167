"""Where the sums beside a materialized view are, and whether those that its record names are still there. No Spark."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tidemill.errors import TableError
from tidemill.execution.pins import version_in
from tidemill.formats import DEFAULT_FORMAT
from tidemill.formats.filesystem import FOLDER, file_system, is_folder
from tidemill.formats.registry import format_named
from tidemill.model.record import content_of
from tidemill.planning.refresh import KeptSums

if TYPE_CHECKING:
    from tidemill.formats.port import TableLog
    from tidemill.model.record import Record, Snapshot

logger = logging.getLogger("tidemill")

LOST = "the sums that are kept beside it are not there any more"
NOT_RECORDED = "the sums that are kept beside it are others than its record names"


def sums_path(path: str) -> str:
    """A folder of the view's own, so that they are moved, copied and dropped with it; other tools do not look there."""
    return f"{path.rstrip('/')}/{FOLDER}/sums"


def kept_sums(path: str, record: Record | None) -> KeptSums | None:
    """The sums beside the view at a path that go with its record; None where that names none."""
    if record is None or record.sums is None:
        return None
    return KeptSums(record.sums, _lost(log_of_sums(path), record.sums))


def log_of_sums(path: str) -> TableLog:
    return format_named(DEFAULT_FORMAT).log(sums_path(path))


def _lost(log: TableLog, content: str) -> str | None:
    try:
        snapshot = log.snapshot()
    except TableError:  # something of it is gone
        snapshot = None
    if snapshot is None:
        return LOST
    return None if snapshot.content == content or _is_version(log, snapshot, content) else NOT_RECORDED


def _is_version(log: TableLog, snapshot: Snapshot, content: str) -> bool:
    """Whether an older version of the sums has this content, by a log that still holds it."""
    version = version_in(content)
    commit = None if version is None else log.commit(version)
    return bool(commit) and content == content_of(snapshot.table_id, version or 0, commit.id if commit else "")


def has_sums(path: str) -> bool:
    return is_folder(*file_system(sums_path(path)))


def forget_sums(path: str) -> None:
    """They go, where there are some: the view's record names none any more."""
    files, folder = file_system(sums_path(path))
    try:
        if is_folder(files, folder):
            files.delete_dir(folder)
    except OSError as failure:
        logger.warning("%s, which nothing needs any more, could not be removed: %s", sums_path(path), failure)
