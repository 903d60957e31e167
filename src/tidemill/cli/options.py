"""Options that commands share: what is printed, and how much of it."""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, Any

import click

from tidemill.cli import render

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidemill.workspace import Workspace

    Load = Callable[[str | None], Workspace]

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


def _names(_context: click.Context, _option: click.Parameter, value: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for text in value for part in text.split(",") if (name := part.strip()))


def examples(*lines: str) -> str:
    """What stands below the help of a command."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def columns(flag: str, **how: Any) -> Callable[..., Any]:
    """An option that takes columns, split at commas; it may be given more than once."""
    return click.option(flag, multiple=True, metavar="COLUMN,…", callback=_names, **how)


def variables(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--var`, `--vars` and `--profile`, as every command about a project has them.

    They become `load`, which takes a target and gives its workspace.
    """

    @functools.wraps(command)
    def with_load(pairs: tuple[str, ...], document: str | None, profile: str | None, **rest: Any) -> Any:
        from tidemill.declare.variables import given_variables  # noqa: PLC0415
        from tidemill.workspace import Workspace  # noqa: PLC0415  slow to import

        load = functools.partial(Workspace.load, profile=profile, given=given_variables(document, pairs))
        return command(load=load, **rest)

    options = (
        click.option("--var", "pairs", multiple=True, metavar="NAME=VALUE", help="A variable; may be given again."),
        click.option("--vars", "document", metavar="JSON", help="Variables as a JSON object."),
        profiled,
    )
    return _having(options, with_load)


def profiled(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--profile` alone: for commands on a table that need not read what a project declares."""
    return click.option("--profile", help="A profile of tidemill.toml.")(command)


def single_writer(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--single-writer`, as every command has it that writes to a table by its path."""
    told = "Promise that no other process writes to the table; a Delta table on S3 needs it, or a safe LogStore."
    return click.option("--single-writer", "alone", is_flag=True, help=told)(command)


def selection(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--select` and `--exclude`: the workspace that the command is given holds only what is chosen."""
    options = (
        click.option(
            "-s",
            "--select",
            multiple=True,
            metavar="NAME,…",
            callback=_names,
            help="Only these: a name, a wildcard, tag:NAME; +NAME takes what it reads too, NAME+ what reads it.",
        ),
        click.option("-e", "--exclude", multiple=True, metavar="NAME,…", callback=_names, help="All but these."),
    )

    @functools.wraps(command)
    def with_choice(load: Load, select: tuple[str, ...], exclude: tuple[str, ...], **rest: Any) -> Any:
        def chosen(target: str | None) -> Workspace:
            workspace = load(target)
            return workspace.choose(select, exclude) if select or exclude else workspace

        return command(load=chosen, **rest)

    return _having(options, with_choice)


def requested(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--full-refresh`, `--start`, `--end` and `--batch`, as one `request`."""
    options = (
        click.option(
            "--full-refresh", is_flag=True, help="Make the tables what a first run gives now, in one commit each."
        ),
        click.option("--start", metavar="TIME", help="Read again from this time, date or number on (a backfill)."),
        click.option(
            "--end", metavar="TIME", help="Read up to here: a day or a whole number is included, a moment is not."
        ),
        click.option(
            "--batch", metavar="LENGTH", help='Commit a backfill piece by piece, such as "7 days"; a cut one goes on.'
        ),
    )

    @functools.wraps(command)
    def with_request(full_refresh: bool, start: str | None, end: str | None, batch: str | None, **rest: Any) -> Any:
        from tidemill.plan.backfills import backfill_of  # noqa: PLC0415
        from tidemill.plan.requests import Request  # noqa: PLC0415

        return command(request=Request(full_refresh, backfill_of(start, end, batch)), **rest)

    return _having(options, with_request)


def on_project(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command about the project that TARGET is in, or about one pipeline file; it is given the `workspace`."""
    return click.argument("target", required=False)(variables(_loaded(command)))


def on_selection(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command about chosen tables of a project; the `workspace` that it is given has no others."""
    return click.argument("target", required=False)(variables(selection(_loaded(command))))


def _loaded(command: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(command)
    def with_workspace(target: str | None, load: Load, **rest: Any) -> Any:
        return command(workspace=load(target), **rest)

    return with_workspace


def output(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--format`, `--quiet` and `--verbose`, as every command has them."""
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
    return _having(options, command)


def _having(options: Sequence[Callable[..., Any]], command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(options):
        command = option(command)
    return command
