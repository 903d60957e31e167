"""Views of a project inside a query become the queries that they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from tidemill.frontends.sql.scopes import name_of, parse_query

if TYPE_CHECKING:
    from collections.abc import Callable


def inline_views(query: str, view: Callable[[str], str | None]) -> str:
    """The query with the text of each view in its place, of views that those read too; as it is where it reads none.

    `view` gives the query of a view by the name that is written, None for all else. A query that cannot be parsed
    stays as it is.
    """
    parsed = parse_query(query)
    if parsed is None or not any(view(name_of(each)) for each in parsed.inputs):
        return query
    tree = parsed.tree.copy()
    for old, table in zip(parsed.inputs, _same_places(parsed.tree, tree, parsed.inputs), strict=True):
        text = view(name_of(old))
        inner = parse_query(inline_views(text, view)) if text else None
        if inner is not None:
            rows = exp.Subquery(
                this=inner.tree.copy(), alias=exp.TableAlias(this=exp.to_identifier(table.alias_or_name))
            )
            rows.set("joins", table.args.get("joins"))
            rows.set("laterals", table.args.get("laterals"))
            table.replace(rows)
    return tree.sql(dialect="spark")


def _same_places(tree: exp.Expr, copy: exp.Expr, tables: tuple[exp.Table, ...]) -> list[exp.Table]:
    """The tables of a copy that stand where these stand in the tree."""
    pairs = {id(old): new for old, new in zip(tree.find_all(exp.Table), copy.find_all(exp.Table), strict=True)}
    return [pairs[id(each)] for each in tables]
