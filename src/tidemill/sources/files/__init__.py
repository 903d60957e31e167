"""Files, folders and tables with a log as a source, by their kind or by what is there; and what they say of their
columns without Spark, by headers, footers and logs.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError, ConnectorError
from tidemill.formats import FORMATS
from tidemill.formats.registry import format_named
from tidemill.sources import Connector, rows_since, select_columns
from tidemill.sources.files.listing import Listing
from tidemill.sources.files.text import CsvOptions, Types, headers_of, separated_by
from tidemill.sources.kinds import ENDINGS, Kind, kind_named, tables_by_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from tidemill.model.cursor import Cursor
    from tidemill.sources import Reading
    from tidemill.sources.files.footers import Footers, KeySpan

FEW_FOOTERS = 1000  # more take longer to read than a plan should


def known_columns(source: FileSource) -> tuple[str, ...] | None:
    """The names of the columns that reading the source gives; None where only Spark can tell."""
    if source.columns:
        return source.columns
    if source.is_table:  # options may choose another version
        return None if source.options else tuple(format_named(source.format).log(source.paths[0]).columns())
    found = source.listing
    if found.in_partitions or not found.files:
        return None
    if source.has_header:
        return _of_text(source, found)
    footers = source.footers_of(found) if source.is_plain and len(found.files) <= FEW_FOOTERS else None
    return footers.columns() if footers else None


def _of_text(source: FileSource, found: Listing) -> tuple[str, ...] | None:
    if source.types.schema:
        return _of_ddl(source.types.schema)
    headers = headers_of(found, CsvOptions.of(source.read_options))
    return None if headers is None else each_once(headers)


def _of_ddl(schema: str) -> tuple[str, ...] | None:
    """The columns of a schema as Spark writes it: "id INT, at TIMESTAMP"."""
    import sqlglot  # noqa: PLC0415  slow to import, and few declare a schema

    try:
        tree = sqlglot.parse_one(f"CREATE TABLE t ({schema})", dialect="spark")
    except sqlglot.errors.SqlglotError:
        return None
    return tuple(column.name for column in tree.this.expressions)


def each_once(columns: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """The columns of all files, each once: names are matched without case."""
    found: dict[str, str] = {}
    for names in columns:
        for name in names:
            found.setdefault(name.lower(), name)
    return tuple(found.values())


_LARGE = 64 * 1024 * 1024
_ONE_TASK = 1024 * 1024  # bytes, where opening a file counts as much as reading some
_OPENING = 16 * 1024


@dataclass(frozen=True)
class FileSource(Connector):
    """Files at one or more paths or patterns, or a table that Spark reads at its path.

    Without a `kind` it is what the names of the files say. `options` are Spark's. CSV has a header unless they say
    otherwise; a row that does not fit is an error. Text takes the types of the table that it is read for.
    """

    path: str | tuple[str, ...]
    kind: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    types: Types = field(default_factory=Types)
    columns: tuple[str, ...] = ()
    name: str = ""

    def __str__(self) -> str:
        return self.name or ", ".join(self.paths)

    @cached_property
    def format(self) -> str:
        """Its kind, or what is there by the names of the files; nothing there, or a mix, is an error."""
        if self.kind:
            return self.kind
        if found := self.listing.table_format:
            return found
        kinds = sorted({ENDINGS.get(_suffix(file.base_name), "") for file in self.listing.files})
        if len(kinds) == 1 and kinds[0]:
            return kinds[0]
        table = tables_by_path()
        raise ArgumentError(
            "source.unknown_format",
            f"{self} holds {self._mix(kinds)}.",
            f"Give a {table}, or files of one kind that end in {', '.join(ENDINGS)}; a pattern chooses: *.csv.",
        )

    def _mix(self, kinds: Sequence[str]) -> str:
        names = [file.base_name for file in self.listing.files]
        unknown = [f"{name}, of unknown kind" for name in names if _suffix(name) not in ENDINGS][:1]
        held = [*(f"files of {kind} kind" for kind in kinds if kind), *unknown]
        return " and ".join(held) or "no files"

    @property
    def size(self) -> int:
        """Bytes on disk; what a run reads at the most."""
        return self.listing.size

    def bytes_read(self, start: Cursor | None) -> int | None:
        """The size of all its files; of columnar ones that are read from a value on, nobody knows which are opened."""
        if not self._read.is_columnar:
            return self.size
        if start is not None:
            return None
        return format_named(self.format).log(self.paths[0]).reach(()).size if self.is_table else self.size

    @property
    def local_files(self) -> list[str]:
        """The paths of its files; none where they are on no disk of this machine."""
        local = all("://" not in path for path in self.paths)
        return [file.path for file in self.listing.files] if local else []

    @property
    def settled(self) -> bool:
        """Large columnar files are cheaper to read again than to keep."""
        return self._read.is_columnar and self.size >= _LARGE

    @property
    def is_plain(self) -> bool:
        """Whether its rows are those of Parquet files, all of them and as they are; it may have fewer columns."""
        return self.has_footers and not self.options

    def footers_of(self, found: Listing) -> Footers | None:
        """What the footers of these files of its say; None where its files have none."""
        if not self.has_footers:
            return None
        from tidemill.sources.files.footers import Footers  # noqa: PLC0415  slow to import, and other files have none

        return Footers(found)

    @property
    def has_footers(self) -> bool:
        """Whether its files are Parquet's, whose footers say what is in them."""
        return self._read.has_footers

    @property
    def is_table(self) -> bool:
        """Whether it is a table with a log of its own, which Spark reads at its path."""
        return self._read.is_table

    def spans_in_order(self, files: Sequence[str], key: str) -> list[KeySpan] | None:
        """What each of these files of its holds, from the lowest keys on; None where only Spark can tell."""
        footers = self.footers_of(self.listing)
        return footers.spans_in_order(files, key) if footers else None

    def known_columns(self) -> tuple[str, ...] | None:
        """The names of the columns that reading it gives; None where only Spark can tell."""
        return known_columns(self)

    @cached_property
    def _read(self) -> Kind:
        """How files of its kind are read."""
        return kind_named(self.format) or Kind()

    @property
    def reader(self) -> str:
        """What Spark's reader is called."""
        return self._read.reader or self.format

    @property
    def has_header(self) -> bool:
        """Whether its files may say in their first lines what their columns are."""
        return self._read.has_header

    @cached_property
    def read_options(self) -> dict[str, str]:
        """Spark's options for reading it: those given, and the separator of its kind."""
        return separated_by(self._read.separator, self.options)

    @property
    def place(self) -> str | None:
        """The path or pattern by which Spark's catalog can hold it as it is; None where its rows have to be read.

        Text has no types of its own, and what the catalog holds has one path, and all columns.
        """
        whole = not self.columns and not (self.is_table and self.options)
        if not self._read.is_columnar or len(self.paths) > 1 or not whole:
            return None
        found, path = self.listed_now, self.paths[0]
        if "**" in path:  # Spark reads it as *
            return None
        if not self.is_table and not self.is_kept:
            found.check()
        is_pattern = [root.path for root in found.roots] != [path.rstrip("/")]
        return path if is_pattern or self.is_table else found.for_spark()[0]

    @property
    def has_nanoseconds(self) -> bool:
        """Whether its files hold moments in nanoseconds, so that Spark's catalog cannot read them in place."""
        footers = self.footers_of(self.listed_now)
        return footers is not None and bool(footers.fine_columns())

    @property
    def place_options(self) -> dict[str, str]:
        """What Spark needs to know to find the files there."""
        return ({"recursiveFileLookup": "true"} if self.listed_now.nested else {}) | dict(self.options)

    def version(self) -> str | None:
        """Differs whenever a file came, went or was written; a table's is that of its log."""
        more = (self.format, json.dumps({**self.options, "columns": self.columns, "types": str(self.types)}))
        if not self.is_table:
            return self.listed_now.digest(*more)
        return format_named(self.format).log(self.paths[0]).identity()

    def read(self, reading: Reading, columns: Sequence[str] = ()) -> DataFrame:
        """All rows, lazily; JSON is read once before, to find its columns, and CSV where a column has no type yet."""
        return select_columns(self._gathered(reading), columns or self.columns, self)

    def read_since(self, reading: Reading, column: str, value: Cursor, columns: Sequence[str] = ()) -> DataFrame:
        """Columnar files that hold no such row are skipped."""
        return select_columns(rows_since(self._gathered(reading), column, value, self), columns or self.columns, self)

    def _gathered(self, reading: Reading) -> DataFrame:
        """All rows, from one task where they are few: what is computed of them then needs no exchange."""
        from tidemill.sources.files.reading import read_files  # noqa: PLC0415  it imports PySpark

        rows, found = read_files(self, reading), self.listing
        return rows.coalesce(1) if found.size + _OPENING * len(found.files) <= _ONE_TASK else rows

    @property
    def is_kept(self) -> bool:
        """Whether it is a dataset with a log of ours: its rows are those of one commit, whoever writes meanwhile."""
        a_folder = self.is_plain and len(self.paths) == 1 and self.format in FORMATS
        return a_folder and format_named(self.format).is_kept(self.paths[0])

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.path,) if isinstance(self.path, str) else self.path

    @property
    def listed_now(self) -> Listing:
        """What is there now; a run may come long after the declaration."""
        return Listing(self.paths, ConnectorError if self.name else ArgumentError)

    @cached_property
    def listing(self) -> Listing:
        return self.listed_now


def _suffix(name: str) -> str:
    """The ending that tells the kind, also behind one of compression."""
    stem = name.lower().removesuffix(".gz").removesuffix(".bz2").removesuffix(".zst")
    return "." + stem.rpartition(".")[2]
