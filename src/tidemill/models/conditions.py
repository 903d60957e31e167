"""Conditions on rows inside metadata: SQL in which @names are variables of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.declare.templates import Condition
from tidemill.declare.text import Text
from tidemill.language.parameters import cut_at_parameters
from tidemill.language.tokens import lex

if TYPE_CHECKING:
    from tidemill.models.document import Document
    from tidemill.models.places import Key


def read_condition(document: Document, key: Key, text: str) -> Condition | None:
    """The condition, cut at its @names; None, and a note, where it cannot be one."""
    lexed = lex(Text("condition", text))
    problem, remedy = "", ""
    if lexed.errors:
        problem, remedy = lexed.errors[0].problem, lexed.errors[0].remedy
    elif lexed.variables:
        problem, remedy = "${…} has no meaning here", "write @name, whose value is always a value and never SQL"
    elif any(token.raw == ";" for token in lexed.tokens):
        problem, remedy = "a condition has no ; in it", "write one condition, such as day >= @start_date"
    if problem:
        document.note(key, "models.bad_condition", problem, remedy)
        return None
    return Condition(*cut_at_parameters(text), document.places.at(*key).origin)
