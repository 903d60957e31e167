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
        click.option("--profile", help="A profile of tidemill.toml."),
    )
    found: Callable[..., Any] = with_load
    for option in reversed(options):
        found = option(found)
    return found


def on_project(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command about the project that TARGET is in, or about one pipeline file; it is given the `workspace`."""

    @functools.wraps(command)
    def with_workspace(target: str | None, load: Load, **rest: Any) -> Any:
        return command(workspace=load(target), **rest)

    return click.argument("target", required=False)(variables(with_workspace))


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
    for option in reversed(options):
        command = option(command)
    return command
