"""Tables as users name them, a path or a name of the project of the current folder, and the Spark that this names."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tidemill import api
from tidemill.api import Place, not_made
from tidemill.cli import Live, interruptible
from tidemill.errors import ArgumentError, TidemillError
from tidemill.formats.registry import log_at, no_table_at
from tidemill.model import absolute
from tidemill.model.project import SparkSettings, files_alone, find_project, is_project
from tidemill.spark.errors import translated

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from tidemill.api.tables import Upkeep
    from tidemill.api.workspace import Workspace
    from tidemill.formats.base import Follower, OnSpark
    from tidemill.frontends.project import ProjectSettings
    from tidemill.model.table import Table


UNKNOWN = "table.unknown"
T = TypeVar("T")


def located(table: str, profile: str | None = None) -> str:
    """The path of a table. What is there as a path is one; else a name is looked for in the project's warehouse."""
    return table if is_path(table) else _settings(profile).table_path(table)


def known_path(table: str) -> str:
    """The absolute path of a table; a name of which nothing is there, and that nothing declares, is an error."""
    path = located(table)
    refuse_unknown(table, path)
    return absolute(path)


def merged_into(target: str) -> Table | None:
    """The table of the project that a name means; None where it is a path: in a project, one has a / in it."""
    if "/" in target or not target.strip() or not is_project():
        return None
    try:
        workspace = _workspace()
        (table,) = workspace.select([target])
        return replace(table, name=workspace.short(table.name))
    except ArgumentError as failure:
        if failure.code == UNKNOWN:
            failure.remedy += f" A path needs ./ here: ./{target}"
        raise


def refuse_unknown(table: str, path: str, profile: str | None = None) -> None:
    """A name of which nothing is at its path, and that nothing declares, is an error that says which may be meant."""
    if path == table or "://" in path or Path(path).exists():
        return
    try:
        _workspace(profile).select_also_views([table])
    except TidemillError as failure:
        if failure.code == UNKNOWN:  # others are about files that this command does not need
            raise


def placed(table: str, profile: str | None = None, *, alone: bool = False) -> Place:
    """A table as the user names it, and where that is. `alone`: the promise that no other process writes to it."""
    path = located(table, profile)
    promised = alone or promised_here(absolute(path), profile)
    return Place(table, path, single_writer=promised, declared=lambda: () if path == table else _declared(profile))


def _declared(profile: str | None) -> list[str]:
    """The tables of the project of the current folder; none where something is wrong in its files."""
    try:
        workspace = _workspace(profile)
    except TidemillError:
        return []
    return [workspace.short(table.name) for table in workspace.tables]


def _workspace(profile: str | None = None) -> Workspace:
    """The project of the current folder."""
    from tidemill.api.workspace import Workspace  # noqa: PLC0415  a path needs none, and the front ends take time

    return Workspace.load(None, profile=profile)


def promised_here(path: str, profile: str | None = None) -> bool:
    """Whether the project of the current folder promises that no other process writes to the table at a path."""
    return find_project() is not None and _settings(profile).warehouse.has_one_writer(path)


def followers(path: str) -> tuple[Follower, ...]:
    """The views declared in the current folder that have yet to follow changes of the table at a path."""
    from tidemill.api.following import followers_of  # noqa: PLC0415  a path needs none, and the front ends take time

    return tuple(each for workspace in _workspaces() for each in followers_of(workspace, path))


def _workspaces() -> list[Workspace]:
    """The project of the current folder; without one the pipelines that are there, as far as they are right."""
    from tidemill.api.workspace import Workspace  # noqa: PLC0415  as above

    if find_project() is not None:
        return [_workspace()]
    found = []
    for file in files_alone(Path.cwd()):
        with suppress(TidemillError):
            found += [Workspace.load(file)] if file.suffix == ".sql" else []
    return found


def is_path(table: str) -> bool:
    """Whether it is a path, and no name of a project's table."""
    if not table.strip():  # it would be the current folder
        raise ArgumentError("table.no_path", f"{table!r} is no path.", "Give the path or the name of a table.")
    return "/" in table or Path(table).exists() or not is_project()


def there(table: str, workspace: Workspace | None) -> tuple[str, SparkSettings]:
    """The path of a table that is there, and the Spark that reads it if need be.

    Else the error says which name was meant, or that the table is yet to be made.
    """
    path = workspace.project.table_path(table) if workspace else absolute(table)
    if log_at(path).snapshot() is None:
        if workspace is None:
            raise no_table_at(table)
        workspace.select([table])  # a misspelled name is an error here
        raise not_made(table, workspace.command("run"))
    return path, workspace.spark if workspace else spark_here()


def spark_here(profile: str | None = None) -> SparkSettings:
    """The Spark that the project of the current folder names; the embedded one where there is no project."""
    if find_project() is None:
        return SparkSettings()
    return _settings(profile).engine_with()


def _settings(profile: str | None = None) -> ProjectSettings:
    """What the file of the project of the current folder says."""
    from tidemill.frontends.project import ProjectSettings  # noqa: PLC0415  a path needs none, and it takes time

    return ProjectSettings.load(profile=profile)


def on_spark(doing: str, *, quiet: bool, profile: str | None = None, settings: SparkSettings | None = None) -> OnSpark:
    """Work on that Spark, or another, which starts when it is needed: shown while it lasts, and Ctrl-C ends it."""

    def done(work: Callable[[SparkSession], T]) -> T:
        at = settings or spark_here(profile)
        with Live(doing, quiet=quiet), translated(f"{doing[0].upper()}{doing[1:]}"):
            return interruptible(lambda: work(_session(at)))

    return done


def _session(settings: SparkSettings) -> SparkSession:
    from tidemill.spark.session import session_for  # noqa: PLC0415  the border: it imports PySpark

    return session_for(small=True, settings=settings)


def upkeep(on_spark: OnSpark) -> Upkeep:
    """What commands do to a table by that work."""
    return api.upkeep()(on_spark)
