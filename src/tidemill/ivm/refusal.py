"""Why a query, or a change of its inputs, cannot be refreshed incrementally, and where in its text that stands."""

from __future__ import annotations

import itertools

from sqlglot import exp


class NotIncremental(Exception):  # noqa: N818 - an answer, and no fault of anybody's
    """`reason` is a part of a sentence: "LIMIT keeps only some of the rows". Line and column count from one.

    `word` is what stands there. All three are None where the reason has no single place.
    """

    def __init__(self, reason: str, node: exp.Expr | None = None, word: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line, self.column, found = place_of(node)
        self.word = word or found


class UnknownColumn(NotIncremental):
    """No table of the query has such a column, so that Spark will not run it either; `close` may be meant."""

    def __init__(self, name: str, close: str | None, node: exp.Expr) -> None:
        meant = f" (did you mean {close}?)" if close else ""
        super().__init__(f"no table of the query has a column {name}{meant}", node, name)
        self.name, self.close = name, close


def place_of(node: exp.Expr | None) -> tuple[int | None, int | None, str | None]:
    """Where the text of this node begins, as far as sqlglot remembers it, and the word that stands there."""
    marked = [each for each in node.walk() if "line" in each.meta and _is_here(each)] if node is not None else []
    if not marked:
        return None, None, None
    first = min(marked, key=lambda each: int(each.meta["start"]))
    length = int(first.meta["end"]) - int(first.meta["start"])
    return int(first.meta["line"]), int(first.meta["col"]) - length, first.meta.get("word") or first.name or None


def _is_here(node: exp.Expr) -> bool:
    """Whether it stands where it says: a column that got its table by analysis has the place of that."""
    column = node.parent
    if not isinstance(column, exp.Column) or node.arg_key == "this":
        return True
    following = next(after for part, after in itertools.pairwise(column.parts) if part is node)
    return "start" in following.meta and int(node.meta["end"]) + 2 == int(following.meta["start"])
