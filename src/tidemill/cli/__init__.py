"""The one console: every line, the display of what is being done now, and work that Ctrl-C ends at once."""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import sys
import threading
from concurrent.futures import Future
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from tidemill.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType
    from typing import Self

    from rich.progress import TaskID

    from tidemill.cli.progress import Display

_display: Display | None = None


def write(text: str, *, err: bool = False) -> None:
    """The text as it is, and a line's end. Colours are for terminals, and not where NO_COLOR is set.

    Above what is displayed, if that is on the same terminal. A reader who left is no error.
    """
    colourless = bool(os.environ.get("NO_COLOR"))
    stream = sys.stderr if err else sys.stdout
    try:
        if _display is not None and stream.isatty():
            _display.write(click.unstyle(text) if colourless else text)
        else:
            click.echo(text, file=stream, color=False if colourless else None)
    except BrokenPipeError:
        _talk_to_nobody(stream)


def ask(question: str) -> None:
    """Goes on after a yes; a no is an error, after which nothing is done."""
    try:
        agreed = click.confirm(question)
    except click.Abort:  # Ctrl-C, or the end of the input
        raise KeyboardInterrupt from None
    if not agreed:
        raise ArgumentError("cli.declined", "You said no, and nothing was changed.", "To go on, answer y.")


def width(*, err: bool = False) -> int | None:
    """How many columns the terminal has on which this is read; None where it goes elsewhere."""
    stream = sys.stderr if err else sys.stdout
    try:
        return os.get_terminal_size(stream.fileno()).columns or None if stream.isatty() else None
    except (OSError, ValueError):
        return None


def watched() -> bool:
    """Whether somebody sees what is displayed, on a terminal that can take it away again.

    What goes into a pipe may come to the same terminal by another program (`tidemill run | tee log`), beside a display
    that does not know of it.
    """
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and not _is_pipe(sys.stdout)


def _is_pipe(stream: TextIO) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False


@contextlib.contextmanager
def displaying(display: Display) -> Iterator[None]:
    """Shows it below all lines that are written meanwhile; it is gone afterwards."""
    global _display  # noqa: PLW0603  a process has one terminal
    _display = display
    try:
        with display:
            yield
    finally:
        _display = None


def hush() -> None:
    """Whatever is still written is written to nobody: the command has ended."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        _talk_to_nobody(stream)


def _talk_to_nobody(stream: TextIO | Any) -> None:
    """What is still to be said to a closed pipe, by us or by Python at its end, goes nowhere."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class Live:
    """Shows what began and what ended, called from any thread. Where nobody watches it does nothing."""

    def __init__(self, first: str, *, quiet: bool) -> None:
        self._first = first
        self._progress = _new_display() if watched() and not quiet else None
        self._lines: dict[str, TaskID] = {}
        self._shown = ExitStack()

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._shown.enter_context(displaying(self._progress))
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


def _new_display() -> Display:
    from tidemill.cli.progress import Display  # noqa: PLC0415  Rich takes time, and is for terminals

    return Display()


T = TypeVar("T")


def interruptible(work: Callable[[], T]) -> T:
    """Does the work in a thread of its own, so that Ctrl-C interrupts the waiting and not the work's connection.

    In the main thread PySpark answers Ctrl-C by a call on the connection that is busy, which breaks it; from here
    Spark can still be stopped in order.
    """
    logging.getLogger("py4j").addHandler(logging.NullHandler())  # it logs what the stopped work runs into
    done: Future[T] = Future()
    threading.Thread(target=_settle, args=(done, work), name="tidemill-work", daemon=True).start()
    return done.result()


def _settle(done: Future[T], work: Callable[[], T]) -> None:
    try:
        done.set_result(work())
    except BaseException as failure:  # noqa: BLE001  it is raised where the work is waited for
        done.set_exception(failure)
