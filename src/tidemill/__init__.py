"""Tidemill keeps tables up to date incrementally and exactly."""

from tidemill.api.project import Project
from tidemill.api.tables import MergeResult, backup, history, merge, merge_parquet_dataset, read, restore
from tidemill.errors import TidemillError
from tidemill.join import incremental_join
from tidemill.model.function import (
    expect,
    expect_all,
    expect_all_or_drop,
    expect_all_or_fail,
    expect_or_drop,
    expect_or_fail,
    table,
)
from tidemill.model.strategy import MergeStrategy
from tidemill.sources.http.api import Api
from tidemill.sources.protocol import Run

__version__ = "0.1.0"
__all__ = [
    "Api",
    "MergeResult",
    "MergeStrategy",
    "Project",
    "Run",
    "TidemillError",
    "__version__",
    "backup",
    "expect",
    "expect_all",
    "expect_all_or_drop",
    "expect_all_or_fail",
    "expect_or_drop",
    "expect_or_fail",
    "history",
    "incremental_join",
    "merge",
    "merge_parquet_dataset",
    "read",
    "restore",
    "table",
]


def __dir__() -> list[str]:
    """What the tab key offers: the public names, and not the modules behind them."""
    return [*__all__, "errors"]
