"""The one console: every line, and the display of what is being done now, reaches a terminal through it."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any, TextIO

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.progress import Progress

_display: Progress | None = None


def write(text: str, *, err: bool = False) -> None:
    """The text as it is, and a line's end. Colours are for terminals, and not where NO_COLOR is set.

    Above what is displayed, if that is on the same terminal. A reader who left is no error.
    """
    colourless = bool(os.environ.get("NO_COLOR"))
    stream = sys.stderr if err else sys.stdout
    try:
        if _display is not None and stream.isatty():
            _write_above(_display, click.unstyle(text) if colourless else text)
        else:
            click.echo(text, file=stream, color=False if colourless else None)
    except BrokenPipeError:
        _talk_to_nobody(stream)


def width(*, err: bool = False) -> int | None:
    """How many columns the terminal has on which this is read; None where it goes elsewhere."""
    stream = sys.stderr if err else sys.stdout
    try:
        return os.get_terminal_size(stream.fileno()).columns or None if stream.isatty() else None
    except (OSError, ValueError):
        return None


def watched() -> bool:
    """Whether somebody sees what is displayed."""
    return sys.stderr.isatty()


@contextlib.contextmanager
def displaying(display: Progress) -> Iterator[None]:
    """Shows it below all lines that are written meanwhile; it is gone afterwards."""
    global _display  # noqa: PLW0603  a process has one terminal
    _display = display
    try:
        with display:
            yield
    finally:
        _display = None


def new_display() -> Progress:
    """Lines with a spinner and a clock, on stderr. What users' functions print goes above them too."""
    from rich.console import Console  # noqa: PLC0415  slow to import
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    parts = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    # Lines for stdout go above the live ones if they share a terminal; into a pipe they must go as they are.
    return Progress(*parts, console=Console(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty())


def hush() -> None:
    """Whatever is still written is written to nobody: the command has ended."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        _talk_to_nobody(stream)


def _write_above(display: Progress, text: str) -> None:
    from rich.text import Text  # noqa: PLC0415  slow to import

    # click.echo would write past rich: it takes rich's stand-in for stdout, which has no encoding, for one of bytes.
    display.console.print(Text.from_ansi(text), soft_wrap=True)


def _talk_to_nobody(stream: TextIO | Any) -> None:
    """What is still to be said to a closed pipe, by us or by Python at its end, goes nowhere."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
