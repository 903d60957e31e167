"""The expectations of a function's rows, as its decorators give them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidemill.models.conditions import read_condition

if TYPE_CHECKING:
    from tidemill.declare.functions import Expectation
    from tidemill.models.document import Document
    from tidemill.models.places import Key

EXPECTATIONS = "expectations"  # where their places stand in the document, by name


def read_expectations(document: Document, given: tuple[Expectation, ...]) -> tuple[Expectation, ...]:
    """Those that can be one; what cannot is noted."""
    found: dict[str, Expectation] = {}
    for each in given:
        key: Key = (EXPECTATIONS, str(each.name))
        if not (isinstance(each.name, str) and isinstance(each.condition, str) and each.name and each.condition):
            problem = "an expectation is a name and a condition, both texts"
            document.note(key, "models.bad_expectation", problem, 'write expect("positive", "amount > 0")')
        elif each.name.lower() in found:
            document.note(key, "models.bad_expectation", f"{each.name} is expected twice", "give one another name")
        elif (condition := read_condition(document, key, each.condition)) is not None:
            if condition.parameters:
                problem = "an expectation takes no variables"
                document.note(key, "models.bad_condition", problem, "write its values into the condition")
            found[each.name.lower()] = replace(each, origin=document.places.at(*key).origin)
    return tuple(found.values())
