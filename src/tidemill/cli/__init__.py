"""Options that commands share, and how a command tells what it found."""

from __future__ import annotations

import functools
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from tidemill.cli import render

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LOGGER = logging.getLogger("tidemill")


class _Lines(logging.Handler):
    """Log records as lines on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        word = record.levelname.lower()
        render.say(f"{word}  {record.getMessage()}", err=True)


def show_log(level: int) -> None:
    """Shows the logger `tidemill` from this level on; called again, only the level changes."""
    for handler in [handler for handler in LOGGER.handlers if isinstance(handler, _Lines)]:
        LOGGER.removeHandler(handler)
    LOGGER.addHandler(_Lines(level))
    LOGGER.setLevel(level)


def _verbose(_context: click.Context, _option: click.Parameter, value: bool) -> bool:
    if value:
        show_log(logging.DEBUG)
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
