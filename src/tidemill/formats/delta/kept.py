"""For how long the log and the files of a Delta table say which rows came and went after a version. No Spark.

The log forgets commits when it is cleaned up, and a vacuum removes files that are part of the table no longer. What
is needed of either, `changes.py` has: of a version that is not the last one its commit and all later ones, and of the
files that it had those whose rows have gone since.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tidemill.formats.delta.changes import FEED, FILES_KEPT, LOG_KEPT, kept_for
from tidemill.formats.delta.format import interval
from tidemill.formats.delta.marks import file_of_marks
from tidemill.formats.port import HistoryEnd

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tidemill.formats.delta.changes import Action
    from tidemill.formats.delta.log import DeltaLog

_CLEANED_UP = "delta.enableExpiredLogCleanup"
_SOON = 4  # the last part of so many


def history_end(log: DeltaLog, since: int, now: datetime) -> HistoryEnd | None:
    """What may be removed first of what says which rows came and went after a version, where that is soon."""
    if log.version() <= since:
        return None
    said = log.described().properties
    ends = (_of_files(log, since, now, said), _of_commits(log, since, now, said))
    return min((each for each in ends if each), key=lambda each: each.at, default=None)


def _of_files(log: DeltaLog, since: int, now: datetime, said: Mapping[str, str]) -> HistoryEnd | None:
    kept = _length(said, FILES_KEPT)
    removed = first_removal(log, since, now - kept + kept / _SOON)
    return HistoryEnd(removed + kept, kept, FILES_KEPT) if removed else None


def _of_commits(log: DeltaLog, since: int, now: datetime, said: Mapping[str, str]) -> HistoryEnd | None:
    first = log.commit(since)
    if first is None or not first.at or said.get(_CLEANED_UP, "true").lower() == "false":
        return None
    kept = _length(said, LOG_KEPT)
    end = datetime.fromisoformat(first.at) + kept
    return HistoryEnd(end, kept, LOG_KEPT) if end - kept / _SOON <= now else None


def _length(said: Mapping[str, str], name: str) -> timedelta:
    return interval(kept_for(said, name)) or interval(kept_for({}, name)) or timedelta()


def first_removal(log: DeltaLog, since: int, before: datetime) -> datetime | None:
    """When the first file left the table from which the rows are read that came and went after a version.

    None where none did before that moment; commits of later are not looked at.
    """
    leaving = _Leaving(is_fed=log.described().properties.get(FEED, "false").lower() == "true")
    for version in range(since + 1, log.version() + 1):
        actions = log.actions(version)
        if actions is None or _time_of(actions) >= before:
            return None
        found = min(leaving.by(actions), default=before)
        if found < before:
            return found
    return None


@dataclass(slots=True)
class _Leaving:
    """The files that leave a table from commit to commit; a restore, which may bring them again, counts as none.

    `came` are files with new rows, `marked` those of before of which rows were marked as deleted.
    """

    is_fed: bool
    came: set[str] = field(default_factory=set)
    marked: set[str] = field(default_factory=set)

    def by(self, actions: Sequence[Action]) -> list[datetime]:
        """When each file that is needed has left the table by this commit."""
        added = {action["add"]["path"]: action["add"] for action in actions if "add" in action}
        removed = [action["remove"] for action in actions if "remove" in action]
        found = [_moment(said.get("deletionTimestamp")) for said in removed if self._is_needed(said, added)]
        if self.is_fed and any("cdc" in action for action in actions):  # the feed's own files are part of no version
            found.append(_time_of(actions))
        self.marked |= {said["path"] for said in removed if said["path"] in added and said.get("dataChange", True)}
        self.came |= {path for path, said in added.items() if said.get("dataChange", True)} - self.marked
        return found

    def _is_needed(self, said: Action, added: Collection[str]) -> bool:
        """A file that comes and goes leaves nothing to read, unless its rows stay: it was joined with others."""
        path, changes_rows = said["path"], said.get("dataChange", True)
        if path in added:  # it stays; the file with its marks does not
            is_first = path not in self.came and path not in self.marked
            return (is_first or self.is_fed) and file_of_marks(said.get("deletionVector")) is not None
        if path in self.came:
            return self.is_fed or not changes_rows
        return changes_rows or path in self.marked


def _time_of(actions: Sequence[Action]) -> datetime:
    """That of a commit, where it says so."""
    info: Action = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    return _moment(info.get("timestamp"))


def _moment(milliseconds: int | None) -> datetime:
    """Where nothing is said, Delta takes a file for removed long ago."""
    return datetime.fromtimestamp((milliseconds or 0) / 1000, UTC)
