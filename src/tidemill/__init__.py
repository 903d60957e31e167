"""Tidemill keeps tables up to date incrementally and exactly.

The calls are here, and the types that they take and return. What these consist of is in `tidemill.declarations` (what
a project declares) and `tidemill.results` (what a run, a check or a verification has found); errors are in
`tidemill.errors`, types for the metadata of models in `tidemill.typing`, and `tidemill.testing` helps to test table
functions.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from tidemill.errors import TidemillError

if TYPE_CHECKING:  # the same names as in _HOMES
    from tidemill.api.logs import DropResult, History, history
    from tidemill.api.merging import merge, merge_parquet_dataset
    from tidemill.api.project import Project
    from tidemill.api.results import MergeResult, RunResult, RunStep
    from tidemill.api.tables import backup, read, restore
    from tidemill.execution.checks import TableChecks
    from tidemill.join import incremental_join
    from tidemill.ledger.past import PastRun, PastRuns
    from tidemill.maintenance.backup import BackupResult, RestoreResult
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
    from tidemill.model.strategy import MergeStrategy, Refresh
    from tidemill.model.table import SchemaPolicy, Table
    from tidemill.planning import PlannedStep
    from tidemill.planning.explanation import Explanation
    from tidemill.sources import Dates, Run
    from tidemill.sources.http.fetch import Api
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
    "Explanation",
    "History",
    "JoinType",
    "MergeResult",
    "MergeStrategy",
    "PastRun",
    "PastRuns",
    "PlannedStep",
    "Project",
    "Record",
    "Refresh",
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

# Where each name comes from. Its module is loaded when somebody asks for it: some take time to load, or load Spark.
_HOMES = {
    "Api": "tidemill.sources.http.fetch",
    "BackupResult": "tidemill.maintenance.backup",
    "Commit": "tidemill.model.record",
    "Cursor": "tidemill.model.cursor",
    "Dates": "tidemill.sources",
    "DropResult": "tidemill.api.logs",
    "Duration": "tidemill.model.cursor",
    "Explanation": "tidemill.planning.explanation",
    "History": "tidemill.api.logs",
    "JoinType": "tidemill.model.join",
    "MergeResult": "tidemill.api.results",
    "MergeStrategy": "tidemill.model.strategy",
    "PastRun": "tidemill.ledger.past",
    "PastRuns": "tidemill.ledger.past",
    "PlannedStep": "tidemill.planning",
    "Project": "tidemill.api.project",
    "Record": "tidemill.model.record",
    "Refresh": "tidemill.model.strategy",
    "RestoreResult": "tidemill.maintenance.backup",
    "Run": "tidemill.sources",
    "RunResult": "tidemill.api.results",
    "RunStep": "tidemill.api.results",
    "SchemaPolicy": "tidemill.model.table",
    "Table": "tidemill.model.table",
    "TableChecks": "tidemill.execution.checks",
    "Verified": "tidemill.verify.result",
    "VerifiedTables": "tidemill.verify.result",
    "backup": "tidemill.api.tables",
    "expect": "tidemill.model.function",
    "expect_all": "tidemill.model.function",
    "expect_all_or_drop": "tidemill.model.function",
    "expect_all_or_fail": "tidemill.model.function",
    "expect_or_drop": "tidemill.model.function",
    "expect_or_fail": "tidemill.model.function",
    "history": "tidemill.api.logs",
    "incremental_join": "tidemill.join",
    "merge": "tidemill.api.merging",
    "merge_parquet_dataset": "tidemill.api.merging",
    "read": "tidemill.api.tables",
    "restore": "tidemill.api.tables",
    "table": "tidemill.model.function",
}


if not TYPE_CHECKING:  # which would take every name for one of ours

    def __getattr__(name: str) -> object:
        """A public name, from the module that has it; from then on it stands here."""
        module = _HOMES.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return globals().setdefault(name, getattr(import_module(module), name))


def __dir__() -> list[str]:
    """What the tab key offers: the public names, and not the modules behind them."""
    return [*__all__, "errors"]
