"""A table that Tidemill keeps: what it is called, how changes enter it, which window a run reads."""

from __future__ import annotations

import hashlib
import shlex
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from tidemill.errors import ArgumentError, Origin, SchemaError
from tidemill.formats import DEFAULT_FORMAT, FORMATS, Capability, can, formats_that
from tidemill.model.cursor import Duration, duration
from tidemill.model.query import Query
from tidemill.model.strategy import MergeStrategy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidemill.model.check import Check
    from tidemill.model.cursor import MovingStart
    from tidemill.model.function import Function
    from tidemill.model.join import Join
    from tidemill.model.query import Producer
    from tidemill.model.source import Load, Loads
    from tidemill.model.strategy import Strategy


def schema_changed(name: str, added: Sequence[str], missing: Sequence[str]) -> SchemaError:
    """`added` are columns that the table of this name lacks, `missing` those that its source lacks."""
    more = [f"the source also has {', '.join(added)}"] if added else []
    less = [f"the source lacks {', '.join(missing)}"] if missing else []
    rebuilt = "" if "/" in name else f", or rebuild the table with a run that has -s {name} --full-refresh"
    return SchemaError(
        "schema.changed",
        f"The columns of the source are not those of {name}: {'; '.join([*more, *less])}.",
        "Set on_schema_change (of a merge: schema_policy) to ignore, append_new_columns or sync_all_columns"
        f"{rebuilt}. The table is unchanged.",
    )


E = TypeVar("E", bound=StrEnum)
MOST_CLUSTERED = 4  # Delta takes no more
# Spark refuses these in just this spelling
_SPARKS_OWN = ("owner", "provider", "location", "external", "is_managed_location", "table_type", "collation")


class SchemaPolicy(StrEnum):
    """What happens when the columns of a change are not the table's. Its name as a text will do.

    >>> tidemill.SchemaPolicy("append_new_columns")
    <SchemaPolicy.APPEND_NEW_COLUMNS: 'append_new_columns'>
    """

    FAIL = "fail"
    IGNORE = "ignore"
    APPEND_NEW_COLUMNS = "append_new_columns"
    SYNC_ALL_COLUMNS = "sync_all_columns"


class NullTime(StrEnum):
    """What happens to rows that have no time."""

    FAIL = "fail"
    INCLUDE = "include"
    SKIP = "skip"


class KeptRows(StrEnum):
    """What a declaration says of rows that its query no longer returns and its strategy keeps."""

    INTENDED = "intended"


@dataclass(frozen=True, slots=True)
class Window:
    """Which rows a run reads: `time_column >= max(start, watermark - lookback)`.

    `start` is a literal; `moving_start` stands in its place where only the run knows it.
    """

    time_column: str
    start: str | None = None
    lookback: Duration | int | None = None
    null_time: NullTime = NullTime.FAIL
    moving_start: MovingStart | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """One table of the warehouse, or one dataset folder. `producer` gives its rows, out of `inputs`.

    `owns_window`: its query has taken charge of the window, so its rows are checked instead of filtered.
    `file`: the one that a command was given instead of its project.
    `single_writer`: the user's promise that no other process writes to it.

    >>> orders = tidemill.Project.load("shop").tables[0]
    >>> orders.name, str(orders.strategy), orders.window.time_column
    ('raw_orders', 'merge upsert', 'updated_at')
    """

    name: str
    path: str
    strategy: Strategy
    window: Window | None = None
    volatile: tuple[str, ...] = ()
    schema_policy: SchemaPolicy = SchemaPolicy.FAIL
    partition_by: tuple[str, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)
    sql_hash: str | None = None
    input: str = "source"
    owns_window: bool = False
    origin: Origin | None = None
    producer: Producer | None = None
    inputs: tuple[str, ...] = ()
    reset_allowed: bool = True
    description: str | None = None
    tags: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    format: str = DEFAULT_FORMAT
    file: str | None = None
    single_writer: bool = False
    kept_rows: KeptRows | None = None

    @property
    def command(self) -> str:
        """What a user types to run it alone."""
        return " ".join(["tidemill run", *([shlex.quote(self.file)] if self.file else []), f"-s {self.name}"])

    @property
    def config_hash(self) -> str:
        """Changes when something of the declaration does that decides which rows the table holds."""
        parts: tuple[object, ...] = (self.strategy, self.window, sorted(self.volatile), self.schema_policy)
        parts = (*parts, self.owns_window)
        if self.several:
            parts = (*parts, *(load.declared for load in self.several.loads))
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    @property
    def declared_strategy(self) -> str:
        """Its strategy and keys, as people read them and records keep them."""
        if self.several:
            return ", then ".join(dict.fromkeys(load.strategy.label for load in self.several.loads))
        return self.strategy.label

    @property
    def loads(self) -> tuple[Load, ...]:
        """The LOADs that give its rows, one or several; none where a query, a join or a function does."""
        return self.producer.loads_of(self) if self.producer else ()

    @property
    def parts(self) -> tuple[Table, ...]:
        """The table as each source of it alone keeps it, where they have progress of their own; else the table."""
        if not self.several or self.several.recomputed:
            return (self,)
        return tuple(self.alone(load) for load in self.several.loads)

    @property
    def input_names(self) -> tuple[str, ...]:
        """By these names its record knows how far it was read."""
        return tuple(part.input for part in self.parts)

    def alone(self, load: Load) -> Table:
        """The table as if this LOAD were its only one."""
        return replace(
            self,
            strategy=load.strategy,
            window=load.window,
            input=load.input,
            producer=load.producer,
            origin=load.origin or self.origin,
            kept_rows=None,
        )

    @property
    def reads_windows(self) -> bool:
        """Whether a run may read a part of the source; others read it whole."""
        return self.window is not None and not (self.strategy.replaces and self.function is None)

    @property
    def several(self) -> Loads | None:
        """The LOADs that give its rows, where they are several."""
        return self.producer.as_loads if self.producer else None

    @property
    def function(self) -> Function | None:
        """The function that gives its rows, where it is one."""
        return self.producer.as_function if self.producer else None

    @property
    def join(self) -> Join | None:
        """The join that gives its rows, where it is one."""
        return self.producer.as_join if self.producer else None

    @property
    def keeps_rows(self) -> bool:
        """Whether rows that are no longer returned stay by its declaration.

        That is what an upsert of a source or a function means; of a query's it has to be said.
        """
        return self.kept_rows is KeptRows.INTENDED or not isinstance(self.producer, Query)

    def __post_init__(self) -> None:
        if self.strategy.form is MergeStrategy.FULL_MERGE and self.window:
            raise ArgumentError(
                "table.full_merge_window",
                f"{self.name}: full_merge reads its whole source and takes no window.",
                "Drop the time column, or use upsert, which keeps rows that the window does not read.",
                origin=self.origin,
            )
        self._check_kept_rows()
        self._check_layout()
        self._check_properties()
        if self.compared_query and self.compared_query.unrepeatable:
            raise ArgumentError(
                "append.unrepeatable",
                f"{self.name} appends what is new of a query with {self.compared_query.unrepeatable}, whose value may "
                "differ from run to run: a row that is here already would look new.",
                "Use one that does not depend on the order of rows (min, max, max_by, sort_array(collect_list(…))), "
                "or merge on the keys instead.",
                origin=self.compared_query.origin or self.origin,
            )

    @property
    def compared_query(self) -> Query | None:
        """The query whose rows are compared with those of the table before they are appended, where that is so."""
        compares = self.strategy.appends and self.window is not None
        return self.producer if compares and isinstance(self.producer, Query) else None

    def _check_kept_rows(self) -> None:
        if self.kept_rows and not self.strategy.keeps_rows:
            raise ArgumentError(
                "table.no_kept_rows",
                f"{self.name} says kept_rows = {self.kept_rows}, and {self.strategy} keeps no rows that are no longer "
                "returned.",
                "Leave it out, or use MERGE.",
                origin=self.origin,
            )

    def _check_properties(self) -> None:
        taken = [name for name in self.properties if name in _SPARKS_OWN]
        if taken:
            raise ArgumentError(
                "table.reserved_property",
                f"{self.name} has the propert{'y' if len(taken) == 1 else 'ies'} {', '.join(taken)}, "
                "which Spark keeps for itself.",
                f"Choose another name, such as our.{taken[0]}.",
                origin=self.origin,
            )

    def _check_layout(self) -> None:
        if self.partition_by and self.cluster_by:
            raise ArgumentError(
                "table.two_layouts",
                f"{self.name} has both partition_by and cluster_by, and a table is laid out in one way.",
                "Keep one of them: cluster_by can be changed later, partition_by cannot.",
                origin=self.origin,
            )
        if self.cluster_by and not can(self.format, Capability.CLUSTERING):
            raise ArgumentError(
                "dataset.no_clustering",
                f"{self.name} is kept as a {FORMATS[self.format].noun}, which cannot be clustered by "
                f"{', '.join(self.cluster_by)}.",
                f"Use partition_by, or the format {' or '.join(formats_that(Capability.CLUSTERING))}.",
                origin=self.origin,
            )
        if len(self.cluster_by) > MOST_CLUSTERED:
            raise ArgumentError(
                "table.too_many_clusters",
                f"{self.name} has {len(self.cluster_by)} columns in cluster_by.",
                f"Name those that queries filter by most, {MOST_CLUSTERED} at most.",
                origin=self.origin,
            )


def schema_policy(name: SchemaPolicy | str) -> SchemaPolicy:
    return _member(SchemaPolicy, name, "schema.unknown_policy", "schema policy")


def null_time(name: NullTime | str) -> NullTime:
    return _member(NullTime, name, "window.unknown_null_time", "null_time")


def lookback(value: str | int | None) -> Duration | int | None:
    """A lookback as users write it: a length of time, or a number for numeric cursors."""
    return duration(value) if isinstance(value, str) else value


def _member(kind: type[E], name: str, code: str, word: str) -> E:
    try:
        return kind(str(name).lower())
    except ValueError as failure:
        raise ArgumentError(code, f"{name!r} is no {word}.", f"Use one of {', '.join(kind)}.") from failure
