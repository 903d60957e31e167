"""A hidden folder beside a target, where it is made whole before it is moved into place."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from typing import TYPE_CHECKING

try:
    import fcntl
except ImportError:  # Windows has no such lock
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_BEFORE = "before"


@contextlib.contextmanager
def workplace(target: Path) -> Iterator[Path]:
    """An empty folder on the target's own disk, removed at the end.

    What a killed export of this target has left is removed first; the old target, where it had just been moved
    away, goes back. Workplaces of exports that still run are known by their lock, which the kernel frees.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target.parent):
        for left in target.parent.glob(f".{_literal(target.name)}.tidemill-*"):
            _clear(left, target)
        own = target.parent / f".{target.name}.tidemill-{uuid.uuid4().hex}"
        own.mkdir()
        lock = _lock(own)
    try:
        yield own
    finally:
        shutil.rmtree(own, ignore_errors=True)
        os.close(lock)


def swap(new: Path, target: Path, place: Path) -> None:
    """`new` becomes the target; the old one is kept in the workplace until then."""
    before = place / _BEFORE
    if target.exists():
        target.rename(before)
    try:
        new.rename(target)
    except OSError:
        if before.exists():
            before.rename(target)
        raise


def _clear(left: Path, target: Path) -> None:
    lock = os.open(left, os.O_RDONLY)
    try:
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return  # its export still runs
    else:
        if (left / _BEFORE).exists() and not target.exists():
            (left / _BEFORE).rename(target)
        shutil.rmtree(left, ignore_errors=True)
    finally:
        os.close(lock)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One at a time, among threads and processes of this machine."""
    lock = _lock(folder)
    try:
        yield
    finally:
        os.close(lock)


def _lock(folder: Path) -> int:
    """Waits for the folder; closing the descriptor frees it."""
    descriptor = os.open(folder, os.O_RDONLY)
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def _literal(name: str) -> str:
    """The name with nothing in it that a pattern would read as more."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)
