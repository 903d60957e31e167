"""Why a query, or a change of its inputs, cannot be refreshed incrementally, and where in its text that stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
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


def place_of(node: exp.Expr | None) -> tuple[int | None, int | None, str | None]:
    """Where the text of this node begins, as far as sqlglot remembers it, and the word that stands there."""
    marked = [each for each in node.walk() if "line" in each.meta] if node is not None else []
    if not marked:
        return None, None, None
    first = min(marked, key=lambda each: int(each.meta["start"]))
    length = int(first.meta["end"]) - int(first.meta["start"])
    return int(first.meta["line"]), int(first.meta["col"]) - length, first.meta.get("word") or first.name or None
