"""Options that commands share, and tables as users name them: a path, or the name of a table of the project."""

from __future__ import annotations

import functools
import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidemill.cli import render
from tidemill.errors import ArgumentError, TidemillError
from tidemill.model.names import absolute, at_home

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidemill.api.maintenance import Place
    from tidemill.api.workspace import Workspace
    from tidemill.model.project import SparkSettings
    from tidemill.model.table import Table

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
        from tidemill.api.workspace import Workspace  # noqa: PLC0415  slow to import
        from tidemill.model.variables import given_variables  # noqa: PLC0415

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
    help_text = "Promise that no other process writes to the table; a Delta table on S3 needs it, or a safe LogStore."
    return click.option("--single-writer", "alone", is_flag=True, help=help_text)(command)


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
        from tidemill.planning.request import Request, backfill_of  # noqa: PLC0415

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


UNKNOWN = "table.unknown"


def located(table: str, profile: str | None = None) -> str:
    """The path of a table. What is there as a path is one; else a name is looked for in the project's warehouse."""
    from tidemill.frontends.project import ProjectSettings  # noqa: PLC0415

    return table if _is_path(table) else ProjectSettings.load(profile=profile).table_path(table)


def merged_into(target: str) -> Table | None:
    """The table of the project that a name means; None where it is a path: in a project, one has a / in it."""
    from tidemill.api.workspace import Workspace  # noqa: PLC0415
    from tidemill.model.project import is_project  # noqa: PLC0415

    if "/" in target or not target.strip() or not is_project():
        return None
    try:
        workspace = Workspace.load(None)
        (table,) = workspace.select([target])
        return replace(table, name=workspace.short(table.name))
    except ArgumentError as failure:
        if failure.code == UNKNOWN:
            failure.remedy += f" A path needs ./ here: ./{target}"
        raise


def refuse_unknown(table: str, path: str, profile: str | None = None) -> None:
    """A name of which nothing is at its path, and that nothing declares, is an error that says which may be meant."""
    from tidemill.api.workspace import Workspace  # noqa: PLC0415

    if path == table or "://" in path or Path(path).exists():
        return

    try:
        Workspace.load(None, profile=profile).select_also_views([table])
    except TidemillError as failure:
        if failure.code == UNKNOWN:  # others are about files that this command does not need
            raise


def placed(table: str, profile: str | None = None, *, alone: bool = False) -> Place:
    """A table as the user names it, and where that is. `alone`: the promise that no other process writes to it."""
    from tidemill.api.maintenance import Place  # noqa: PLC0415

    path = located(table, profile)
    promised = alone or promised_here(absolute(path), profile)
    return Place(table, path, single_writer=promised, declared=lambda: () if path == table else _declared(profile))


def _declared(profile: str | None) -> list[str]:
    """The tables of the project of the current folder; none where something is wrong in its files."""
    from tidemill.api.workspace import Workspace  # noqa: PLC0415

    try:
        workspace = Workspace.load(None, profile=profile)
    except TidemillError:
        return []
    return [workspace.short(table.name) for table in workspace.tables]


def promised_here(path: str, profile: str | None = None) -> bool:
    """Whether the project of the current folder promises that no other process writes to the table at a path."""
    from tidemill.frontends.project import ProjectSettings  # noqa: PLC0415
    from tidemill.model.project import find_project  # noqa: PLC0415

    return find_project() is not None and ProjectSettings.load(profile=profile).warehouse.has_one_writer(path)


def _is_path(table: str) -> bool:
    from tidemill.model.project import is_project  # noqa: PLC0415

    if not table.strip():  # it would be the current folder
        raise ArgumentError("table.no_path", f"{table!r} is no path.", "Give the path or the name of a table.")
    return "/" in table or Path(table).exists() or not is_project()


def named_in(table: str, load: Load) -> Workspace | None:
    """The project in which the table has its name; None where it is a path."""
    return None if _is_path(table) else load(None)


def there(table: str, workspace: Workspace | None) -> tuple[str, SparkSettings]:
    """The path of a table that is there, and the Spark that reads it if need be.

    Else the error says which name was meant, or that the table is yet to be made.
    """
    from tidemill.formats.registry import log_at  # noqa: PLC0415

    path = workspace.project.table_path(table) if workspace else str(at_home(table))
    if log_at(path).snapshot() is None:
        if workspace is None:
            raise ArgumentError("table.missing", f"There is no table at {table}.", "Give the path of a table.")
        workspace.select([table])  # a misspelled name is an error here
        raise ArgumentError(
            "table.not_made", f"{table} is declared, and not made yet.", f"Make it: {workspace.command('run')}."
        )
    return path, workspace.spark if workspace else spark_here()


def spark_here(profile: str | None = None) -> SparkSettings:
    """The Spark that the project of the current folder names; the embedded one where there is no project."""
    from tidemill.frontends.project import ProjectSettings  # noqa: PLC0415
    from tidemill.frontends.project_file import Filling  # noqa: PLC0415
    from tidemill.model.project import SparkSettings, find_project  # noqa: PLC0415

    if find_project() is None:
        return SparkSettings()
    project = ProjectSettings.load(profile=profile)
    return project.engine(Filling(project.variables()))


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
