"""What all front ends make of a query, of a join, and of the settings that every table takes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar

from tidemill.formats import FORMATS
from tidemill.frontends.pipeline.tokens import cut_at_parameters
from tidemill.frontends.sql.grouping import row_key
from tidemill.frontends.sql.scopes import inputs_of
from tidemill.frontends.sql.volatile import reads_clock, sums_of, unrepeatable
from tidemill.model import OF_WAREHOUSE
from tidemill.model.query import Query
from tidemill.model.source import as_names
from tidemill.model.strategy import (
    DeleteInsert,
    IncrementalJoin,
    MaterializedView,
    Merge,
    MergeStrategy,
    Refresh,
    RefreshCheck,
    Replace,
)
from tidemill.model.table import KeptRows, NullTime, SchemaPolicy, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tidemill.errors import Origin
    from tidemill.model import Naming
    from tidemill.model.join import Join
    from tidemill.model.strategy import Strategy


def query_of(text: str, origin: Origin | None) -> Query:
    """A query as a declaration, with what can be known of its rows."""
    pieces, names = cut_at_parameters(text)
    return Query(pieces, names, origin, clock=reads_clock(text), unrepeatable=unrepeatable(text), sums=sums_of(text))


def inputs_in(query: str, naming: Naming) -> tuple[str, ...] | None:
    """The tables that it reads, by the names under which all front ends know them; None where nobody can tell."""
    found = inputs_of(query)
    return None if found is None else tuple(naming.key(name) for name in found)


def sql_hash(query: Query) -> str:
    """Changes with the text of the query."""
    return hashlib.sha256(query.text.encode()).hexdigest()[:16]


class Rows(TypedDict):
    """Where the rows of a table come from, and how they enter it."""

    strategy: Strategy
    window: Window | None
    producer: Query | Join
    inputs: tuple[str, ...]
    sql_hash: str
    owns_window: bool


def rows_of_query(query: Query, strategy: Strategy, window: Window | None, inputs: tuple[str, ...]) -> Rows:
    strategy = with_row_key(strategy, query)
    bounds_itself = bool({"start_dt", "start_date"} & set(query.parameters))
    owns_window = window is not None and bounds_itself
    return Rows(
        strategy=strategy,
        window=window,
        producer=query,
        inputs=inputs,
        sql_hash=sql_hash(query),
        owns_window=owns_window,
    )


def rows_of_join(join: Join, max_shrink: float | None, others: Iterable[str] = ()) -> Rows:
    """`others` are tables that it reads beside its sides."""
    return Rows(
        strategy=IncrementalJoin(max_shrink=max_shrink),
        window=Window(join.time, null_time=NullTime.SKIP),
        producer=join,
        inputs=tuple(dict.fromkeys((join.a.table, join.b.table, *others))),
        sql_hash=join.sql_hash,
        owns_window=True,
    )


Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Read(Generic[Value]):
    """How a value is read: None where it does not fit. `wanted` is what it must be, one of the `words` if any."""

    read: Callable[[object], Value | None]
    wanted: str
    words: tuple[str, ...] = ()


def _one_of(known: Iterable[str]) -> Read[str]:
    words = tuple(known)

    def read(value: object) -> str | None:
        return str(value).lower() if str(value).lower() in words else None

    return Read(read, f"one of {', '.join(words)}", words)


def _share(value: object) -> float | None:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
    return float(value) if fits and isinstance(value, int | float) else None


TEXT: Read[str] = Read(lambda value: value if isinstance(value, str) else None, "a text")
NAMES: Read[tuple[str, ...]] = Read(as_names, "a name or a list of names")
_FLAG: Read[bool] = Read(lambda value: value if isinstance(value, bool) else None, "true or false")
_COLUMN_OR_FLAG: Read[str | bool] = Read(
    lambda value: value if isinstance(value, str | bool) else None,
    "true or the name of a column",
)

JOIN = "incremental_join"
MATERIALIZED_VIEW = "materialized_view"
WINDOWED = ("append", "merge", "delete_insert")
INCREMENTAL = (*WINDOWED, "full_merge")
_KEPT = ("table", MATERIALIZED_VIEW, *INCREMENTAL, JOIN)


@dataclass(frozen=True, slots=True)
class Setting:
    """What can be set of a table, whichever way in its author takes.

    `read` is how a pipeline's option is read. `kinds` are the materializations and strategies that take it, all where
    none are named. `of_load`: each LOAD has it for itself. `has_columns`: its values are columns of the table.
    """

    read: Read[Any]
    kinds: tuple[str, ...] = ()
    of_load: bool = False
    has_columns: bool = False


SETTINGS: Mapping[str, Setting] = {
    "dedup_order_by": Setting(NAMES, ("merge", "full_merge"), of_load=True, has_columns=True),
    # a column, or true for the cursor of the source or the table
    "only_newer": Setting(_COLUMN_OR_FLAG, ("merge",), of_load=True),
    "null_time": Setting(_one_of(NullTime), WINDOWED, of_load=True),
    "on_schema_change": Setting(_one_of(SchemaPolicy), (*INCREMENTAL, JOIN)),
    "volatile": Setting(NAMES, _KEPT, has_columns=True),
    "partition_by": Setting(NAMES, _KEPT, has_columns=True),
    "cluster_by": Setting(NAMES, _KEPT, has_columns=True),
    "format": Setting(_one_of(FORMATS), _KEPT),
    "max_shrink": Setting(
        Read(_share, "a share from 0 to 1, such as 0.1"),
        ("table", MATERIALIZED_VIEW, "full_merge", "delete_insert", JOIN),
        of_load=True,
    ),
    "refresh": Setting(_one_of(Refresh), (MATERIALIZED_VIEW,)),
    "refresh_check": Setting(_one_of(RefreshCheck), (MATERIALIZED_VIEW,)),
    "kept_rows": Setting(_one_of(KeptRows), ("merge",)),
    "reset_allowed": Setting(_FLAG, _KEPT),
    "description": Setting(TEXT),
    "tags": Setting(NAMES),
}  # in the words of users
OF_COLUMNS = tuple(name for name, setting in SETTINGS.items() if setting.has_columns)


@singledispatch
def with_settings(
    strategy: Strategy,
    given: Mapping[str, Any],  # noqa: ARG001  as others do
    only_newer: str | None = None,  # noqa: ARG001
    newest_by: str | None = None,  # noqa: ARG001
) -> Strategy:
    """The strategy with what is set of it; `newest_by` is the cursor of the source that is loaded."""
    return strategy


@with_settings.register(Replace)
@with_settings.register(DeleteInsert)
@with_settings.register(IncrementalJoin)
def _(strategy: Replace | DeleteInsert | IncrementalJoin, given: Mapping[str, Any], *_: str | None) -> Strategy:
    return replace(strategy, max_shrink=given.get("max_shrink"))


@with_settings.register(MaterializedView)
def _(strategy: MaterializedView, given: Mapping[str, Any], *_: str | None) -> Strategy:
    return replace(
        strategy,
        max_shrink=given.get("max_shrink"),
        refresh=Refresh(given.get("refresh", strategy.refresh)),
        refresh_check=RefreshCheck(given["refresh_check"]) if "refresh_check" in given else None,
    )


@singledispatch
def with_row_key(strategy: Strategy, query: Query) -> Strategy:
    """The strategy with what the query shows of its rows."""
    del query
    return strategy


@with_row_key.register(MaterializedView)
def _(strategy: MaterializedView, query: Query) -> Strategy:
    return replace(strategy, row_key=row_key(query.text))


@singledispatch
def with_refresh_check(strategy: Strategy, check: RefreshCheck) -> Strategy:
    """The strategy with what its project says of refreshes, where it says nothing of its own."""
    del check
    return strategy


@with_refresh_check.register(MaterializedView)
def _(strategy: MaterializedView, check: RefreshCheck) -> Strategy:
    return replace(strategy, refresh_check=strategy.refresh_check or check)


@with_settings.register(Merge)
def _(
    strategy: Merge, given: Mapping[str, Any], only_newer: str | None = None, newest_by: str | None = None
) -> Strategy:
    order = as_names(given.get("dedup_order_by")) or ()
    if strategy.is_whole:
        return replace(strategy, dedup_order_by=order, max_shrink=given.get("max_shrink"))
    if order:
        return replace(strategy, form=MergeStrategy.DEDUPLICATE, dedup_order_by=order, only_newer=only_newer)
    return replace(strategy, only_newer=only_newer, newest_by=newest_by)


class Settings(TypedDict):
    """What every table takes alike, whichever way in its author takes."""

    volatile: tuple[str, ...]
    schema_policy: SchemaPolicy
    partition_by: tuple[str, ...]
    cluster_by: tuple[str, ...]
    format: str
    reset_allowed: bool
    description: str | None
    tags: tuple[str, ...]
    kept_rows: KeptRows | None


def settings_of(given: Mapping[str, Any], volatile: Iterable[str] = ()) -> Settings:
    """The settings in values whose types are right; `volatile` are columns that are found to be."""

    def names(key: str) -> tuple[str, ...]:
        return as_names(given.get(key)) or ()

    return Settings(
        volatile=tuple(dict.fromkeys([*names("volatile"), *volatile])),
        schema_policy=SchemaPolicy(given.get("on_schema_change", SchemaPolicy.FAIL)),
        partition_by=names("partition_by"),
        cluster_by=names("cluster_by"),
        format=given.get("format", OF_WAREHOUSE),
        reset_allowed=given.get("reset_allowed", True),
        description=given.get("description"),
        tags=names("tags"),
        kept_rows=KeptRows(given["kept_rows"]) if "kept_rows" in given else None,
    )
