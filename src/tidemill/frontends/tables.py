"""What all front ends make of a query, of a join, and of the settings that every table takes."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, TypedDict

from tidemill.frontends.pipeline.tokens import cut_at_parameters
from tidemill.frontends.sql import inputs_of, reads_clock, sums_of, unrepeatable
from tidemill.model.names import OF_WAREHOUSE
from tidemill.model.query import Query
from tidemill.model.source import as_names
from tidemill.model.strategy import IncrementalJoin
from tidemill.model.table import KeptRows, NullTime, SchemaPolicy, Window

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tidemill.errors import Origin
    from tidemill.model.join import Join
    from tidemill.model.names import Naming
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


SETTINGS = (
    *("volatile", "on_schema_change", "partition_by", "cluster_by", "format"),
    *("reset_allowed", "description", "tags", "kept_rows"),
)  # as users write them


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
