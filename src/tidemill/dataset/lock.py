"""One writer at a time; the kernel frees the lock of one that dies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

try:
    import fcntl
except ImportError:  # Windows has no such lock; there the exclusive record alone keeps writers apart
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from pathlib import Path
    from typing import IO


class WriterLock:
    """A lock among processes, and among folders opened in one process. Whoever holds it may take it again."""

    def __init__(self, file: Path) -> None:
        self._path = file
        self._file: IO[str] | None = None
        self._depth = 0

    def __enter__(self) -> Self:
        if self._depth == 0:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("a")
            if fcntl is not None:
                fcntl.flock(self._file, fcntl.LOCK_EX)
        self._depth += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0 and self._file is not None:
            self._file.close()
            self._file = None


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
