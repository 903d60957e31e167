"""What is being done right now: a line for each step, on a terminal only, gone when the step has ended."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from rich.progress import Progress, TaskID


class Live:
    """Told from any thread what began and what ended. Where nobody watches it does nothing."""

    def __init__(self, first: str, *, quiet: bool) -> None:
        self._first = first
        self._progress = None if quiet or not sys.stderr.isatty() else _progress()
        self._lines: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
            self.began(self._first)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

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


def _progress() -> Progress:
    from rich.console import Console  # noqa: PLC0415  slow to import
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    parts = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    # Lines for stdout go above the live ones if they share a terminal; into a pipe they must go as they are.
    return Progress(*parts, console=Console(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty())
