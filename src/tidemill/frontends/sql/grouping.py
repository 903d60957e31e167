"""Which output columns of a query no two of its rows share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from tidemill.frontends.sql.scopes import parse_query

if TYPE_CHECKING:
    from collections.abc import Sequence


def row_key(query: str) -> tuple[str, ...]:
    """The output columns of an outermost GROUP BY, where the query gives all of its expressions; else none.

    They say which rows are versions of one another, so that counts can say "updated"; nothing else depends on them.
    """
    parsed = parse_query(query)
    select = parsed.tree if parsed else None
    group = select.args.get("group") if isinstance(select, exp.Select) else None
    if not isinstance(select, exp.Select) or group is None or any(group.args.get(each) for each in _OTHER_GROUPS):
        return ()
    found = [_name_of(each, select.expressions) for each in group.expressions]
    return tuple(name for name in found if name) if found and all(found) else ()


_OTHER_GROUPS = ("all", "rollup", "cube", "grouping_sets", "totals")


def _name_of(key: exp.Expr, projections: Sequence[exp.Expr]) -> str | None:
    """The name of the projection that a GROUP BY means: its place, its alias, or its expression."""
    if isinstance(key, exp.Literal) and key.is_int:
        place = int(key.name) - 1
        chosen = projections[place] if 0 <= place < len(projections) else None
    else:
        same = (each for each in projections if each.unalias() == key)
        named = (each for each in projections if isinstance(key, exp.Column) and _is_alias(each, key))
        chosen = next(same, None) or next(named, None)
    return (chosen.alias_or_name or None) if chosen is not None else None


def _is_alias(projection: exp.Expr, key: exp.Column) -> bool:
    return not key.table and projection.alias_or_name.lower() == key.name.lower()
