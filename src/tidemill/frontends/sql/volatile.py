"""What differs from run to run over the same rows: load times, random numbers, sums of floats, order of lists."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from sqlglot import exp

from tidemill.frontends.sql.scopes import parse_query

if TYPE_CHECKING:
    from sqlglot.optimizer.scope import Scope

    from tidemill.frontends.sql.scopes import OutputColumn, QueryTree


class _Status(IntEnum):
    """What a value depends on; of several, the highest counts."""

    FIXED = 0
    VOLATILE = 1
    DATA = 2


_VOLATILE_BY_NAME = {
    *("now", "current_timestamp", "current_date", "curdate", "current_time", "localtimestamp", "unix_timestamp"),
    *("uuid", "rand", "random", "randn", "randstr", "uniform", "monotonically_increasing_id", "spark_partition_id"),
}
_VOLATILE = (
    exp.CurrentTimestamp,
    exp.CurrentDate,
    exp.CurrentTime,
    exp.CurrentDatetime,
    exp.Localtimestamp,
    exp.Uuid,
    exp.Rand,
    exp.Randn,
    exp.Randstr,
    exp.Uniform,
)
_SPECIAL_DATES = {"now", "today", "yesterday", "tomorrow"}


def volatile_columns(query: str) -> tuple[str, ...]:
    """The names of output columns that are made by `current_timestamp()`, `uuid()`, `rand()` and the like alone.

    Followed through CTEs, subqueries and `*`. A column that mixes them with data is not one. Where it cannot be
    known (unparsed SQL, columns of tables), a column is treated as data.
    """
    tree = parse_query(query)
    if tree is None or tree.root is None:
        return ()
    statuses = _Statuses(tree)
    columns = (each for each in tree.columns(tree.root) if each.name and not each.is_open)
    return tuple(each.name for each in columns if statuses.of_column(tree.root, each) is _Status.VOLATILE)


def reads_clock(query: str) -> bool:
    """Whether its rows may change though its inputs do not: `WHERE day >= current_date()`, a random sample.

    Volatile output columns take no part in comparison, so they do not count. A query that cannot be parsed may.
    """
    parsed = parse_query(query)
    if parsed is None:
        return True
    return any(_is_volatile(node) and not _is_own_column(node, parsed.tree) for node in parsed.tree.walk())


def _is_own_column(node: exp.Expr, tree: exp.Expr) -> bool:
    """A column of the outermost SELECT that has no data in it."""
    while node.parent is not None and node.parent is not tree:
        node = node.parent
    return isinstance(tree, exp.Select) and node in tree.expressions and node.find(exp.Column) is None


@dataclass
class _Statuses:
    """What the columns of a query depend on; those of one that are known are kept."""

    tree: QueryTree
    kept: dict[OutputColumn, _Status] = field(default_factory=dict)

    def of_column(self, scope: Scope, column: OutputColumn) -> _Status:
        if column not in self.kept:
            self.kept[column] = self._of_column(scope, column)
        return self.kept[column]

    def _of_column(self, scope: Scope, column: OutputColumn) -> _Status:
        """Of UNION and its like a column is volatile when no side has data in it."""
        if column.made is not None:
            return self._of_expression(scope, column.made, column)
        if column.branches:
            pairs = zip(scope.set_operation_scopes, column.branches, strict=True)
            return max(self.of_column(branch, each) if each else _Status.DATA for branch, each in pairs)
        return self._of_relation(column)

    def _of_relation(self, passed: OutputColumn) -> _Status:
        within = passed.relation.scope if passed.relation else None
        return self.of_column(within, passed.column) if within and passed.column else _Status.DATA

    def _of_expression(self, scope: Scope, node: exp.Expr, column: OutputColumn) -> _Status:
        """`column` is the one that it makes, or is a part of."""
        if isinstance(node, exp.Column):
            return self._of_reference(scope, node, column)
        if isinstance(node, exp.AggFunc | exp.Window | exp.Exists):
            return _Status.DATA
        if isinstance(node, exp.Query):
            return self._of_query(node)
        own = _Status.VOLATILE if _is_volatile(node) else _Status.FIXED
        return max([own, *(self._of_expression(scope, child, column) for child in node.iter_expressions())])

    def _of_query(self, query: exp.Expr) -> _Status:
        scope = self.tree.scope_of(query)
        columns = self.tree.columns(scope) if scope else ()
        found = (self.of_column(scope, each) for each in columns if scope and not each.is_open)
        return max(found, default=_Status.DATA)

    def _of_reference(self, scope: Scope, node: exp.Column, column: OutputColumn) -> _Status:
        """By its relations; where none has it, by what the same SELECT has made under this name before."""
        owners = [each for _, each in self.tree.owners(scope, node)]
        if listed := [each for each in owners if each]:
            return max(self._of_relation(each) for each in listed)
        columns = self.tree.columns(scope)
        before = columns[: columns.index(column)]
        made = None if owners or node.table else next((each for each in before[::-1] if each.has_name(node.name)), None)
        return self.of_column(scope, made) if made and made.made else _Status.DATA


def _is_volatile(node: exp.Expr) -> bool:
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in _VOLATILE_BY_NAME
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal):
        return (
            node.this.is_string
            and node.to.is_type(*exp.DataType.TEMPORAL_TYPES)
            and node.this.name.lower() in _SPECIAL_DATES
        )
    return isinstance(node, _VOLATILE)


_SUMS = {
    *("sum", "avg", "mean", "try_sum", "try_avg", "product", "corr", "covar_pop", "covar_samp", "skewness", "kurtosis"),
    *("std", "stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp", "variance_pop"),
}


def sums_of(query: str) -> tuple[str, ...]:
    """The names, in lower case, of columns that are made with sums, averages and the like; their types are Spark's.

    They are followed by name, through CTEs, subqueries and `*`. Where a column gets its name by its place alone
    (a second branch of UNION, `c(a, b)`), or the query cannot be parsed, it is not found.
    """
    parsed = parse_query(query)
    selects = parsed.tree.find_all(exp.Select) if parsed else ()
    projections = [each for select in selects for each in select.expressions]
    found: set[str] = set()
    while more := {_name(each) for each in projections if _sums(each, found)} - found:
        found |= more
    return tuple(sorted(found))


def _sums(projection: exp.Expr, found: set[str]) -> bool:
    calls = projection.find_all(exp.Func)
    columns = projection.find_all(exp.Column)
    return any(_is_sum(call) for call in calls) or any(column.name.lower() in found for column in columns)


def _is_sum(call: exp.Func) -> bool:
    name = (call.name if isinstance(call, exp.Anonymous) else call.sql_name()).lower()
    return name in _SUMS or name.startswith("regr_")


def _name(projection: exp.Expr) -> str:
    """What Spark calls the column: without an alias as its expression is written."""
    return (projection.alias_or_name or projection.sql(dialect="spark")).lower()


_UNSTEADY: dict[type[exp.Expr], str] = {
    exp.ArrayAgg: "collect_list",
    exp.ArrayUniqueAgg: "collect_set",
    exp.First: "first",
    exp.FirstValue: "first_value",
    exp.Last: "last",
    exp.LastValue: "last_value",
    exp.AnyValue: "any_value",
    exp.Mode: "mode",
    exp.ApproxQuantile: "percentile_approx",
    exp.GroupConcat: "listagg",
}
_UNSTEADY_BY_NAME = {"collect_list", "collect_set", "histogram_numeric", "listagg", "string_agg", "mode"}
_LISTS = (exp.ArrayAgg, exp.ArrayUniqueAgg)
_ORDER_FREE = (exp.ArraySort, exp.ArraySize)
_ORDER_FREE_BY_NAME = {"array_sort", "sort_array", "size", "cardinality", "array_size"}


def unrepeatable(query: str) -> str | None:
    """The first aggregate whose value may differ from run to run over the same rows, such as `collect_list`.

    Sums and averages of floats are such too, but that needs types: the caller has to look. None also when the
    query cannot be parsed.
    """
    parsed = parse_query(query)
    calls = parsed.tree.find_all(exp.Func, bfs=False) if parsed else ()
    return next((_spark_name(call) for call in calls if _is_unsteady(call)), None)


def _spark_name(node: exp.Expr) -> str:
    return node.name.lower() if isinstance(node, exp.Anonymous) else _UNSTEADY[type(node)]


def _is_unsteady(node: exp.Expr) -> bool:
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in _UNSTEADY_BY_NAME
    if type(node) not in _UNSTEADY:
        return False
    return not _is_ordered(node) and not (isinstance(node, _LISTS) and _order_is_dropped(node.parent))


def _is_ordered(node: exp.Expr) -> bool:
    """Inside a window with ORDER BY, or WITHIN GROUP (ORDER BY …)."""
    around = node.parent
    while isinstance(around, exp.IgnoreNulls | exp.RespectNulls):
        around = around.parent
    windowed = isinstance(around, exp.Window) and around.args.get("order") is not None
    return windowed or isinstance(around, exp.WithinGroup) or isinstance(node.this, exp.Order)


def _order_is_dropped(around: exp.Expr | None) -> bool:
    if isinstance(around, exp.Anonymous):
        return around.name.lower() in _ORDER_FREE_BY_NAME
    return isinstance(around, _ORDER_FREE)
