"""What is being done right now: a line for each step, on a terminal only, gone when the step has ended."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from tidemill.cli import console

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from rich.progress import TaskID


class Live:
    """Shows what began and what ended, called from any thread. Where nobody watches it does nothing."""

    def __init__(self, first: str, *, quiet: bool) -> None:
        self._first = first
        self._progress = console.new_display() if console.watched() and not quiet else None
        self._lines: dict[str, TaskID] = {}
        self._shown = ExitStack()

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._shown.enter_context(console.displaying(self._progress))
            self.began(self._first)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._shown.close()

    def began(self, name: str) -> None:
        if self._progress is not None and name not in self._lines:
            self.ended(self._first)
            self._lines[name] = self._progress.add_task(name, total=None)

    def moved(self, name: str, where: str) -> None:
        line = self._lines.get(name)
        if self._progress is not None and line is not None:
            self._progress.update(line, description=f"{name}  {where}")

    def ended(self, name: str) -> None:
        line = self._lines.pop(name, None)
        if self._progress is not None and line is not None:
            self._progress.remove_task(line)
