"""Types for the metadata of models, so that an editor completes them and a type checker reads them.

A model is one SELECT in `models/<schema>/<name>.sql`. Its metadata is a dict by the name of `metadata` in the file
`<name>.py` beside it, or the same as JSON in the first comment of the SQL file, `-- metadata: {…}`, which may go on
over several `--` lines. Without metadata a model is a table that each run rebuilds.

    from tidemill.typing import ModelMetadata

    metadata: ModelMetadata = {
        "description": "Orders that are not cancelled, one row each",
        "materialization": "incremental",
        "incremental": {
            "strategy": "merge",
            "merge": {"unique_key": "id", "time_column": "updated_at", "start_date": "auto", "lookback": "3 hours"},
        },
        "checks": [
            {"not_null": ["id", "updated_at"]},
            {"unique": "id"},
            {"accepted_values": {"column": "status", "values": ["open", "paid"]}},
            {"relationships": {"column": "customer_id", "to": "my_schema.customers", "field": "id"}},
            {"row_count": {"min": 1}},
            "amount >= 0",
            {"condition": "amount < 1000", "severity": "warn", "name": "no order is that large"},
        ],
    }

Checks are a list. Each is a dict with one of `not_null`, `unique`, `accepted_values`, `relationships`, `row_count` or
`condition`, and beside it, if need be, a `severity` ("error" or "warn") and a `name`. A bare text is a condition. As in
SQL, only `not_null` looks at NULLs: the others ignore them.

`start_date` says where runs start. With "auto" that is the highest time held minus the lookback. A date or timestamp
bounds every run, the first as well, and so does "CURRENT_DATE", the midnight of the day of the run. With "@name" a
first run reads everything, and each later one starts at the value of that variable, which has to be given.
"""

from collections.abc import Mapping
from datetime import date
from typing import Literal, Required, TypeAlias, TypedDict

TableFormat: TypeAlias = Literal["delta", "parquet"]
Materialization: TypeAlias = Literal["table", "view", "materialized_view", "incremental", "incremental_join"]
JoinType: TypeAlias = Literal["inner", "left", "right", "full", "left_anti", "right_anti"]
Strategy: TypeAlias = Literal["append", "merge", "full_merge", "delete_insert"]
OnSchemaChange: TypeAlias = Literal["fail", "ignore", "append_new_columns", "sync_all_columns"]
NullTime: TypeAlias = Literal["fail", "include", "skip"]
KeptRows: TypeAlias = Literal["intended"]
Refresh: TypeAlias = Literal["auto", "incremental", "full"]
RefreshCheck: TypeAlias = Literal["never", "always"]
Severity: TypeAlias = Literal["error", "warn"]
Names: TypeAlias = str | list[str]


class Append(TypedDict, total=False):
    """Rows enter once, by their time: what is not older than the newest row held minus the lookback is compared."""

    time_column: Required[str]
    """The column that orders the rows in time."""
    start_date: str | int
    """Where runs start: "auto" (the default), "2024-01-01", which bounds all, "@name", or "CURRENT_DATE"."""
    lookback: str | int
    """How late a row may come: "90 minutes", "3 hours", "7 days", "2 weeks", "1 month"; a number for numbers."""
    null_time: NullTime
    """What happens to rows without a time; "fail" is the default."""


class Merge(TypedDict, total=False):
    """Rows enter by their keys: new ones are inserted, known ones updated where they differ."""

    unique_key: Required[Names]
    """The columns that make a row unique."""
    time_column: str
    """The column that orders the rows in time; without one, each run reads all rows."""
    start_date: str | int
    """Where runs start: "auto" (the default), "2024-01-01", which bounds all, "@name", or "CURRENT_DATE"."""
    lookback: str | int
    """How late a row may come: "90 minutes", "3 hours", "7 days", "2 weeks", "1 month"; a number for numbers."""
    null_time: NullTime
    """What happens to rows without a time; "fail" is the default."""
    only_newer: bool | str
    """True, or a column: a row that is older by it than the one held does not replace it."""
    dedup_order_by: Names
    """Keeps one row per key, the one with the highest of these."""
    kept_rows: KeptRows
    """With "intended", rows that the query no longer returns are meant to stay, and `verify` does not fail on them."""


class FullMerge(TypedDict, total=False):
    """Like merge, and rows that the query no longer returns are deleted; each run reads all rows."""

    unique_key: Required[Names]
    """The columns that make a row unique."""
    dedup_order_by: Names
    """Keeps one row per key, the one with the highest of these."""
    max_shrink: float
    """The share of its rows that the table may lose in one run, such as 0.1."""


class DeleteInsert(TypedDict, total=False):
    """The rows that match one condition become exactly those that the query gives."""

    where_condition: str
    """The condition, in which @names are variables of the run; without one it is the window of the run."""
    time_column: str
    """The column that orders the rows in time."""
    start_date: str | int
    """Where runs start: "auto" (the default), "2024-01-01", which bounds all, "@name", or "CURRENT_DATE"."""
    lookback: str | int
    """How late a row may come: "90 minutes", "3 hours", "7 days", "2 weeks", "1 month"; a number for numbers."""
    null_time: NullTime
    """What happens to rows without a time; "fail" is the default."""


class Incremental(TypedDict, total=False):
    """A strategy, and under its name what it needs."""

    strategy: Required[Strategy]
    append: Append
    merge: Merge
    full_merge: FullMerge
    delete_insert: DeleteInsert
    on_schema_change: OnSchemaChange


class Suffixes(TypedDict, total=False):
    """What is put behind a column's name; without them, nothing for `a` and "_b" for `b`."""

    a: str
    b: str


class IncrementalJoin(TypedDict, total=False):
    """Two tables that grow by increments. The SELECT of the model names columns of `a` and `b`, and has no FROM."""

    a: Required[str]
    a_time: Required[str]
    """The column that says when a row of `a` came."""
    b: Required[str]
    b_time: Required[str]
    on: Required[str | list[str | list[str]]]
    """A column that both sides have, a list of such or of pairs, or a condition over `a.` and `b.`, with @names."""
    how: JoinType
    """Which rows there are beside pairs, or in their place; "left" is the default."""
    look_back: Required[str | int]
    """How long before its `a` a row of `b` may come: "6 days", "90 minutes"; a number for numbers."""
    look_forward: Required[str | int]
    """How long after its `a` a row of `b` may come."""
    start: str | int
    """Where the first window begins; without one, with the first row of either side."""
    up_to: str | int
    """The newest increment that both sides have in full, or "@name"; without one, they are asked."""
    time: str
    """What the time of a row of the join is called; "target_time" without one."""
    status: str
    """What the column is called that says how a row came to be; "join_status" without one."""
    suffixes: Suffixes
    """For columns that both sides have, where the SELECT is `*`."""


class AcceptedValues(TypedDict):
    column: str
    values: list[str | float | bool]


class Relationships(TypedDict, total=False):
    column: Required[str]
    to: Required[str]
    """The table that has the values."""
    field: str
    """Its column; the same name where it is left out."""


class RowCount(TypedDict, total=False):
    min: int
    max: int


class Check(TypedDict, total=False):
    """One of the first six, and how it is taken."""

    not_null: Names
    """Columns in which no NULL may be."""
    unique: Names
    """Columns that together make a row unique."""
    accepted_values: AcceptedValues
    relationships: Relationships
    row_count: RowCount
    condition: str
    """A SQL condition that is false for no row."""
    severity: Severity
    """What a failed check does: with "error" (the default) the step fails before its commit, "warn" only tells."""
    name: str


class ModelMetadata(TypedDict, total=False):
    """What a model is, beside its query. `null_time`, `only_newer` and `dedup_order_by` may stand in a strategy too."""

    description: str
    materialization: Materialization
    """What it becomes: a "table" (the default), which each run rebuilds, a "materialized_view", which follows its
    inputs by what changed in them, a "view", "incremental", or "incremental_join"."""
    refresh: Refresh
    """How a materialized view follows its inputs: "auto" (the default) takes the cheaper way, "incremental" stops
    where a run would have to compute it whole, "full" always computes it whole."""
    refresh_check: RefreshCheck
    """With "always", each incremental refresh is compared with the whole query before its commit, and fails where they
    differ: for tests. "never" is the default, unless the project says otherwise."""
    incremental: Incremental
    incremental_join: IncrementalJoin
    """What it joins, for the materialization of that name."""
    tags: Names
    partition_by: Names
    cluster_by: Names
    format: TableFormat
    """What the table is kept as: "delta", or "parquet" for a plain dataset; the warehouse's where it is left out."""
    on_schema_change: OnSchemaChange
    """What happens when the columns of the query are not the table's; "fail" is the default."""
    null_time: NullTime
    """What happens to rows without a time; "fail" is the default."""
    only_newer: bool | str
    """True, or a column: a row that is older by it than the one held does not replace it."""
    dedup_order_by: Names
    """Keeps one row per key, the one with the highest of these."""
    max_shrink: float
    """The share of its rows that a table may lose in one run, such as 0.1."""
    kept_rows: KeptRows
    """With "intended", rows that the query no longer returns are meant to stay, and `verify` does not fail on them."""
    volatile: Names
    """Columns that differ from run to run whatever the data is, and so take no part in comparison."""
    reads: Names
    """Tables that the query reads, where its SQL does not tell."""
    reset_allowed: bool
    """False: the table cannot be rebuilt, and no run removes rows of it that an upsert would keep."""
    checks: list[str | Check]


class TableArguments(TypedDict, total=False):
    """What `@tidemill.table` takes."""

    name: str
    """`schema.table`; without it the function's name, in the schema of its folder."""
    keys: Names
    """The columns that make a row unique: new rows are inserted, known ones updated where they differ."""
    time_column: str
    """The column that orders the rows in time. With one, the function is asked for dates."""
    start: str | date
    """The first date that is ever fetched, such as "2023-10-01"; yesterday where it is left out."""
    lookback: str
    """How far before the last date fetched a run begins: "1 day", "2 weeks"."""
    timezone: str
    """Whose dates they are, such as "America/New_York"; "UTC" is the default."""
    batch: str
    """How many dates are fetched and committed at a time, such as "7 days"; all where it is left out."""
    strategy: Literal["merge", "append", "replace", "insert", "update", "full_merge", "deduplicate"]
    """How rows enter: "merge" (the default where there are keys), "append" or "replace"; or a form of merge."""
    schema: object
    """The columns and their types: "id BIGINT, day DATE", a dict of them, or a StructType. For fetches without rows."""
    dedup_order_by: Names
    """Keeps one row per key, the one with the highest of these."""
    max_shrink: float
    """The share of its rows that a replaced table may lose in one run; 0.1 is the default."""
    kept_rows: KeptRows
    """With "intended", rows that are no longer returned are meant to stay, and `verify` proposes no remedy."""
    reset_allowed: bool
    """False: the table's history cannot be dropped, and no run removes rows that an upsert would keep."""
    comment: str
    """What the table is, kept on it."""
    table_properties: Mapping[str, object]
    """Properties that are kept on the table."""
    partition_by: Names
    cluster_by: Names
    format: TableFormat
    """What the table is kept as: "delta", or "parquet" for a plain dataset; the warehouse's where it is left out."""
    reads: Names
    """The tables that the function reads with `run.read`: they are made before it is called."""
    tags: Names
    null_time: NullTime
    """What happens to rows without a time; "fail" is the default."""
    volatile: Names
    """Columns that differ from run to run whatever the data is, such as a load time: they are not compared."""
    on_schema_change: OnSchemaChange
    """What happens when the columns of the rows are not the table's; "fail" is the default."""
