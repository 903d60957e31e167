"""What a run reads of tables that it does not make: their versions, asked once, so that all its steps see one state."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidemill.formats.registry import format_at, log_at
from tidemill.model.format import Capability, can

if TYPE_CHECKING:
    from tidemill.formats.port import TableLog
    from tidemill.model.record import Snapshot


@dataclass(frozen=True, slots=True)
class Pin:
    """A table at the version that a run reads."""

    path: str
    log: TableLog
    snapshot: Snapshot

    @property
    def version(self) -> int:
        return self.snapshot.version

    @property
    def is_read_by_path(self) -> bool:
        """Whether queries can name this very version by its path."""
        kind = format_at(self.path)
        return kind is not None and can(kind, Capability.READ_BY_PATH) and can(kind, Capability.TIME_TRAVEL)

    @property
    def content(self) -> str:
        """What it holds, whatever is noted on it since."""
        return self.snapshot.content

    def content_now(self) -> str | None:
        """The same of the table as it has come to be since."""
        snapshot = log_at(self.path).snapshot()
        return snapshot.content if snapshot else None


@dataclass
class Pins:
    """The pins of one run, by path. A table that the run makes is pinned anew once it is made."""

    _pins: dict[str, Pin | None] = field(default_factory=dict)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def at(self, path: str) -> Pin | None:
        """The table at a path as the run reads it; None where there is none."""
        with self._turn:
            if path not in self._pins:
                log = log_at(path)
                snapshot = log.snapshot()
                self._pins[path] = Pin(path, log, snapshot) if snapshot else None
            return self._pins[path]

    def release(self, path: str) -> None:
        """A step of the run has made another version of it."""
        with self._turn:
            self._pins.pop(path, None)
