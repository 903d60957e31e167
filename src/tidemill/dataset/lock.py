"""One writer at a time; the kernel frees the lock of one that dies."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

try:
    import fcntl
except ImportError:  # Windows has no such lock; there the exclusive record alone keeps writers apart
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from pathlib import Path
    from typing import IO

_mine = threading.local()


class WriterLock:
    """A lock among processes, and among the threads of one. A thread that holds it may take it again."""

    def __init__(self, file: Path) -> None:
        self._path = file

    def __enter__(self) -> Self:
        held = self._held()
        if str(self._path) not in held:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = self._path.open("a")
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX)
            held[str(self._path)] = [file]
        else:
            held[str(self._path)].append(held[str(self._path)][0])
        return self

    def __exit__(self, *_: object) -> None:
        held = self._held()
        file = held[str(self._path)].pop()
        if not held[str(self._path)]:
            del held[str(self._path)]
            file.close()

    @staticmethod
    def _held() -> dict[str, list[IO[str]]]:
        """The open lock files of this thread, as often as each was taken."""
        found: dict[str, list[IO[str]]] = _mine.__dict__.setdefault("held", {})
        return found


def held_open(file: Path) -> IO[str]:
    """A file that shows, as long as this process lives and keeps it open, that somebody is at work."""
    opened = file.open("a")
    if fcntl is not None:
        fcntl.flock(opened, fcntl.LOCK_EX)
    return opened


def is_held(file: Path) -> bool:
    """Whether somebody alive holds a file open by `held_open`."""
    try:
        opened = file.open("a")
    except FileNotFoundError:
        return False
    with opened:
        if fcntl is None:
            return True
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False
