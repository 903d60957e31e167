"""Databases as a source, through Spark's JDBC: their addresses, and for PostgreSQL an exact WHERE."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from tidemill.errors import ArgumentError, ConnectorError
from tidemill.model import quote
from tidemill.model.cursor import CursorKind
from tidemill.sources import Connector, find_column, rows_since, select_columns
from tidemill.sources.declared import Params
from tidemill.spark.jars import POSTGRES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField

    from tidemill.model.cursor import Cursor
    from tidemill.model.source import Source
    from tidemill.sources import Reading

_POSTGRES = ("postgresql", "postgres")


@dataclass(frozen=True, slots=True)
class Address:
    """`jdbc` is what Spark takes. It holds no password for PostgreSQL, however the user has written it."""

    jdbc: str = field(repr=False)
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    @property
    def is_postgres(self) -> bool:
        return self.jdbc.startswith("jdbc:postgresql:")

    @property
    def libpq(self) -> str:
        """The same for PostgreSQL's own library."""
        return self.jdbc.removeprefix("jdbc:")


def read_address(url: str, user: str | None = None, password: str | None = None) -> Address:
    """Reads `postgresql://host:port/db`, the same with `jdbc:` before it, or any other JDBC URL.

    A user and a password given beside the URL win over those in it.
    """
    plain = url.removeprefix("jdbc:")
    if not plain.startswith(tuple(f"{scheme}://" for scheme in _POSTGRES)):
        return Address(url, user, password)
    parts = urlsplit(plain)
    query = dict(parse_qsl(parts.query))
    found_user = query.pop("user", None) or (unquote(parts.username) if parts.username else None)
    found_password = query.pop("password", None) or (unquote(parts.password) if parts.password else None)
    host = parts.netloc.rpartition("@")[2] or "localhost"
    options = f"?{urlencode(query)}" if query else ""
    return Address(
        f"jdbc:postgresql://{host}{parts.path or '/'}{options}", user or found_user, password or found_password
    )


BATCH = 10_000  # rows; PostgreSQL's driver would fetch them all at once
_DRIVER = "org.postgresql.Driver"


def jdbc_source(source: Source) -> JdbcSource:
    """The connector for a declared table or query of a database."""
    params = Params(source)
    address = read_address(params.needed("url"), params.text("user"), params.text("password"))
    if source.kind.lower() != "jdbc" and not address.is_postgres:
        raise ArgumentError(
            "source.bad_param",
            f"url of the source {source} is not one of PostgreSQL.",
            'Write "postgresql://host:5432/database", or use TYPE JDBC with the driver\'s own URL.',
            origin=source.origin,
        )
    table, query = params.text("table", "dbtable"), params.text("query")
    options = params.options()  # a misspelled table is found here
    if (table is None) == (query is None):
        raise ArgumentError(
            "source.bad_param",
            f"The source {source} needs a table or a query{', not both' if table else ''}.",
            "Give one of them in its PARAMS.",
            origin=source.origin,
        )
    relation = table or f"({(query or '').strip().rstrip(';')}) AS tidemill_query"
    return JdbcSource(address, relation, options, source.columns, source.batch_size or BATCH, source.name)


@dataclass(frozen=True)
class JdbcSource(Connector):
    """A table or a query of a database. Frames are lazy: each time one is computed, the database is asked.

    PostgreSQL's `timestamp` is timestamp_ntz and `timestamptz` timestamp.
    """

    address: Address
    relation: str
    options: Mapping[str, str] = field(repr=False)
    columns: tuple[str, ...]
    batch_size: int
    name: str

    def __str__(self) -> str:
        return self.name

    def read(self, reading: Reading, columns: Sequence[str] = ()) -> DataFrame:
        return self._rows(reading, columns or self.columns)

    def read_since(self, reading: Reading, column: str, value: Cursor, columns: Sequence[str] = ()) -> DataFrame:
        """The database filters: PostgreSQL by a WHERE of ours, others by what Spark hands on."""
        if not self.address.is_postgres:
            return select_columns(
                rows_since(self._rows(reading, ()), column, value, self), columns or self.columns, self
            )
        name = find_column(column, self._frame(reading, self.relation).columns, self)
        return self._rows(reading, columns or self.columns, where=between(name, value, reading.until))

    def _rows(self, reading: Reading, columns: Sequence[str], where: str = "") -> DataFrame:
        found = select_columns(self._frame(reading, self.relation), columns, self)
        if not self.address.is_postgres:
            return found
        fields = found.schema.fields
        selected = ", ".join(map(_selected, fields))
        query = f"(SELECT {selected} FROM {self.relation}{where and f' WHERE {where}'}) AS tidemill_rows"
        return self._frame(reading, query).selectExpr(*map(_restored, fields))

    def _frame(self, reading: Reading, relation: str) -> DataFrame:
        from tidemill.spark.session import ensure_driver  # noqa: PLC0415  it imports PySpark

        if self.address.is_postgres:
            ensure_driver(reading.spark, POSTGRES)
        reader = reading.spark.read.format("jdbc").options(**self._options()).option("dbtable", relation)
        try:
            return reader.load()
        except Exception as failure:
            if f"ClassNotFoundException: {_DRIVER}" in str(failure):
                raise _no_driver() from failure
            raise

    def _options(self) -> dict[str, str]:
        own = {"url": self.address.jdbc, "fetchsize": str(self.batch_size)}
        if self.address.user is not None:
            own["user"] = self.address.user
        if self.address.password is not None:
            own["password"] = self.address.password
        if self.address.is_postgres:
            # Spark would write a moment into a WHERE as the wall clock of the JVM's zone, which is not exact.
            own |= {"driver": _DRIVER, "preferTimestampNTZ": "true", "pushDownPredicate": "false"}
        return own | dict(self.options)


def between(column: str, start: Cursor, end: Cursor | None) -> str:
    """The condition in PostgreSQL's words; texts are compared by their bytes, as Spark does."""
    name = identifier(column)
    compared = f'{name}::text COLLATE "C"' if start.kind is CursorKind.STRING else name
    below = f" AND {compared} < {_literal(end)}" if end else ""
    return f"{compared} >= {_literal(start)}{below} OR {name} IS NULL"


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(value: Cursor) -> str:
    text = "'" + value.text().replace("'", "''") + "'"
    match value.kind:
        case CursorKind.DATE:
            return f"DATE {text}"
        case CursorKind.TIMESTAMP:
            return f"TIMESTAMPTZ {text}"
        case CursorKind.TIMESTAMP_NTZ:
            return f"TIMESTAMP {text}"
        case CursorKind.INTEGER | CursorKind.DECIMAL:
            return value.text()
        case CursorKind.STRING:
            return text


def _selected(field_: StructField) -> str:
    """A `timestamp` travels as a moment of UTC: the driver would read it in the JVM's zone, where it may not exist."""
    name = identifier(field_.name)
    return f"{name} AT TIME ZONE 'UTC' AS {name}" if _has_no_zone(field_) else name


def _restored(field_: StructField) -> str:
    name = quote(field_.name)
    if not _has_no_zone(field_):
        return name
    return f"timestampadd(MICROSECOND, unix_micros({name}), TIMESTAMP_NTZ '1970-01-01 00:00:00') AS {name}"


def _has_no_zone(field_: StructField) -> bool:
    return field_.dataType.typeName() == "timestamp_ntz"


def _no_driver() -> ConnectorError:
    name = f"{POSTGRES.organisation}:{POSTGRES.module}:{POSTGRES.version}"
    return ConnectorError(
        "source.no_driver",
        "The Spark session has no driver for PostgreSQL.",
        f'Build the session with .config("spark.jars.packages", "{name}"), or leave Spark to Tidemill.',
    )
