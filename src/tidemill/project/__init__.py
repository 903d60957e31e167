"""The project file: warehouse, Spark, variables, outside data, profiles; and `.env`. Knows no Spark."""

from tidemill.declare.project_file import ALONE, PROJECT_FILE, find_project, is_project
from tidemill.declare.spark import SparkSettings
from tidemill.project.filling import Filling
from tidemill.project.project import Flags, OutsideSource, ProjectSettings, Warehouse, must_exist, target_here
from tidemill.project.toml import ProjectError

__all__ = [
    "ALONE",
    "PROJECT_FILE",
    "Filling",
    "Flags",
    "OutsideSource",
    "ProjectError",
    "ProjectSettings",
    "SparkSettings",
    "Warehouse",
    "find_project",
    "is_project",
    "must_exist",
    "target_here",
]
