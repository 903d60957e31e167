"""Tidemill keeps tables up to date incrementally and exactly."""

from tidemill.api import MergeResult, backup, history, merge, read, restore
from tidemill.declare.strategies import MergeStrategy
from tidemill.errors import TidemillError
from tidemill.project_api import Project
from tidemill.sources.http_api import Api

__version__ = "0.1.0"
__all__ = [
    "Api",
    "MergeResult",
    "MergeStrategy",
    "Project",
    "TidemillError",
    "__version__",
    "backup",
    "history",
    "merge",
    "read",
    "restore",
]
