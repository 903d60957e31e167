"""Tidemill keeps tables up to date incrementally and exactly."""

from tidemill.api import MergeResult, history, merge, merge_parquet_dataset, read, restore
from tidemill.declare.strategies import MergeStrategy
from tidemill.errors import TidemillError
from tidemill.project_api import Project

__version__ = "0.1.0"
__all__ = [
    "MergeResult",
    "MergeStrategy",
    "Project",
    "TidemillError",
    "__version__",
    "history",
    "merge",
    "merge_parquet_dataset",
    "read",
    "restore",
]
