"""Tidemill keeps tables up to date incrementally and exactly."""

from tidemill.api import MergeResult, history, merge, read, restore
from tidemill.declare.strategies import MergeStrategy
from tidemill.errors import TidemillError
from tidemill.join import incremental_join
from tidemill.project_api import Project

__version__ = "0.1.0"
__all__ = [
    "MergeResult",
    "MergeStrategy",
    "Project",
    "TidemillError",
    "__version__",
    "history",
    "incremental_join",
    "merge",
    "read",
    "restore",
]
