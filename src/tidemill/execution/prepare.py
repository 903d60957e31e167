"""From the rows of a source to a change that can be trusted: filtered, aligned, settled, profiled, checked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from pyspark.sql import types as t

from tidemill.changes import align, as_stored, require, unambiguous, widened
from tidemill.changes.compare import duplicate_keys, needs_form, newest_versions, null_keys, one_per_key, without_copies
from tidemill.changes.profile import kind_of, profile
from tidemill.errors import ArgumentError, MergeError, SchemaError, TableError
from tidemill.formats import COLUMN_MAPPING, Capability, can, needs_mapping
from tidemill.formats.base import Change, KeyRange, Profile
from tidemill.model import field_names, spelled
from tidemill.model.cursor import Cursor, CursorKind
from tidemill.model.strategy import Append, DeleteInsert, IncrementalJoin, Merge, MergeStrategy, one_predicate
from tidemill.model.table import NullTime, SchemaPolicy
from tidemill.sources import OfFiles
from tidemill.spark.errors import one_line
from tidemill.spark.session import settle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from tidemill.model.record import Snapshot
    from tidemill.model.strategy import Strategy
    from tidemill.model.table import Table
    from tidemill.planning.windows import WindowPlan
    from tidemill.sources import Connector


def profile_in_order(source: Connector, rows: DataFrame, keys: Sequence[str]) -> Profile | None:
    """The profile of all rows of the source, by one whole number as their key; None where only Spark can tell."""
    if not isinstance(source, OfFiles) or not source.is_plain or not source.settled or len(keys) != 1:
        return None
    key = spelled(keys[0], rows.columns)
    if key is None or kind_of(rows.schema[key].dataType) is not CursorKind.INTEGER:
        return None
    spans = source.spans_in_order(rows.inputFiles(), key)
    if spans is None:
        return None
    count = sum(rows for rows, _, _ in spans)
    low, high = (Cursor(CursorKind.INTEGER, value) for value in (spans[0][1], spans[-1][2]))
    return Profile(rows=count, keys=count, ranges=(KeyRange(key, low, high),))


ONE_TASK = 10_000  # rows that one task handles sooner than several would, and that are one file of the table then
_FLOATS = (t.FloatType, t.DoubleType)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A change that is ready to enter its table, and its strategy in the table's spelling."""

    change: Change
    strategy: Strategy
    rows_read: int
    columns: Sequence[str]
    notices: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


def prepare(
    table: Table,
    rows: DataFrame,
    window: WindowPlan | None,
    held: t.StructType | None,
    snapshot: Snapshot | None,
    *,
    settled: bool,
    seen: Profile | None = None,
    measured: bool = False,
) -> Prepared:
    """The change of one step. Every error of the user's rows is raised here, before anything is written.

    `held` are the columns of the table, where there is one. `seen` is the profile of all rows, where it is known; of
    those that are `measured` it says their size.
    """
    unambiguous(rows, table.name)
    columns = rows.columns
    strategy = _spelled(table.strategy, table, rows, held)
    rows, dropped = _aligned(table, _read(table, rows, window), held, snapshot)
    rows = as_stored(rows, held, _partitions(table, snapshot))
    _check_names(rows, held, snapshot, table.name)
    _check_order(strategy, rows)
    _check_layout(table, [*rows.columns, *(held.names if held else ())])
    named = require(table.volatile, rows.columns, "The volatile column", table.name)
    volatile = frozenset(name.lower() for name in named)
    _check_sums(table, rows, volatile)
    preparing = _Preparing(table, strategy, window, snapshot, volatile, measured)
    given = rows if settled else settle(rows)
    change, read = preparing.change(given, seen)
    change = replace(change, kept=not settled or change.rows is not given)
    if change.profile.rows <= ONE_TASK and not settled:  # what a source keeps may be much more than what is read of it
        change = replace(change, rows=change.rows.coalesce(1))
    return Prepared(change, strategy, read, columns, preparing.notices(read, change), dropped)


@dataclass(frozen=True, slots=True)
class _Preparing:
    table: Table
    strategy: Strategy
    window: WindowPlan | None
    snapshot: Snapshot | None
    volatile: frozenset[str]
    measured: bool = False

    def change(self, rows: DataFrame, seen: Profile | None) -> tuple[Change, int]:
        found = seen or self._profile(rows)
        self._check_times(found)
        self._check_condition(rows)
        read = found.rows
        if self.strategy.keys:
            rows, found = self._one_row_per_key(rows, found)
        return Change(rows, found, self.volatile, self._time_column(rows)), read

    def notices(self, read: int, change: Change) -> tuple[str, ...]:
        passed = read - change.profile.rows
        return (f"{passed:,} of {read:,} rows skipped: one row per key is kept",) if passed else ()

    def _profile(self, rows: DataFrame) -> Profile:
        keys = self.strategy.keys
        partitions = self.snapshot.partition_columns if self.snapshot else ()
        return profile(
            rows,
            keys=keys,
            time_column=self._time_column(rows),
            listed=[key for key in keys if key in partitions],
            measured=self.measured,
        )

    def _time_column(self, rows: DataFrame) -> str | None:
        """The time column as the table spells it, which need not be as its declaration does."""
        return (
            require([self.window.column], rows.columns, "The time column", self.table.name)[0] if self.window else None
        )

    def _one_row_per_key(self, rows: DataFrame, found: Profile) -> tuple[DataFrame, Profile]:
        keys = self.strategy.keys
        if found.null_keys:
            raise null_keys(found.null_keys, keys, self.table.name)
        if found.rows == found.keys:
            return rows, found
        rows = settle(_deduplicated(self.strategy, rows, self.volatile))
        again = self._profile(rows)
        if again.rows > again.keys:
            raise duplicate_keys(rows, keys, self.table.name)
        return rows, again

    def _check_times(self, found: Profile) -> None:
        if self.window and found.null_times and self.window.null_time is NullTime.FAIL:
            count = found.null_times
            raise MergeError(
                "window.null_times",
                f"{count:,} row{' has' if count == 1 else 's have'} no {self.window.column}, which orders "
                f"{self.table.name} in time.",
                f'Say null_time = "include" or "skip". {self.table.name} is unchanged.',
            )

    def _check_condition(self, rows: DataFrame) -> None:
        """A query that has taken charge of its window gives rows of it only."""
        bounds = _bounds_of(self.strategy, self.window.predicate if self.window else None)
        if bounds is None or not self.table.owns_window:
            return
        count = rows.where(~F.coalesce(F.expr(bounds.predicate), F.lit(False))).count()  # noqa: FBT003
        if count:
            raise _outside(self.strategy, count, bounds, self.table.name)


@singledispatch
def _deduplicated(strategy: Strategy, rows: DataFrame, volatile: frozenset[str]) -> DataFrame:
    raise NotImplementedError(strategy, rows, volatile)


@_deduplicated.register(Merge)
def _(strategy: Merge, rows: DataFrame, volatile: frozenset[str]) -> DataFrame:
    if strategy.dedup_order_by or strategy.form is MergeStrategy.DEDUPLICATE:
        return one_per_key(rows, strategy.keys, strategy.dedup_order_by)
    if strategy.newest_by:
        rows = newest_versions(rows, strategy.keys, strategy.newest_by)
    return without_copies(rows, volatile)


@dataclass(frozen=True, slots=True)
class _Bounds:
    """What all rows of a change have to match, and what would come of one that does not, and of several."""

    predicate: str
    one: str
    several: str


@singledispatch
def _bounds_of(strategy: Strategy, window: str | None) -> _Bounds | None:  # noqa: ARG001  dispatched on
    """A merge finds rows by their keys, wherever they are."""
    return None


@_bounds_of.register(Append)
def _(strategy: Append, window: str | None) -> _Bounds:  # noqa: ARG001  dispatched on
    why = "and an append looks only there for rows that it has"
    return _Bounds(one_predicate(DeleteInsert(), window), why, why)


@_bounds_of.register(DeleteInsert)
def _(strategy: DeleteInsert, window: str | None) -> _Bounds:
    why = "so the next run would not replace {}"
    return _Bounds(one_predicate(strategy, window), why.format("it"), why.format("them"))


@_bounds_of.register(IncrementalJoin)
def _(strategy: IncrementalJoin, window: str | None) -> None:
    """A join gives the rows of its window and no others."""


def _outside(strategy: Strategy, count: int, bounds: _Bounds, name: str) -> TableError:
    return TableError(
        f"{strategy}.outside",
        f"{count:,} row{' of the query lies' if count == 1 else 's of the query lie'} outside {bounds.predicate}, "
        f"{bounds.one if count == 1 else bounds.several}.",
        f"Make the query give only rows that match it. {name} is unchanged.",
    )


def _read(table: Table, rows: DataFrame, window: WindowPlan | None) -> DataFrame:
    strategy = table.strategy
    behind_a_change = window is not None and window.exclusive  # what an old query made stays, whoever has charge
    if window and not strategy.replaces and (behind_a_change or not table.owns_window):
        rows = rows.where(window.predicate)
    predicate = strategy.predicate
    if predicate and not table.owns_window:
        rows = _where(rows, predicate, table)
    return rows


def _where(rows: DataFrame, predicate: str, table: Table) -> DataFrame:
    try:
        return rows.where(predicate)
    except AnalysisException as failure:
        raise ArgumentError(
            "delete_insert.bad_predicate",
            f"The predicate of {table.name}, {predicate}, is no condition on its rows: {one_line(failure)}",
            f"Its columns are: {', '.join(rows.columns)}.",
            origin=table.origin,
        ) from failure


def _aligned(
    table: Table, rows: DataFrame, held: t.StructType | None, snapshot: Snapshot | None
) -> tuple[DataFrame, tuple[str, ...]]:
    """The rows as the table has its columns, and the table's columns that have to go."""
    if held is None or table.strategy.replaces:
        return _typed(rows, table.name), ()
    aligned, fit = align(rows, held, table.schema_policy, table.name)
    dropped = fit.missing if table.schema_policy is SchemaPolicy.SYNC_ALL_COLUMNS else ()
    if not table.strategy.keys:
        itself = snapshot.fills & {name.lower() for name in fit.missing} if snapshot else ()
        fields = [field for field in held.fields if field.name.lower() not in itself]
        aligned = widened(aligned, t.StructType([*fields, *fit.added]))
    return _typed(aligned, table.name), dropped


def _partitions(table: Table, snapshot: Snapshot | None) -> set[str]:
    """The columns whose values are checked here, because their partitions are named by them unseen."""
    if can(table.format, Capability.PARTITION_VALUES):
        return set()
    return {*table.partition_by, *(snapshot.partition_columns if snapshot else ())}


def _check_names(rows: DataFrame, held: t.StructType | None, snapshot: Snapshot | None, name: str) -> None:
    """A new column may have a name that Parquet cannot hold only where the table maps its columns' names."""
    if held is None or snapshot is None or snapshot.maps_columns:
        return
    added = [field for field in rows.schema.fields if not spelled(field.name, held.names)]
    odd = [name for name in field_names(t.StructType(added).jsonValue()) if needs_mapping(name)]
    if odd:
        raise SchemaError(
            "schema.needs_mapping",
            f"{name} cannot take a column named {', '.join(map(repr, odd))}: its files hold plain names only.",
            f"Rename it in the source, or set the table's property {COLUMN_MAPPING} to name. The table is unchanged.",
        )


@singledispatch
def _check_order(strategy: Strategy, rows: DataFrame) -> None:
    """Only a merge may ask which of two rows is newer."""


@_check_order.register(Merge)
def _(strategy: Merge, rows: DataFrame) -> None:
    column = strategy.only_newer
    kind = rows.schema[column].dataType if column else None
    if kind is not None and needs_form(kind):
        raise ArgumentError(
            "merge.only_newer",
            f"{column} is a {kind.simpleString()}, and of two maps or variants none is newer.",
            "Give only_newer a column of numbers, texts, dates or times.",
        )


def _check_layout(table: Table, columns: Sequence[str]) -> None:
    require(table.partition_by, columns, "The partition_by column", table.name)
    require(table.cluster_by, columns, "The cluster_by column", table.name)


def _check_sums(table: Table, rows: DataFrame, volatile: frozenset[str]) -> None:
    """A sum of floats depends on the order in which Spark adds them, so a row that is here would look new."""
    query = table.compared_query
    sums = set(query.sums if query else ()) - volatile
    floats = [f.name for f in rows.schema.fields if f.name.lower() in sums and isinstance(f.dataType, _FLOATS)]
    if floats:
        raise TableError(
            "append.float_sums",
            f"{table.name} appends what is new of a query with sums or averages of floats ({', '.join(floats)}), which "
            "differ from run to run in their last digits: a row that is here already would look new.",
            f"Sum decimals (sum(cast(x AS decimal(18, 2)))), or merge on the keys instead. {table.name} is unchanged.",
            origin=query.origin if query else None,
        )


def _typed(rows: DataFrame, name: str) -> DataFrame:
    void = [field.name for field in rows.schema.fields if isinstance(field.dataType, t.NullType)]
    if void:
        raise SchemaError(
            "schema.no_type",
            f"Nothing tells the type of {', '.join(void)} in the source of {name}: every value is NULL.",
            "Cast it in the source.",
        )
    return rows


@singledispatch
def _spelled(strategy: Strategy, table: Table, rows: DataFrame, held: t.StructType | None) -> Strategy:  # noqa: ARG001
    """The strategy with its columns spelled as the rows will have them; a column that is not there is an error."""
    return strategy


@_spelled.register(Merge)
def _(strategy: Merge, table: Table, rows: DataFrame, held: t.StructType | None) -> Strategy:
    source = f"the source of {table.name}"
    asked = (
        ("The key column", strategy.keys),
        ("The dedup_order_by column", strategy.dedup_order_by),
        ("The only_newer column", (strategy.only_newer,) if strategy.only_newer else ()),
        ("The cursor column", (strategy.newest_by,) if strategy.newest_by else ()),
    )
    found = [require(columns, rows.columns, what, source) for what, columns in asked]
    if held is not None:
        spellings = [*held.names, *rows.columns]
        require(found[0], held.names, "The key column", table.name)
        if strategy.only_newer:
            require(found[2], held.names, "The only_newer column", table.name)
        found = [tuple(_first(name, spellings) for name in names) for names in found]
    only_newer, newest_by = (next(iter(names), None) for names in found[2:])
    return replace(strategy, keys=found[0], dedup_order_by=found[1], only_newer=only_newer, newest_by=newest_by)


def _first(name: str, spellings: Sequence[str]) -> str:
    return next(spelling for spelling in spellings if spelling.lower() == name.lower())
