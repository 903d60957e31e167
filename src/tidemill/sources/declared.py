"""Connectors made of what sources declare: their params, where an unknown name is an error, and those for files and for
any format that Spark reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tidemill.errors import ArgumentError, did_you_mean
from tidemill.formats import FORMATS
from tidemill.model import absolute
from tidemill.model.project import as_text as shown
from tidemill.model.source import SHARED, as_count, as_names, as_text, bad_param
from tidemill.sources import Connector, rows_since, select_columns
from tidemill.sources.files import FileSource
from tidemill.sources.files.text import Types
from tidemill.sources.kinds import ANYTHING, Kind, kind_named, reader_options, remedy, spark_name, unknown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidemill.model.cursor import Cursor
    from tidemill.model.source import Source
    from tidemill.sources import Reading

Value = TypeVar("Value")


class Params:
    """Names count without case, as Spark's options do. A value of another type is an `ArgumentError`, "" is none."""

    def __init__(self, source: Source, given: Mapping[str, object] | None = None, inside: str = "") -> None:
        self.source = source
        self._inside = f"{inside}." if inside else ""
        self._left = dict(source.params if given is None else given)
        self._asked: list[str] = []

    def text(self, *names: str) -> str | None:
        """The value of the first of these names that is there."""
        return self._first(names, as_text, "a text")

    def needed(self, *names: str) -> str:
        found = self.text(*names)
        if found is None:
            close = did_you_mean(names[0], self._left)
            raise ArgumentError(
                "source.missing_param",
                f"The source {self.source} needs {self._inside}{' or '.join(names)}.",
                f"Did you mean {names[0]} instead of {close}?" if close else "Give it in its PARAMS.",
                origin=self.source.origin,
            )
        return found

    def names(self, name: str) -> tuple[str, ...]:
        return self._take(name, as_names, "a text or a list of texts") or ()

    def count(self, name: str, default: int) -> int:
        found = self._take(name, as_count, "a whole number above zero")
        return default if found is None else found

    def seconds(self, name: str, default: float) -> float:
        found = self._take(name, _number, "a number of seconds above zero")
        return default if found is None else found

    def rate(self, name: str) -> float | None:
        return self._take(name, _number, "a number of requests a second, above zero")

    def retries(self, name: str, default: int) -> int:
        found = self._take(name, _whole, "a whole number")
        return default if found is None else found

    def texts(self, name: str) -> dict[str, str]:
        """A JSON object as texts."""
        found = self._take(name, _object, "an object") or {}
        if any(isinstance(value, Mapping | list | tuple) or value is None for value in found.values()):
            raise bad_param(self.source, f"{self._inside}{name}", "an object of texts and numbers")
        return {key: shown(value) for key, value in found.items()}

    def mapping(self, name: str) -> Mapping[str, object] | None:
        return self._take(name, _object, "an object")

    def path(self, path: str) -> str:
        """The path as it is from anywhere: relative ones start at the source's folder."""
        return absolute(path, self.source.folder)

    def options(self) -> dict[str, str]:
        """What nobody asked for, as Spark's options are: texts. A name that its reader does not have is an error.

        Those of `spark` are passed as they are, and so are all where the reader is somebody else's.
        """
        free = self.mapping(ANYTHING) or {}
        self._left = {spark_name(name, self._left): value for name, value in self._left.items()}
        known = reader_options(self.source.kind) if self._left else None
        if known is not None:
            self._end([*self._asked, *known], unknown(self._left, known))
        return self._texts(self._left) | self._texts(free)

    def _texts(self, given: Mapping[str, object]) -> dict[str, str]:
        options: dict[str, str] = {}
        for name, value in given.items():
            if isinstance(value, Mapping | list | tuple):
                raise bad_param(self.source, f"{self._inside}{name}", "a text, a number, true or false")
            if value is not None:
                options[name] = shown(value)
        return options

    def end(self) -> None:
        """What is left is an error that names the nearest param there is."""
        self._end(self._asked, next(iter(self._left), None))

    def _end(self, known: Sequence[str], name: str | None) -> None:
        if name is None:
            return
        shared = () if self._inside else SHARED
        raise ArgumentError(
            "source.unknown_param",
            f"The source {self.source} of kind {self.source.kind.upper()} has no param {self._inside}{name}.",
            remedy(name, [*dict.fromkeys([*known, *shared])], "Its params"),
            origin=self.source.origin,
        )

    def _first(self, names: Iterable[str], read: Callable[[object], Value | None], wanted: str) -> Value | None:
        found = [value for name in names if (value := self._take(name, read, wanted)) is not None]
        return found[0] if found else None

    def _take(self, name: str, read: Callable[[object], Value | None], wanted: str) -> Value | None:
        self._asked.append(name)
        key = next((each for each in self._left if each.lower() == name.lower()), None)
        given = None if key is None else self._left.pop(key)
        if given is None or given == "":  # as ${env:PASSWORD|} is where there is none
            return None
        value = read(given)
        if value is None:
            raise bad_param(self.source, f"{self._inside}{name}", wanted)
        return value


def _number(value: object) -> float | None:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    return float(value) if fits and isinstance(value, int | float) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _object(value: object) -> Mapping[str, object] | None:
    return value if isinstance(value, Mapping) else None


def file_source(source: Source) -> FileSource:
    """The connector for a declared source of files."""
    params = Params(source)
    paths = tuple(map(params.path, params.names("path"))) or (params.path(params.needed("path")),)
    kind = source.kind.lower()
    read = kind_named(kind) or Kind()
    if read.is_table and len(paths) > 1:
        problem = f"path of the source {source} must be one {FORMATS[kind].noun}."
        raise ArgumentError("source.bad_param", problem, "Declare a source for each.")
    types = Types(params.text("schema"), params.texts("types"), source.name)
    if read.is_columnar and (types.schema or types.some):
        raise ArgumentError(
            "source.bad_param",
            f"The source {source} takes no types: {source.kind.upper()} files have their own.",
            "Leave out schema and types, and cast in a query.",
        )
    return FileSource(paths, kind, params.options(), types, source.columns, source.name)


def spark_source(source: Source) -> SparkSource:
    params = Params(source)
    schema, path = params.text("schema"), params.text("path")
    options = params.options()
    if path:  # where nothing is there it may be a name, as Iceberg's tables have
        options["path"] = params.path(path) if Path(params.path(path)).exists() else path
    return SparkSource(source.kind, options, schema, source.columns, source.name)


@dataclass(frozen=True)
class SparkSource(Connector):
    """Reads by `spark.read.format(kind)`. Filters reach it as far as its own connector lets them."""

    kind: str
    options: Mapping[str, str]
    schema_text: str | None
    columns: tuple[str, ...]
    name: str

    def __str__(self) -> str:
        return self.name

    def read(self, reading: Reading, columns: Sequence[str] = ()) -> DataFrame:
        return select_columns(self._all(reading), columns or self.columns, self)

    def read_since(self, reading: Reading, column: str, value: Cursor, columns: Sequence[str] = ()) -> DataFrame:
        return select_columns(rows_since(self._all(reading), column, value, self), columns or self.columns, self)

    def _all(self, reading: Reading) -> DataFrame:
        reader = reading.spark.read.format(self.kind).options(**self.options)
        return (reader.schema(self.schema_text) if self.schema_text else reader).load()
