"""Commands about a project or one pipeline file: the options by which it is found, and by which tables are chosen."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidemill.api.workspace import Workspace
from tidemill.cli import having, names_in, profiled
from tidemill.errors import ArgumentError
from tidemill.model.project import given_variables
from tidemill.planning import Request, backfill_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Load = Callable[[str | None], Workspace]


def variables(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--var`, `--vars` and `--profile`, as every command about a project has them.

    They become `load`, which takes a target and gives its workspace.
    """

    @functools.wraps(command)
    def with_load(pairs: tuple[str, ...], document: str | None, profile: str | None, **rest: Any) -> Any:
        load = functools.partial(Workspace.load, profile=profile, given=given_variables(document, pairs))
        return command(load=load, **rest)

    options = (
        click.option("--var", "pairs", multiple=True, metavar="NAME=VALUE", help="A variable; may be given again."),
        click.option("--vars", "document", metavar="JSON", help="Variables as a JSON object."),
        profiled,
    )
    return having(options, with_load)


def selection(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--select` and `--exclude`: the workspace that the command is given holds only what is chosen."""
    options = (
        click.option(
            "-s",
            "--select",
            multiple=True,
            metavar="NAME,…",
            callback=names_in,
            help="Only these: a name, a wildcard, tag:NAME; +NAME takes what it reads too, NAME+ what reads it.",
        ),
        click.option("-e", "--exclude", multiple=True, metavar="NAME,…", callback=names_in, help="All but these."),
    )

    @functools.wraps(command)
    def with_choice(load: Load, select: tuple[str, ...], exclude: tuple[str, ...], **rest: Any) -> Any:
        def chosen(target: str | None) -> Workspace:
            workspace = load(target)
            return workspace.choose(select, exclude) if select or exclude else workspace

        return command(load=chosen, **rest)

    return having(options, with_choice)


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
        return command(request=Request(full_refresh, backfill_of(start, end, batch)), **rest)

    return having(options, with_request)


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


def target_and_tables(words: Sequence[str], target: str | None) -> tuple[str | None, list[str]]:
    """What is a file or a folder is the target, the rest are tables."""
    places = [word for word in words if _is_place(word)]
    if len(places) + (target is not None) > 1:
        raise ArgumentError(
            "cli.two_targets",
            f"One target at a time: {', '.join([*([target] if target else []), *places])}.",
            "Name one pipeline file or project folder, and tables of it.",
        )
    return target or next(iter(places), None), [word for word in words if word not in places]


def _is_place(word: str) -> bool:
    path = Path(word)
    return path.is_dir() or (path.suffix in {".sql", ".py"} and path.is_file())
