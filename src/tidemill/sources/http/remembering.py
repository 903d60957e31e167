"""Answers of APIs that a run has had already: what is asked again within it comes from a file."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class _Memory:
    """A folder with a file per answer, from the beginning of a run to its end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs = 0
        self._folder: Path | None = None

    def begin(self) -> None:
        with self._lock:
            self._runs += 1
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="tidemill-answers-"))

    def end(self) -> None:
        """Runs of one process may overlap; the last one forgets."""
        with self._lock:
            self._runs -= 1
            if not self._runs and self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder = None

    def file(self, question: str) -> Path | None:
        folder = self._folder
        return folder / hashlib.sha256(question.encode()).hexdigest() if folder else None


_MEMORY = _Memory()


@contextmanager
def remembering() -> Iterator[None]:
    """A run: what it asks an API for is asked once, however often its functions are called."""
    _MEMORY.begin()
    try:
        yield
    finally:
        _MEMORY.end()


def remembered(question: str, ask: Callable[[], Any]) -> Any:
    """The answer, in JSON, which the run has had already, or has now; outside of a run it is asked for each time."""
    file = _MEMORY.file(question)
    if file is None:
        return ask()
    try:
        return json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        pass
    answer = ask()
    own = file.with_name(f"{file.name}-{threading.get_ident()}")  # another thread may have asked the same
    own.write_text(json.dumps(answer), "utf-8")
    own.replace(file)
    return answer
