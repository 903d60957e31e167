"""The options of an export, read one by one with their types; what nobody asked for is Spark's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidemill.declare.sources import as_names, as_text
from tidemill.declare.variables import as_text as shown

if TYPE_CHECKING:
    from tidemill.declare.exports import Export
    from tidemill.errors import ArgumentError


class Options:
    """Names count without case, as Spark's do."""

    def __init__(self, export: Export) -> None:
        self._export = export
        self._left = dict(export.options)

    def text(self, name: str) -> str | None:
        given = self._take(name)
        found = as_text(given)
        if given is not None and found is None:
            raise self._wrong(name, "a text")
        return found

    def names(self, name: str) -> tuple[str, ...]:
        given = self._take(name)
        found = as_names(given) if given is not None else ()
        if found is None:
            raise self._wrong(name, "a name or a list of names")
        return found

    def left(self) -> dict[str, str]:
        for name, value in self._left.items():
            if isinstance(value, Mapping | list | tuple):
                raise self._wrong(name, "a text, a number, true or false")
        return {name: shown(value) for name, value in self._left.items() if value is not None}

    def _take(self, name: str) -> object:
        key = next((each for each in self._left if each.lower() == name), None)
        return None if key is None else self._left.pop(key)

    def _wrong(self, name: str, wanted: str) -> ArgumentError:
        return self._export.wrong("export.bad_option", f"has an option {name} that is not {wanted}", "Correct it.")
