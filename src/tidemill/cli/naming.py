"""Tables as users name them: a path, or the name of a table of the project."""

from __future__ import annotations

from pathlib import Path


def located(table: str) -> str:
    """The path of a table. What is there as a path is one; else a name is looked for in the project's warehouse."""
    from tidemill.project import Project, find_project  # noqa: PLC0415

    if "/" in table or Path(table).exists() or find_project() is None:
        return table
    return Project.load().table_path(table)
