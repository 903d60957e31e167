"""When Spark cannot read a file of a dataset, that is an error of ours: in Tidemill's calls, and in a user's own.

A frame is lazy: its files may have gone by the time that somebody runs it, in a call in which Tidemill has no part.
PySpark makes Python's errors of Java's in one function. As Delta does for its own errors, it is replaced here by one
that asks first whether the error is about a file of a dataset that was read; all else is left to it.
"""

from __future__ import annotations

import os.path
from threading import Lock
from typing import TYPE_CHECKING, Any

from pyspark.errors.exceptions import captured

from tidemill.dataset.unreadable import unread
from tidemill.engine.translate import unread_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tidemill.errors import FileError

_roots: set[str] = set()
_installing = Lock()
_installed: list[Callable[[Any], Exception]] = []


def watch(root: str | Path) -> None:
    """From now on an error about a file under this folder is a `FileError`, whoever runs the frame that reads it."""
    _roots.add(os.path.normpath(root))
    with _installing:
        if not _installed:
            _installed.append(captured.convert_exception)
            captured.convert_exception = _converted  # type: ignore[assignment]


def _converted(throwable: Any) -> Exception:
    return _told(throwable) or _installed[0](throwable)


def _told(throwable: Any) -> FileError | None:
    found = unread_file(throwable)
    if found is None:
        return None
    file, why = found
    root = max((root for root in _roots if file.startswith(f"{root}/")), key=len, default=None)
    return unread(root, file, why) if root else None
