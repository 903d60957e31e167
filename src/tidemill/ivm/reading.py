"""A query's text to one tree in which each table occurs once by a name of its own and each column says whose it is."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify

from tidemill.errors import did_you_mean
from tidemill.ivm.functions import aggregates_of, check_calls
from tidemill.ivm.refusal import NotIncremental, UnknownColumn

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

_REFUSED: Mapping[type[exp.Expr], str] = {
    exp.Limit: "LIMIT keeps only some of the rows",
    exp.Fetch: "FETCH keeps only some of the rows",
    exp.GroupingSets: "GROUPING SETS, ROLLUP and CUBE are not analysed",
    exp.Rollup: "GROUPING SETS, ROLLUP and CUBE are not analysed",
    exp.Cube: "GROUPING SETS, ROLLUP and CUBE are not analysed",
    exp.Offset: "OFFSET drops some of the rows",
    exp.TableSample: "TABLESAMPLE takes other rows each time",
    exp.Pivot: "PIVOT and UNPIVOT are not analysed",
    exp.Qualify: "QUALIFY is not analysed; a subquery with WHERE is",
    exp.Version: "it reads a fixed version of a table",
    exp.MatchRecognize: "MATCH_RECOGNIZE is not analysed",
    exp.Placeholder: "it has a parameter without a value",
    exp.Parameter: "it has a parameter without a value",
    exp.Unnest: "UNNEST is not analysed; LATERAL VIEW explode is",
    exp.Connect: "CONNECT BY is not analysed",
    exp.Into: "INTO is no part of a query",
    exp.Lock: "FOR UPDATE is no part of a query",
    exp.Command: "it is no query",
    exp.Cluster: "CLUSTER BY is not analysed",
    exp.Distribute: "DISTRIBUTE BY is not analysed",
    exp.Sort: "SORT BY is not analysed",
    exp.QueryTransform: "TRANSFORM … USING runs a script",
    exp.JSONTable: "JSON_TABLE is not analysed",
    exp.Collate: "COLLATE changes what is equal",
}
_REFUSED_PARTS: tuple[tuple[type[exp.Expr], tuple[str, ...], str], ...] = (
    (exp.With, ("recursive",), "WITH RECURSIVE is not analysed"),
    (exp.Distinct, ("on",), "DISTINCT ON is not analysed"),
    (exp.Lateral, ("ordinality",), "WITH ORDINALITY is not analysed"),
    (exp.Group, ("rollup", "cube", "grouping_sets", "totals"), "GROUPING SETS, ROLLUP and CUBE are not analysed"),
    (exp.SetOperation, ("by_name", "side", "kind", "on"), "set operations BY NAME are not analysed"),
    (exp.Select, ("kind", "operation_modifiers"), "this kind of SELECT is not analysed"),
)
_NAMED = re.compile(r"Column '([^']+)'|Unknown column: (\S+)")  # how sqlglot names a column in its errors
_SOURCE_PLACES = (exp.From, exp.Join)
_JOIN_SIDES = {"", "LEFT", "RIGHT", "FULL"}
_JOIN_KINDS = {"", "INNER", "CROSS", "OUTER", "SEMI", "ANTI"}


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One place where a table stands in the query; `table` is its name there in lower case, dotted."""

    number: int
    table: str
    written: exp.Table
    used: tuple[str, ...] = ()


def occurrence_name(number: int) -> str:
    """What the table of this occurrence is called in the tree."""
    return f"_occurrence_{number}"


def read_query(
    text: str, columns: Mapping[str, Mapping[str, str]], own: frozenset[str], volatile: frozenset[str]
) -> tuple[exp.Query, dict[int, Occurrence]]:
    """The qualified tree, with CTEs put in their places, and its tables by number.

    `own` are functions that the user vouches for, `volatile` columns that may ask the clock and the like.
    """
    tree = read_text(text, own, volatile)
    _put_ctes(tree, {})
    found = _number_tables(tree, columns)
    schema = {occurrence_name(each.number): dict(columns[each.table]) for each in found.values()}
    _check_using(tree)
    tree = _qualify(tree, schema)
    for select in list(tree.find_all(exp.Select)):
        _spell_out_windows(select)
        _spell_out_groups(select)
        _tests_for_semi_joins(select)
    _name_columns(tree)
    return tree, found


def read_text(text: str, own: frozenset[str], volatile: frozenset[str]) -> exp.Query:
    """The tree of a query that can be kept up to date as far as its text shows, whatever its tables are."""
    tree = _parse(text)
    for select in tree.find_all(exp.Select):
        select.set("hint", None)  # its tables are no places where rows are read
    _check_constructs(tree)
    check_calls(tree, own, but=_own_volatile(tree, volatile))
    return tree


def _own_volatile(tree: exp.Query, names: frozenset[str]) -> list[exp.Expr]:
    """Those of the volatile columns that the outermost SELECT makes."""
    if not isinstance(tree, exp.Select) or tree.args.get("distinct"):
        return []
    return [each for each in tree.expressions if each.alias.lower() in names and not each.find(exp.Column, exp.Query)]


def _parse(text: str) -> exp.Query:
    try:
        trees = [each for each in sqlglot.parse(text, dialect="spark") if each is not None]
    except SqlglotError as error:
        raise NotIncremental("it cannot be parsed") from error
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise NotIncremental("it is not one query")
    tree = trees[0]
    while isinstance(tree, exp.Subquery) and not tree.args.get("with_"):
        tree = tree.this
    if not isinstance(tree, exp.Select | exp.SetOperation):
        raise NotIncremental("it is not one query")
    return tree


def _check_constructs(tree: exp.Expr) -> None:
    for node in tree.walk(bfs=False):
        if reason := _refused(node):
            raise NotIncremental(reason, node)


def _refused(node: exp.Expr) -> str | None:
    if type(node) in _REFUSED:
        return _REFUSED[type(node)]
    match node:
        case exp.Join():
            return _refused_join(node)
        case exp.Table():
            return _refused_table(node)
        case exp.Lateral() if not node.args.get("view"):
            return "LATERAL subqueries are not analysed"
        case exp.Select() if node.args.get("from_") is None and node.parent is None:
            return "it reads nothing"
    found = (reason for kind, parts, reason in _REFUSED_PARTS if isinstance(node, kind) and _has(node, parts))
    return next(found, None)


def _has(node: exp.Expr, parts: tuple[str, ...]) -> bool:
    return any(node.args.get(each) for each in parts)


def _refused_join(node: exp.Join) -> str | None:
    if node.args.get("method") or node.side not in _JOIN_SIDES or node.kind not in _JOIN_KINDS:
        return f"{node.args.get('method') or node.kind} joins are not analysed"
    if node.args.get("match_condition") or node.args.get("pivots"):
        return "this kind of join is not analysed"
    return None


def _refused_table(node: exp.Table) -> str | None:
    if not isinstance(node.this, exp.Identifier):
        return "table functions are not analysed"
    if node.args.get("joins"):
        return "joins in parentheses are not analysed"
    for part in node.iter_expressions():
        if reason := _REFUSED.get(type(part)):
            return reason
    known = {"this", "db", "catalog", "alias"}
    if any(value for name, value in node.args.items() if name not in known):
        return "this way to name a table is not analysed"
    return None


def _put_ctes(node: exp.Expr, known: Mapping[str, exp.CTE]) -> None:
    """Each name of a CTE becomes its query, by the rule of names: the innermost WITH that has it, earlier ones only."""
    if with_ := node.args.get("with_"):
        known = dict(known)
        for cte in with_.expressions:
            _put_ctes(cte.this, known)
            known[cte.alias.lower()] = cte
        node.set("with_", None)
    for child in list(node.iter_expressions()):
        name = child.name.lower() if isinstance(child, exp.Table) and not child.args.get("db") else ""
        if name in known:
            child.replace(_placed(known[name], child))
        else:
            _put_ctes(child, known)


def _placed(cte: exp.CTE, table: exp.Expr) -> exp.Subquery:
    names = table.args["alias"].columns if table.args.get("alias") else []
    alias = exp.TableAlias(
        this=exp.to_identifier(table.alias or cte.alias),
        columns=[each.copy() for each in names or cte.args["alias"].columns],
    )
    return exp.Subquery(this=cte.this.copy(), alias=alias)


def _number_tables(tree: exp.Expr, columns: Mapping[str, Mapping[str, str]]) -> dict[int, Occurrence]:
    found: dict[int, Occurrence] = {}
    for number, table in enumerate(list(tree.find_all(exp.Table, bfs=False))):
        name = ".".join(part.name for part in table.parts).lower()
        if name not in columns:
            raise NotIncremental(f"the columns of {name} are not known", table, name)
        if table.args.get("alias") and table.args["alias"].columns:
            raise NotIncremental("renamed columns of a table are not analysed", table, name)
        found[number] = Occurrence(number, name, table.copy())
        _check_qualifiers(table)
        alias = table.args.get("alias") or exp.TableAlias(this=table.this.copy())
        table.replace(exp.Table(this=exp.to_identifier(occurrence_name(number)), alias=alias))
    return found


def _check_qualifiers(table: exp.Table) -> None:
    """`schema.table.column` would lose its table when that gets another name."""
    select = table.find_ancestor(exp.Select)
    for column in select.find_all(exp.Column) if select else ():
        if column.args.get("db") and column.table.lower() == table.name.lower():
            raise NotIncremental("a column is named with its schema; an alias of the table is enough", column)


def _check_using(tree: exp.Expr) -> None:
    """After an outer join that pads its left side, USING means coalesce; sqlglot takes the first table's column."""
    for select in tree.find_all(exp.Select):
        padded = False
        for join in select.args.get("joins") or ():
            if join.args.get("using") and padded:
                raise NotIncremental("USING after a RIGHT or FULL JOIN is not analysed; ON is", join)
            padded = padded or join.side in {"RIGHT", "FULL"}


def _qualify(tree: exp.Query, schema: Mapping[str, Mapping[str, str]]) -> exp.Query:
    given = {each.name.lower() for each in tree.find_all(exp.Identifier) if not isinstance(each.parent, exp.Column)}
    try:
        qualified = qualify(tree, schema=dict(schema), dialect="spark")
    except SqlglotError as error:
        raise _unresolved(tree, given | {name for each in schema.values() for name in each}, str(error)) from error
    if not isinstance(qualified, exp.Select | exp.SetOperation):
        raise NotIncremental("it is not one query")
    return qualified


def _unresolved(tree: exp.Query, known: Collection[str], said: str) -> NotIncremental:
    """The column of which nobody knows whose it is; sqlglot names no more than the first one.

    `known` are the names of all columns, and what the query itself gives a name.
    """
    found = _NAMED.search(said)
    name = (found[1] or found[2]) if found else ""
    columns = [each for each in tree.find_all(exp.Column, bfs=False) if each.name.lower() == name.lower()]
    if not columns:
        return NotIncremental(f"its columns are not known: {said.splitlines()[0]}")
    if name.lower() in known or any(each.table and each.table.lower() not in known for each in columns):
        return NotIncremental(f"it is not clear which column {name} is", columns[0].this, name)
    return UnknownColumn(name, did_you_mean(name, known), columns[0].this)


def _name_columns(tree: exp.Expr) -> None:
    """One name for each column: all branches of a set operation take the names of the first."""
    for operation in tree.find_all(exp.SetOperation):
        _rename(operation.right, operation.left.named_selects)
    for query in [
        tree,
        *(each.this for each in tree.find_all(exp.Subquery) if isinstance(each.parent, _SOURCE_PLACES)),
    ]:
        names = query.named_selects if isinstance(query, exp.Query) else []
        if len(set(names)) < len(names):
            twice = next(each for each in names if names.count(each) > 1)
            raise NotIncremental(f"two of its columns are called {twice}", query)


def _rename(query: exp.Expr, names: list[str]) -> None:
    while isinstance(query, exp.Subquery):
        query = query.this
    if isinstance(query, exp.SetOperation):
        _rename(query.left, names)
    elif isinstance(query, exp.Select):
        if len(query.expressions) != len(names):
            raise NotIncremental("the branches of a set operation have different numbers of columns", query)
        named = [
            exp.alias_(each.unalias(), name, quoted=True) for each, name in zip(query.expressions, names, strict=True)
        ]
        query.set("expressions", named)
        query.set("order", None)  # by names that may be gone, and without LIMIT for nothing


def _spell_out_windows(select: exp.Select) -> None:
    """`OVER w` becomes what `WINDOW w AS (…)` says."""
    named = {each.name: each for each in select.args.get("windows") or ()}
    for window in _own(select, exp.Window):
        if name := window.args.get("alias"):
            if name.name not in named or any(window.args.get(each) for each in ("partition_by", "order", "spec")):
                raise NotIncremental("this use of a named window is not analysed", window)
            meant = named[name.name]
            if meant.args.get("alias"):
                raise NotIncremental("windows that extend others are not analysed", meant)
            window.set("alias", None)
            for part in ("partition_by", "order", "spec"):
                value = meant.args.get(part)
                copied = [each.copy() for each in value] if isinstance(value, list) else value and value.copy()
                window.set(part, copied)
    select.set("windows", None)


def _own(select: exp.Select, kind: type[exp.Expr]) -> list[exp.Expr]:
    """The nodes of this kind in the SELECT's own expressions, not in a WINDOW clause nor in queries inside."""
    roots = [*select.expressions, select.args.get("order")]
    return [each for root in roots if root for each in own_nodes(root) if isinstance(each, kind)]


def own_nodes(root: exp.Expr) -> Iterator[exp.Expr]:
    """The expression and what is in it, without going into queries inside."""
    return root.walk(prune=lambda node: isinstance(node, exp.Query))


def _spell_out_groups(select: exp.Select) -> None:
    """`GROUP BY ALL` becomes the list of all columns without aggregates."""
    group = select.args.get("group")
    if group is None or not group.args.get("all"):
        return
    keys = []
    for projection in select.expressions:
        value = projection.unalias()
        calls = list(aggregates_of([value]))
        if not calls:
            keys.append(value.copy())
        elif any(not _is_inside(each, calls) for each in own_nodes(value) if isinstance(each, exp.Column)):
            raise NotIncremental("GROUP BY ALL with columns beside an aggregate is not analysed", projection)
    select.set("group", exp.Group(expressions=keys) if keys else None)


def _is_inside(node: exp.Expr, calls: list[exp.Expr]) -> bool:
    around = itertools.takewhile(lambda each: each is not None, _upwards(node))
    return any(each is call for each in around for call in calls)


def _upwards(node: exp.Expr | None) -> Iterator[exp.Expr]:
    while node is not None:
        yield node
        node = node.parent


def _tests_for_semi_joins(select: exp.Select) -> None:
    """`a SEMI JOIN b ON p` becomes `WHERE EXISTS (SELECT 1 FROM b WHERE p)`, ANTI JOIN its opposite."""
    kept: list[exp.Join] = []
    for join in select.args.get("joins") or ():
        if join.kind in {"SEMI", "ANTI"}:
            if join.side not in {"", "LEFT"}:
                raise NotIncremental(f"{join.side} {join.kind} joins are not analysed", join)
            _test_instead(select, join)
        elif join.side in {"RIGHT", "FULL"} and len(kept) < (select.args["joins"]).index(join):
            raise NotIncremental("a SEMI or ANTI JOIN before a RIGHT or FULL JOIN is not analysed", join)
        else:
            kept.append(join)
    select.set("joins", kept)


def _test_instead(select: exp.Select, join: exp.Join) -> None:
    if join.args.get("using"):
        raise NotIncremental("SEMI and ANTI joins with USING are not analysed; ON is", join)
    inner = exp.Select(expressions=[exp.alias_(exp.Literal.number(1), "found")], from_=exp.From(this=join.this))
    if on := join.args.get("on"):
        inner.set("where", exp.Where(this=on))
    test: exp.Expr = exp.Exists(this=inner)
    select.where(exp.Not(this=test) if join.kind == "ANTI" else test, copy=False)
