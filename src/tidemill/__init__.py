"""Tidemill keeps tables up to date incrementally and exactly.

The calls are here, and the types that they take and return. What these consist of is in `tidemill.declarations` (what
a project declares) and `tidemill.results` (what a run, a check or a verification has found); errors are in
`tidemill.errors`, types for the metadata of models in `tidemill.typing`, and `tidemill.testing` helps to test table
functions.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from tidemill.api.project import Project
from tidemill.api.tables import MergeResult, backup, history, merge, merge_parquet_dataset, read, restore
from tidemill.errors import TidemillError
from tidemill.join import incremental_join
from tidemill.model.cursor import Cursor, Duration
from tidemill.model.function import (
    expect,
    expect_all,
    expect_all_or_drop,
    expect_all_or_fail,
    expect_or_drop,
    expect_or_fail,
    table,
)
from tidemill.model.join import JoinType
from tidemill.model.record import Commit, Record
from tidemill.model.strategy import MergeStrategy
from tidemill.model.table import SchemaPolicy, Table
from tidemill.sources.http.api import Api
from tidemill.sources.protocol import Dates, Run

if TYPE_CHECKING:
    from tidemill.api.maintenance import DropResult
    from tidemill.api.results import RunResult, RunStep
    from tidemill.execution.checks import TableChecks
    from tidemill.formats.history import History
    from tidemill.ledger.past import PastRun, PastRuns
    from tidemill.maintenance.backup import BackupResult, RestoreResult
    from tidemill.planning.plan import PlannedStep
    from tidemill.verify.result import Verified, VerifiedTables

__version__ = "0.1.0"
__all__ = [
    "Api",
    "BackupResult",
    "Commit",
    "Cursor",
    "Dates",
    "DropResult",
    "Duration",
    "History",
    "JoinType",
    "MergeResult",
    "MergeStrategy",
    "PastRun",
    "PastRuns",
    "PlannedStep",
    "Project",
    "Record",
    "RestoreResult",
    "Run",
    "RunResult",
    "RunStep",
    "SchemaPolicy",
    "Table",
    "TableChecks",
    "TidemillError",
    "Verified",
    "VerifiedTables",
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

# Types that calls return, and that nobody needs before: their modules take time to load, and some of them Spark.
_LOADED_LATER = {
    "BackupResult": "tidemill.maintenance.backup",
    "DropResult": "tidemill.api.maintenance",
    "History": "tidemill.formats.history",
    "PastRun": "tidemill.ledger.past",
    "PastRuns": "tidemill.ledger.past",
    "PlannedStep": "tidemill.planning.plan",
    "RestoreResult": "tidemill.maintenance.backup",
    "RunResult": "tidemill.api.results",
    "RunStep": "tidemill.api.results",
    "TableChecks": "tidemill.execution.checks",
    "Verified": "tidemill.verify.result",
    "VerifiedTables": "tidemill.verify.result",
}


if not TYPE_CHECKING:  # which would take every name for one of ours

    def __getattr__(name: str) -> object:
        """A type whose module is loaded when somebody asks for it."""
        module = _LOADED_LATER.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(module), name)


def __dir__() -> list[str]:
    """What the tab key offers: the public names, and not the modules behind them."""
    return [*__all__, "errors"]
