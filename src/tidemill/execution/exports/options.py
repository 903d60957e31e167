"""The options of an export, read one by one with their types; a name that nobody knows is an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidemill.model.format import FORMATS
from tidemill.model.query import DATABASE_KINDS, FILE_KINDS
from tidemill.model.source import as_names, as_text
from tidemill.model.variables import as_text as shown
from tidemill.sources.kinds import ANYTHING, remedy, spark_name, unknown, writer_options

if TYPE_CHECKING:
    from tidemill.errors import ArgumentError
    from tidemill.model.query import Export

_DATABASE = ("url", "table", "user", "password")


class Options:
    """Names count without case, as Spark's do. Making one starts no Spark, and finds names that are not known."""

    def __init__(self, export: Export) -> None:
        self._export = export
        self._left = {spark_name(name, export.options): value for name, value in export.options.items()}
        known = _known(export) if self._left else ()
        is_table = export.kind.lower() in FORMATS and export.kind.lower() not in FILE_KINDS
        properties = [name for name in self._left if is_table and "." in name]
        if name := unknown(self._left, [*known, *properties]):
            problem = f"has no option {name}"
            raise export.wrong("export.unknown_option", problem, remedy(name, known, "Its options"))

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

    def truth(self, name: str) -> bool:
        given = self._take(name)
        if not isinstance(given, bool | None):
            raise self._wrong(name, "true or false")
        return bool(given)

    def left(self) -> dict[str, str]:
        """What nobody asked for, and all of `spark`: Spark's options, or the properties of a table."""
        free = self._take(ANYTHING)
        if not isinstance(free, Mapping | None):
            raise self._wrong(ANYTHING, "an object")
        given = {**self._left, **(free or {})}
        for name, value in given.items():
            if isinstance(value, Mapping | list | tuple):
                raise self._wrong(name, "a text, a number, true or false")
        return {name: shown(value) for name, value in given.items() if value is not None}

    def _take(self, name: str) -> object:
        key = next((each for each in self._left if each.lower() == name), None)
        return None if key is None else self._left.pop(key)

    def _wrong(self, name: str, wanted: str) -> ArgumentError:
        return self._export.wrong("export.bad_option", f"has an option {name} that is not {wanted}", "Correct it.")


def _known(export: Export) -> tuple[str, ...]:
    kind = export.kind.lower()
    if export.merges_files:
        return "partition_by", "compression"
    if kind in FILE_KINDS:
        return "partition_by", *writer_options(kind), ANYTHING
    if kind == "jdbc":
        return *_DATABASE, *writer_options(kind), ANYTHING
    return _DATABASE if kind in DATABASE_KINDS else ("partition_by", ANYTHING)
