"""What a run reads of tables that it does not make: their versions, asked once, so that all its steps see one state."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tidemill.formats import can
from tidemill.formats.registry import format_at, log_at
from tidemill.formats.traits import Capability
from tidemill.model.record import content_of

if TYPE_CHECKING:
    from tidemill.formats.port import TableLog
    from tidemill.model.record import Snapshot


@dataclass(frozen=True, slots=True)
class Pin:
    """A table at the version that a run reads. `content` is what it holds, whatever is noted on it since."""

    path: str
    log: TableLog
    snapshot: Snapshot
    version: int
    content: str

    @property
    def is_read_by_path(self) -> bool:
        """Whether queries can name this very version by its path."""
        kind = format_at(self.path)
        return kind is not None and can(kind, Capability.READ_BY_PATH) and can(kind, Capability.TIME_TRAVEL)

    def before(self, content: str | None) -> Pin | None:
        """The same table when it held this content; None where that cannot be read any more."""
        version = version_in(content)
        if content is None or version is None or content == self.content:
            return self if content == self.content else None
        commit = self.log.commit(version)
        is_same = commit is not None and content == content_of(self.snapshot.table_id, version, commit.id)
        return replace(self, version=version, content=content) if is_same and self.is_read_by_path else None

    def is_older_than(self, content: str) -> bool:
        """Whether it came to hold this content later."""
        version = version_in(content)
        return version is not None and content.startswith(f"{self.snapshot.table_id}@") and self.version < version

    def content_now(self) -> str | None:
        """The same of the table as it has come to be since."""
        snapshot = log_at(self.path).snapshot()
        return snapshot.content if snapshot else None


def version_in(content: str | None) -> int | None:
    """The version of a table that had this content."""
    number = (content or "").rpartition("@")[2].partition(".")[0]
    return int(number) if number.isdecimal() else None


@dataclass
class Pins:
    """The pins of one run, by path. A table that the run makes is pinned again once it is made."""

    _pins: dict[str, Pin | None] = field(default_factory=dict)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def at(self, path: str) -> Pin | None:
        """The table at a path as the run reads it; None where there is none."""
        with self._turn:
            if path not in self._pins:
                log = log_at(path)
                snapshot = log.snapshot()
                self._pins[path] = Pin(path, log, snapshot, snapshot.version, snapshot.content) if snapshot else None
            return self._pins[path]

    def release(self, path: str) -> None:
        """A step of the run has made another version of it."""
        with self._turn:
            self._pins.pop(path, None)
