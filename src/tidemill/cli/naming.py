"""Tables as users name them: a path, or the name of a table of the project."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidemill.declare.spark import SparkSettings


def located(table: str) -> str:
    """The path of a table. What is there as a path is one; else a name is looked for in the project's warehouse."""
    from tidemill.project import ProjectSettings, find_project  # noqa: PLC0415

    if "/" in table or Path(table).exists() or find_project() is None:
        return table
    return ProjectSettings.load().table_path(table)


def spark_here() -> SparkSettings:
    """The Spark that the project of the current folder names; the embedded one where there is no project."""
    from tidemill.project import Filling, ProjectSettings, SparkSettings, find_project  # noqa: PLC0415

    if find_project() is None:
        return SparkSettings()
    project = ProjectSettings.load()
    return project.engine(Filling(project.variables()))
