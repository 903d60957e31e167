"""Tables as users name them: a path, or the name of a table of the project."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.declare.paths import absolute, at_home
from tidemill.errors import ArgumentError, TidemillError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidemill.cli.options import Load
    from tidemill.declare.spark import SparkSettings
    from tidemill.declare.tables import Table
    from tidemill.upkeep import Place
    from tidemill.workspace import Workspace

UNKNOWN = "table.unknown"


def located(table: str, profile: str | None = None) -> str:
    """The path of a table. What is there as a path is one; else a name is looked for in the project's warehouse."""
    from tidemill.project import ProjectSettings  # noqa: PLC0415

    return table if _is_path(table) else ProjectSettings.load(profile=profile).table_path(table)


def merged_into(target: str) -> Table | None:
    """The table of the project that a name means; None where it is a path: in a project, one has a / in it."""
    from tidemill.project import is_project  # noqa: PLC0415
    from tidemill.workspace import Workspace  # noqa: PLC0415

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
    from tidemill.workspace import Workspace  # noqa: PLC0415

    if path == table or "://" in path or Path(path).exists():
        return

    try:
        Workspace.load(None, profile=profile).select_also_views([table])
    except TidemillError as failure:
        if failure.code == UNKNOWN:  # others are about files that this command does not need
            raise


def placed(table: str, profile: str | None = None, *, alone: bool = False) -> Place:
    """A table as the user names it, and where that is. `alone`: the promise that no other process writes to it."""
    from tidemill.upkeep import Place  # noqa: PLC0415

    path = located(table, profile)
    return Place(table, path, single_writer=alone or promised_here(absolute(path), profile))


def promised_here(path: str, profile: str | None = None) -> bool:
    """Whether the project of the current folder promises that no other process writes to the table at a path."""
    from tidemill.project import ProjectSettings, find_project  # noqa: PLC0415

    return find_project() is not None and ProjectSettings.load(profile=profile).warehouse.has_one_writer(path)


def _is_path(table: str) -> bool:
    from tidemill.project import is_project  # noqa: PLC0415

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
    from tidemill.state.logs import log_at  # noqa: PLC0415

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
    from tidemill.project import Filling, ProjectSettings, SparkSettings, find_project  # noqa: PLC0415

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
