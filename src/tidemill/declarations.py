"""What a `tidemill.Table` consists of: where its rows come from, its strategy, its window, its checks.

They are plain, frozen data: `Project.tables` gives them as they were read from the project's files.

    from tidemill.declarations import Merge

    keys = {table.name: table.strategy.keys for table in project.tables if isinstance(table.strategy, Merge)}
"""

from tidemill.model.check import AcceptedValues, Holds, NotNull, Relationships, RowCount, Severity, Unique
from tidemill.model.cursor import Condition, CurrentDate, StartVariable, Template
from tidemill.model.function import Expectation, Function, OnUnmet
from tidemill.model.join import Join, JoinSide
from tidemill.model.project import Masking
from tidemill.model.query import Query
from tidemill.model.source import Load, Loaded, Loads, Source
from tidemill.model.strategy import Append, DeleteInsert, MaterializedView, Merge, RefreshCheck, Replace
from tidemill.model.table import KeptRows, NullTime, Window

__all__ = [
    "AcceptedValues",
    "Append",
    "Condition",
    "CurrentDate",
    "DeleteInsert",
    "Expectation",
    "Function",
    "Holds",
    "Join",
    "JoinSide",
    "KeptRows",
    "Load",
    "Loaded",
    "Loads",
    "Masking",
    "MaterializedView",
    "Merge",
    "NotNull",
    "NullTime",
    "OnUnmet",
    "Query",
    "RefreshCheck",
    "Relationships",
    "Replace",
    "RowCount",
    "Severity",
    "Source",
    "StartVariable",
    "Template",
    "Unique",
    "Window",
]
