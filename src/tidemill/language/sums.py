"""Output columns that are sums or averages: those of floats differ from run to run, by the order of the rows."""

from __future__ import annotations

from sqlglot import exp

from tidemill.language.queries import parsed

_SUMS = {
    *("sum", "avg", "mean", "try_sum", "try_avg", "product", "corr", "covar_pop", "covar_samp", "skewness", "kurtosis"),
    *("std", "stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp", "variance_pop"),
}


def sums_of(query: str) -> tuple[str, ...]:
    """The names, in lower case, of columns that are made with sums, averages and the like; their types are Spark's.

    They are followed by name, through CTEs, subqueries and `*`. Where a column gets its name by its place alone
    (a second branch of UNION, `c(a, b)`), or the query cannot be parsed, it is not found.
    """
    tree = parsed(query)
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
