"""Output columns that differ from run to run: load times, random numbers, and sums of floats."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from sqlglot import exp

from tidemill.frontends.sql.queries import parse_query

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class _Status(IntEnum):
    """What a value depends on; of several, the highest counts."""

    FIXED = 0
    VOLATILE = 1
    DATA = 2


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of a query, in order. `whole` is False where `*` brings columns that only the data can name."""

    listed: tuple[tuple[str, _Status], ...] = ()
    whole: bool = True

    def find(self, name: str) -> _Status | None:
        return next((status for each, status in self.listed if each.lower() == name.lower()), None)

    def renamed(self, names: list[str]) -> _Columns:
        """With the names that an alias gives: `AS t(a, b)`."""
        if not names or not self.whole:
            return self if not names else _UNKNOWN
        return _Columns(tuple((name, status) for name, (_, status) in zip(names, self.listed, strict=False)))


_UNKNOWN = _Columns(whole=False)
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
# What Spark calls a column that is one of these calls and has no alias.
_CALLED: dict[type[exp.Expr], str] = {
    exp.CurrentTimestamp: "current_timestamp()",
    exp.CurrentDate: "current_date()",
    exp.Uuid: "uuid()",
}


def volatile_columns(query: str) -> tuple[str, ...]:
    """The names of output columns that are made by `current_timestamp()`, `uuid()`, `rand()` and the like alone.

    Followed through CTEs, subqueries and `*`. A column that mixes them with data is not one. Where it cannot be
    known (unparsed SQL, columns of tables), a column is treated as data.
    """
    tree = parse_query(query)
    columns = _of_query(tree, {}) if tree else _UNKNOWN
    return tuple(name for name, status in columns.listed if status is _Status.VOLATILE and name)


def output_columns(query: str) -> tuple[str, ...] | None:
    """The names of all output columns, in order; None where only the data can name one (`*` of a table, `explode`)."""
    tree = parse_query(query)
    columns = _of_query(tree, {}) if tree else _UNKNOWN
    names = tuple(name for name, _ in columns.listed)
    return names if columns.whole and all(names) else None


def reads_clock(query: str) -> bool:
    """Whether its rows may change though its inputs do not: `WHERE day >= current_date()`, a random sample.

    Volatile output columns take no part in comparison, so they do not count. A query that cannot be parsed may.
    """
    tree = parse_query(query)
    return tree is None or any(_is_volatile(node) and not _is_own_column(node, tree) for node in tree.walk())


def _is_own_column(node: exp.Expr, tree: exp.Expr) -> bool:
    """A column of the outermost SELECT that has no data in it."""
    while node.parent is not None and node.parent is not tree:
        node = node.parent
    return isinstance(tree, exp.Select) and node in tree.expressions and node.find(exp.Column) is None


def _of_query(query: exp.Expr, around: Mapping[str, _Columns]) -> _Columns:
    ctes = {**around}
    clause = query.args.get("with_")
    for cte in clause.expressions if isinstance(clause, exp.With) else ():
        within = {**ctes, cte.alias.lower(): _UNKNOWN} if cte.parent.recursive else ctes
        ctes[cte.alias.lower()] = _of_query(cte.this, within).renamed(cte.alias_column_names)
    match query:
        case exp.Select():
            return _of_select(query, ctes)
        case exp.SetOperation():
            by_name = bool(query.args.get("by_name"))
            return _together(_of_query(query.this, ctes), _of_query(query.expression, ctes), by_name=by_name)
        case exp.Subquery():
            return _of_query(query.this, ctes)
        case _:
            return _UNKNOWN


def _together(first: _Columns, second: _Columns, *, by_name: bool) -> _Columns:
    """Of UNION and its like: a column is volatile when no side has data in it."""
    if by_name or not (first.whole and second.whole):
        pairs = [(name, status, second.find(name)) for name, status in first.listed]
    else:
        pairs = [(name, status, other) for (name, status), (_, other) in zip(first.listed, second.listed, strict=False)]
    listed = [(name, max(status, _Status.DATA if other is None else other)) for name, status, other in pairs]
    return _Columns(tuple(listed), first.whole and second.whole)


@dataclass
class _Scope:
    """What names mean inside one SELECT: its sources by alias, and the aliases that it has made so far."""

    sources: dict[str, _Columns]
    ctes: Mapping[str, _Columns]
    aliases: dict[str, _Status] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        return all(source.whole for source in self.sources.values())

    def chosen(self, alias: str) -> list[_Columns]:
        """The sources that `*` or `alias.*` stands for."""
        return [self.sources.get(alias.lower(), _UNKNOWN)] if alias else [*self.sources.values()]

    def find(self, column: exp.Column) -> _Status:
        if column.table:
            found = self.sources.get(column.table.lower(), _UNKNOWN).find(column.name)
            return _Status.DATA if found is None else found
        statuses = [found for source in self.sources.values() if (found := source.find(column.name)) is not None]
        if statuses:
            return max(statuses)
        return self.aliases.get(column.name.lower(), _Status.DATA) if self.whole else _Status.DATA


def _of_select(select: exp.Select, ctes: Mapping[str, _Columns]) -> _Columns:
    scope = _Scope(dict(_sources(select, ctes)), ctes)
    listed: list[tuple[str, _Status]] = []
    whole = True
    for projection in select.expressions:
        star = projection.this if isinstance(projection, exp.Column) else projection
        if isinstance(star, exp.Star):
            chosen = scope.chosen(projection.table if star is not projection else "")
            listed += _of_star(star, chosen)
            whole = whole and all(source.whole for source in chosen)
        else:
            status = _status(projection, scope)
            listed.append((_output_name(projection), status))
            scope.aliases[projection.alias.lower()] = status
    return _Columns(tuple(listed), whole)


def _sources(select: exp.Select, ctes: Mapping[str, _Columns]) -> Iterator[tuple[str, _Columns]]:
    start = select.args.get("from_")
    joined = [join.this for join in select.args.get("joins") or ()]
    for source in [*([start.this] if start else ()), *joined, *(select.args.get("laterals") or ())]:
        yield source.alias_or_name.lower(), _of_source(source, ctes)


def _of_source(source: exp.Expr, ctes: Mapping[str, _Columns]) -> _Columns:
    if source.args.get("pivots"):
        return _UNKNOWN
    match source:
        case exp.Table() if not source.db and isinstance(source.this, exp.Identifier):
            return ctes.get(source.name.lower(), _UNKNOWN).renamed(source.alias_column_names)
        case exp.Subquery():
            return _of_query(source, ctes).renamed(source.alias_column_names)
        case _:
            return _UNKNOWN


def _of_star(star: exp.Star, sources: list[_Columns]) -> list[tuple[str, _Status]]:
    gone = {each.name.lower() for key in ("except_", "replace") for each in star.args.get(key) or ()}
    gone |= {each.alias.lower() for each in star.args.get("replace") or ()}
    return [column for source in sources for column in source.listed if column[0].lower() not in gone]


def _output_name(projection: exp.Expr) -> str:
    """What Spark calls the column; nothing where that is a longer story."""
    if projection.alias:
        return projection.alias
    if isinstance(projection, exp.Anonymous):
        return f"{projection.name.lower()}()" if not projection.expressions else ""
    while isinstance(projection, exp.Cast):  # Spark names a cast column as the column
        projection = projection.this
    return projection.name if isinstance(projection, exp.Column) else _CALLED.get(type(projection), "")


def _status(node: exp.Expr, scope: _Scope) -> _Status:
    if isinstance(node, exp.Column):
        return scope.find(node)
    if isinstance(node, exp.AggFunc | exp.Window | exp.Exists):
        return _Status.DATA
    if isinstance(node, exp.Query):
        columns = _of_query(node, scope.ctes)
        return max((status for _, status in columns.listed), default=_Status.DATA)
    own = _Status.VOLATILE if _is_volatile(node) else _Status.FIXED
    return max([own, *(_status(child, scope) for child in node.iter_expressions())])


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
    tree = parse_query(query)
    selects = tree.find_all(exp.Select) if tree else ()
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
