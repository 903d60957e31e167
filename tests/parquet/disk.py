"""A dataset's folder in memory: the effects of `tidemill.formats.parquet.folder.Folder`, one dictionary each.

The checker needs many thousands of them, and to ask what a state holds. `test_folder.py` shows that a real folder
does the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from tidemill.formats.parquet.folder import DataFile, Entry

if TYPE_CHECKING:
    from collections.abc import Mapping

Rows = tuple[tuple[str, int], ...]


@dataclass
class Disk:
    """What is on disk, and what the kernel knows: who holds the lock, and which staging folders have a live owner."""

    files: dict[str, Rows] = field(default_factory=dict)
    log: dict[int, Entry] = field(default_factory=dict)
    staged: dict[str, dict[str, Rows]] = field(default_factory=dict)
    alive: dict[str, str] = field(default_factory=dict)
    holder: str | None = None
    depth: int = 0

    def die(self, name: str) -> None:
        """What the kernel does for a process that ends."""
        self.alive = {attempt: owner for attempt, owner in self.alive.items() if owner != name}
        if self.holder == name:
            self.holder, self.depth = None, 0

    def after_all_died(self) -> Disk:
        staged = {attempt: dict(files) for attempt, files in self.staged.items()}
        return Disk(dict(self.files), dict(self.log), staged)

    def key(self) -> object:
        return (
            tuple(sorted(self.files)),
            tuple((number, entry.attempt) for number, entry in sorted(self.log.items())),
            tuple((attempt, tuple(sorted(files))) for attempt, files in sorted(self.staged.items())),
            tuple(sorted(self.alive.items())),
            (self.holder, self.depth),
        )


class Lock:
    def __init__(self, disk: Disk, name: str) -> None:
        self.disk, self.name = disk, name

    @property
    def is_free(self) -> bool:
        return self.disk.holder in (None, self.name)

    def __enter__(self) -> Self:
        assert self.is_free, "the checker lets nobody wait"
        self.disk.holder, self.disk.depth = self.name, self.disk.depth + 1
        return self

    def __exit__(self, *_: object) -> None:
        if self.disk.holder == self.name:  # else the process has died meanwhile
            self.disk.depth -= 1
            self.disk.holder = self.name if self.disk.depth else None


@dataclass
class Attempt:
    disk: Disk
    name: str

    def drop(self) -> None:
        self.disk.alive.pop(self.name, None)
        self.disk.staged.pop(self.name, None)


class MemoryFolder:
    """One process's view of the disk. `seen` is all that it has read: what it will do follows from that."""

    def __init__(self, disk: Disk, name: str) -> None:
        self.disk, self.name, self.lock = disk, name, Lock(disk, name)
        self.seen: list[object] = []
        self.attempts = 0

    def newest(self) -> int | None:
        found = max(self.disk.log, default=None)
        self.seen.append(found)
        return found

    def entry(self, number: int) -> Entry | None:
        return self.disk.log.get(number)

    def is_pending(self, entry: Entry) -> bool:
        found = entry.attempt in self.disk.staged
        self.seen.append(found)
        return found

    def files(self) -> dict[str, DataFile]:
        found = {path: data_file(path) for path in sorted(self.disk.files)}
        self.seen.append(tuple(found))
        return found

    def begin(self) -> Attempt:
        self.attempts += 1
        attempt = Attempt(self.disk, f"{self.name}{self.attempts}")
        self.disk.staged[attempt.name] = {}
        self.disk.alive[attempt.name] = self.name
        return attempt

    def check_alone(self) -> None:
        pass

    def check_writable(self, entry: Entry) -> None:
        pass

    def create(self, entry: Entry) -> None:
        if entry.number in self.disk.log:
            raise FileExistsError(entry.number)
        self.disk.log[entry.number] = entry

    def settle(self) -> None:
        pass

    def move_in(self, entry: Entry, staged: str, path: str) -> None:
        if staged in self.disk.staged.get(entry.attempt, {}):
            self.disk.files[path] = self.disk.staged[entry.attempt].pop(staged)

    def remove(self, file: DataFile) -> None:
        self.disk.files.pop(file.path, None)

    def sync(self, entry: Entry) -> None:
        pass

    def staged_bytes(self, attempt: str) -> int:
        return len(self.disk.staged.get(attempt, {}))

    def clear(self, attempt: str) -> None:
        self.disk.staged.pop(attempt, None)
        self.disk.alive.pop(attempt, None)

    def dead_attempts(self) -> list[str]:
        found = sorted(set(self.disk.staged) - set(self.disk.alive))
        self.seen.append(tuple(found))
        return found


def data_file(path: str) -> DataFile:
    return DataFile(path, 1, 1)


def merged(rows: Mapping[str, int], change: Mapping[str, int]) -> dict[str, int]:
    return {**rows, **change}
