"""What all commands share: the one console, with every line, the display of what is being done now, and work that
Ctrl-C ends at once; and options, with how a command tells what it found.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import stat
import sys
import threading
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from tidemill.cli import render
from tidemill.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
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


def _verbose(_context: click.Context, _option: click.Parameter, value: bool) -> bool:
    if value:
        render.show_log(logging.DEBUG)
    return value


def names_in(_context: click.Context, _option: click.Parameter, value: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for text in value for part in text.split(",") if (name := part.strip()))


def examples(*lines: str) -> str:
    """What stands below the help of a command."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def columns(flag: str, **how: Any) -> Callable[..., Any]:
    """An option that takes columns, split at commas; it may be given more than once."""
    return click.option(flag, multiple=True, metavar="COLUMN,…", callback=names_in, **how)


def profiled(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--profile` alone: for commands on a table that need not read what a project declares."""
    return click.option("--profile", help="A profile of tidemill.toml.")(command)


def single_writer(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--single-writer`, as every command has it that writes to a table by its path."""
    help_text = "Promise that no other process writes to the table; a Delta table on S3 needs it, or a safe LogStore."
    return click.option("--single-writer", "alone", is_flag=True, help=help_text)(command)


@dataclass(frozen=True, slots=True)
class Output:
    """How a command tells what it found: as text, as one JSON document, or not at all where all went well."""

    as_json: bool = False
    quiet: bool = False

    @property
    def lines(self) -> bool:
        """Whether it tells in lines of text, while it works and afterwards."""
        return not (self.as_json or self.quiet)

    def result(self, document: Any, show: Callable[[], None]) -> None:
        """The result: the document, or what `show` says."""
        if self.as_json:
            render.document(document)
        elif not self.quiet:
            show()


def output(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--format`, `--quiet` and `--verbose`, as every command has them; it is given them as `out`."""

    @functools.wraps(command)
    def with_output(form: str, quiet: bool, **rest: Any) -> Any:
        return command(out=Output(form == "json", quiet), **rest)

    options = (
        click.option(
            "--format", "form", type=click.Choice(["text", "json"]), default="text", help="How to print the result."
        ),
        click.option("-q", "--quiet", is_flag=True, help="Print nothing when all went well."),
        click.option(
            "-v",
            "--verbose",
            is_flag=True,
            expose_value=False,
            callback=_verbose,
            help="Say on stderr what is done and why; show the details of unexpected errors.",
        ),
    )
    return having(options, with_output)


def having(options: Sequence[Callable[..., Any]], command: Callable[..., Any]) -> Callable[..., Any]:
    """A command with these options, in this order."""
    for option in reversed(options):
        command = option(command)
    return command
