"""What a run reads of tables that it does not make: their versions, asked once, so that all its steps see one state."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from tidemill.formats import can
from tidemill.formats.registry import format_at, log_at, store_at
from tidemill.formats.traits import Capability
from tidemill.model.record import content_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

    from tidemill.formats.base import KeyRange, Reach
    from tidemill.formats.port import HistoryEnd, InputChanges
    from tidemill.model.record import Commit, Snapshot
    from tidemill.sources.files.versions import FilesLog


class VersionLog(Protocol):
    """What is known of something with versions; of tables their logs know it (`TableLog`)."""

    def snapshot(self) -> Snapshot | None: ...

    def version(self) -> int: ...

    def commit(self, version: int) -> Commit | None: ...

    def columns(self) -> list[str]: ...

    def column_types(self) -> dict[str, str]: ...

    def reach(self, ranges: Sequence[KeyRange]) -> Reach: ...

    def history_end(self, version: int, now: datetime) -> HistoryEnd | None: ...

    def changes_since(self, version: int, until: int | None = None, *, content: str | None = None) -> InputChanges: ...


class VersionRows(Protocol):
    """What reads its rows; those of tables are read by their stores (`Store`)."""

    def can(self, capability: Capability) -> bool: ...

    def read(self, spark: SparkSession, version: int | None = None) -> DataFrame: ...

    def row_changes(self, spark: SparkSession, since: int, until: int, columns: Sequence[str]) -> DataFrame: ...

    def close(self) -> None: ...


class Place(Protocol):
    """Where something with versions is that queries read."""

    @property
    def path(self) -> str: ...

    def look(self) -> tuple[VersionLog, Callable[[], VersionRows]] | None:
        """What is there now: what is known of it, and how to read it; None where that has no versions."""

    def content(self) -> str | None:
        """What that holds; None where nothing is there."""

    def still_has(self, version: int, content: str) -> bool:
        """Whether rows of a version that held this can be read by who knows it, whatever came since."""


@dataclass(frozen=True, slots=True)
class TablePlace:
    """A table with a log of its own."""

    path: str

    def look(self) -> tuple[VersionLog, Callable[[], VersionRows]]:
        return log_at(self.path), partial(store_at, self.path)

    def content(self) -> str | None:
        snapshot = log_at(self.path).snapshot()
        return snapshot.content if snapshot else None

    def still_has(self, version: int, content: str) -> bool:
        """Of a table without older versions, as long as nothing came."""
        del version
        return self.content() == content


@dataclass(frozen=True, slots=True)
class FilesPlace:
    """Files of others, of which `files` gives those whose rows queries get. More of them may come at any time."""

    path: str
    files: Callable[[], FilesLog | None]

    def look(self) -> tuple[VersionLog, Callable[[], VersionRows]] | None:
        log = self.files()
        return (log, log.rows) if log else None

    def content(self) -> str | None:
        """Without a look into files."""
        log = self.files()
        return log.content if log else None

    def still_has(self, version: int, content: str) -> bool:
        """As the files are now, whatever came since."""
        log = self.files()
        return log is not None and log.again().has(version, content)


@dataclass(frozen=True, slots=True)
class Pin:
    """A table at the version that a run reads. `content` is what it holds, whatever is noted on it since.

    `rows` opens what reads it, `place` finds it again.
    """

    place: Place
    log: VersionLog
    rows: Callable[[], VersionRows]
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

    def has_moved(self, *, by_changes: bool) -> bool:
        """Whether who did not name its version has read other rows; a rule names it where there are older ones."""
        if by_changes:
            return not (self.is_read_by_path or self.place.still_has(self.version, self.content))
        return self.place.content() != self.content

    @property
    def path(self) -> str:
        return self.place.path


def version_in(content: str | None) -> int | None:
    """The version of a table that had this content."""
    number = (content or "").rpartition("@")[2].partition(".")[0]
    return int(number) if number.isdecimal() else None


@dataclass
class Pins:
    """The pins of one run, by path. A table that the run makes is pinned again once it is made."""

    _pins: dict[str, Pin | None] = field(default_factory=dict)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def at(self, place: Place) -> Pin | None:
        """What is at a place as the run reads it; None where that has no versions, or nothing is there."""
        with self._turn:
            if place.path not in self._pins:
                self._pins[place.path] = _pinned(place)
            return self._pins[place.path]

    def release(self, path: str) -> None:
        """A step of the run has made another version of it."""
        with self._turn:
            self._pins.pop(path, None)


def _pinned(place: Place) -> Pin | None:
    seen = place.look()
    if seen is None:
        return None
    log, rows = seen
    snapshot = log.snapshot()
    return Pin(place, log, rows, snapshot, snapshot.version, snapshot.content) if snapshot else None
