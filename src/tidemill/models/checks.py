"""The checks of a model, from the list in its metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidemill.declare.checks import AcceptedValues, Holds, NotNull, Relationships, RowCount, Severity, Unique
from tidemill.declare.sources import as_names
from tidemill.errors import ArgumentError
from tidemill.language.queries import columns_of
from tidemill.models.conditions import read_condition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tidemill.declare.checks import Check
    from tidemill.declare.names import Naming
    from tidemill.models.document import Document
    from tidemill.models.places import Key

KINDS = ("not_null", "unique", "accepted_values", "relationships", "row_count", "condition")


def read_checks(document: Document, given: list[Any], naming: Naming) -> list[tuple[Key, Check]]:
    """Each check with the key under which it stands; `naming` says what names of tables mean.

    None in `given` is a check with which something is wrong, and that has been reported.
    """
    reader = _Reader(document, naming)
    found = [reader.check(("checks", index), each) for index, each in enumerate(given) if each is not None]
    return [each for each in found if each is not None]


class _Reader:
    def __init__(self, document: Document, naming: Naming) -> None:
        self.document, self.naming = document, naming
        self.readers: dict[str, Callable[[Key, Any, dict[str, Any]], Check | None]] = {
            "not_null": lambda _, value, how: NotNull(as_names(value) or (), **how),
            "unique": lambda _, value, how: Unique(as_names(value) or (), **how),
            "accepted_values": lambda _, value, how: AcceptedValues(value["column"], tuple(value["values"]), **how),
            "relationships": self._relationships,
            "row_count": lambda _, value, how: RowCount(value.get("min"), value.get("max"), **how),
            "condition": self._condition,
        }

    def check(self, key: Key, given: str | Mapping[str, Any]) -> tuple[Key, Check] | None:
        entry = {"condition": given} if isinstance(given, str) else given
        kinds = [kind for kind in KINDS if kind in entry]
        if len(kinds) != 1:
            problem = f"a check is of one kind, and this one has {', '.join(kinds) or 'none'}"
            self.document.note(key, "models.bad_check", problem, f"give one of {', '.join(KINDS)}")
            return None
        place: Key = key if isinstance(given, str) else (*key, kinds[0])
        how = {
            "severity": Severity(entry.get("severity", Severity.ERROR)),
            "name": entry.get("name"),
            "origin": self.document.places.at(*place).origin,
        }
        try:
            found = self.readers[kinds[0]](place, entry[kinds[0]], how)
        except ArgumentError as bad:
            self.document.pass_on(place, bad)
            return None
        return None if found is None else (place, found)

    def _relationships(self, _: Key, value: Mapping[str, str], how: dict[str, Any]) -> Check:
        to = self.naming.key(value["to"])
        return Relationships(value["column"], to, value.get("field", value["column"]), **how)

    def _condition(self, key: Key, value: str, how: dict[str, Any]) -> Check | None:
        condition = read_condition(self.document, key, value)
        if condition is not None and condition.parameters:
            problem = "a check takes no variables"
            self.document.note(key, "models.bad_condition", problem, "write its values into the condition")
            return None
        return None if condition is None else Holds(value, columns_of(value) or (), **how)
