"""The project file: warehouse, Spark, variables, outside data, profiles; and `.env`. Knows no Spark."""

from tidemill.project.project import (
    PROJECT_FILE,
    Flags,
    OutsideSource,
    Project,
    ProjectError,
    SparkSettings,
    Warehouse,
    find_project,
)

__all__ = [
    "PROJECT_FILE",
    "Flags",
    "OutsideSource",
    "Project",
    "ProjectError",
    "SparkSettings",
    "Warehouse",
    "find_project",
]
