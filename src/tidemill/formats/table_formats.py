"""The table formats that there are. One more is registered by its own module; nothing here imports Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.formats.delta.format import DeltaFormat
from tidemill.formats.parquet.format import ParquetFormat
from tidemill.model.format import DEFAULT_FORMAT, FORMATS

if TYPE_CHECKING:
    from tidemill.formats.port import TableFormat

_formats: dict[str, TableFormat] = {}


def register(table_format: TableFormat) -> None:
    """From now on tables can be declared with this format, and are recognised where they lie."""
    _formats[table_format.traits.name] = table_format
    FORMATS[table_format.traits.name] = table_format.traits


def unregister(name: str) -> None:
    """Takes a format out again."""
    _formats.pop(name, None)
    FORMATS.pop(name, None)


register(DeltaFormat())
register(ParquetFormat())


def format_named(name: str | None) -> TableFormat:
    """The format of this name; the default one where a declaration names none."""
    return _formats[name or DEFAULT_FORMAT]


def recognised(path: str) -> TableFormat | None:
    """The format of what is at a path, by what lies there; None where nothing does that tells."""
    return next((each for each in _formats.values() if each.is_at(path)), None)
