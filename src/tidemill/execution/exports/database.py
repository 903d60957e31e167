"""Exports to databases: PostgreSQL by COPY in one transaction, others as far as Spark's JDBC goes.

Spark's own JDBC would commit each partition by itself, and leave a staging table behind when it is killed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import TYPE_CHECKING, Any

from pyspark.sql import Observation
from pyspark.sql import functions as F
from pyspark.sql import types as t

from tidemill.errors import MergeError, SchemaError
from tidemill.execution.exports.options import Options
from tidemill.model import quote, spelled
from tidemill.model.strategy import Append, Merge, Replace
from tidemill.sources.jdbc import identifier, read_address
from tidemill.spark.session import settle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from tidemill.model.query import Export
    from tidemill.sources.jdbc import Address

_STAGE = "pg_temp.tidemill_stage"
_CHUNK = 1 << 18
_TYPES = {
    t.BooleanType: "boolean",
    t.ByteType: "smallint",
    t.ShortType: "smallint",
    t.IntegerType: "integer",
    t.LongType: "bigint",
    t.FloatType: "real",
    t.DoubleType: "double precision",
    t.StringType: "text",
    t.VarcharType: "text",
    t.CharType: "text",
    t.BinaryType: "bytea",
    t.DateType: "date",
    t.TimestampType: "timestamptz",
    t.TimestampNTZType: "timestamp",
    t.ArrayType: "jsonb",
    t.MapType: "jsonb",
    t.StructType: "jsonb",
    t.VariantType: "jsonb",
}
_NESTED = (t.ArrayType, t.MapType, t.StructType, t.VariantType)
_WITHOUT_EQUALITY = ("json", "xml", "point", "polygon")


@dataclass(frozen=True, slots=True)
class _Stage:
    """The rows to be written, with their columns as the table spells and types them."""

    table: str
    types: dict[str, str]

    @property
    def columns(self) -> str:
        return _listed(self.types)

    def compared(self, alias: str) -> str:
        """The row as PostgreSQL can compare it."""
        return ", ".join(
            f"{alias}.{identifier(name)}{'::text' if kind in _WITHOUT_EQUALITY else ''}"
            for name, kind in self.types.items()
        )


@dataclass(frozen=True, slots=True)
class PostgresTable:
    """A table of PostgreSQL that takes an export. It is made if it is not there, in the same transaction."""

    address: Address
    table: str
    export: Export

    def write(self, rows: DataFrame) -> int:
        """The rows are computed before the transaction begins, so that it is short."""
        lines = settle(rows.select(_line(rows.schema).alias("line")))
        with self._connect() as connection, connection.cursor() as cursor:
            stage = self._stage(cursor, rows.schema)
            with cursor.copy(f"COPY {_STAGE} ({stage.columns}) FROM STDIN") as copy:
                for chunk in _chunks(row["line"] for row in lines.toLocalIterator(prefetchPartitions=True)):
                    copy.write(chunk)
            count = int(cursor.rowcount)
            cursor.execute(f"ANALYZE {_STAGE}")
            enter(self.export.mode, cursor, stage)
        return count

    def _connect(self) -> Any:
        try:
            import psycopg  # noqa: PLC0415  an extra
        except ImportError as missing:
            raise self.export.wrong(
                "export.no_psycopg", "needs psycopg to write to PostgreSQL", "pip install 'tidemill[postgres]'"
            ) from missing
        known = {"user": self.address.user, "password": self.address.password, "client_encoding": "utf8"}
        return psycopg.connect(psycopg.conninfo.make_conninfo(self.address.libpq, **known))

    def _stage(self, cursor: Any, schema: t.StructType) -> _Stage:
        """An empty temporary table with the types of the target, which nobody else may write to from here on."""
        if cursor.execute("SELECT to_regclass(%s)", [self.table]).fetchone()[0] is None:
            cursor.execute(f"CREATE TABLE {self.table} ({self._definition(schema)})")
        cursor.execute(f"LOCK TABLE {self.table} IN SHARE ROW EXCLUSIVE MODE")
        held = dict(
            cursor.execute(
                "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute "
                "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
                [self.table],
            ).fetchall()
        )
        types = {found: held[found] for found in self._spelled(schema.fieldNames(), list(held))}
        columns = ", ".join(f"{identifier(name)} {kind}" for name, kind in types.items())
        cursor.execute(f"CREATE TEMPORARY TABLE tidemill_stage ({columns}) ON COMMIT DROP")
        return _Stage(self.table, types)

    def _definition(self, schema: t.StructType) -> str:
        columns = [f"{identifier(field.name)} {_type(field, self.export)}" for field in schema.fields]
        if self.export.mode.keys:
            columns.append(f"PRIMARY KEY ({_listed(self._spelled(self.export.mode.keys, schema.fieldNames()))})")
        return ", ".join(columns)

    def _spelled(self, names: Sequence[str], columns: list[str]) -> list[str]:
        missing = [name for name in names if spelled(name, columns) is None]
        if missing:
            raise SchemaError(
                "export.no_column",
                f"{self.table} has no column {', '.join(missing)}, which the export {self.export} needs.",
                f"Add it there, or change the query. {self.table} is unchanged.",
            )
        return [spelled(name, columns) or name for name in names]


@singledispatch
def enter(mode: Replace | Append | Merge, cursor: Any, stage: _Stage) -> None:
    """The staged rows enter their table."""
    raise NotImplementedError(mode)


@enter.register(Append)
def _(mode: Append, cursor: Any, stage: _Stage) -> None:  # noqa: ARG001  dispatched on
    cursor.execute(f"INSERT INTO {stage.table} ({stage.columns}) SELECT {stage.columns} FROM {_STAGE}")


@enter.register(Replace)
def _(mode: Replace, cursor: Any, stage: _Stage) -> None:  # noqa: ARG001  dispatched on
    """DELETE and not TRUNCATE: who reads meanwhile sees the old rows, and a long reader never sees none."""
    cursor.execute(f"DELETE FROM {stage.table}")
    cursor.execute(f"INSERT INTO {stage.table} ({stage.columns}) SELECT {stage.columns} FROM {_STAGE}")


@enter.register(Merge)
def _(mode: Merge, cursor: Any, stage: _Stage) -> None:
    """By statements that every PostgreSQL has and that need no unique index; rows that are equal stay untouched."""
    keys = [spelled(key, stage.types) for key in mode.keys]
    found = [key for key in keys if key]
    if len(found) < len(keys):
        raise SchemaError(
            "export.no_column",
            f"The rows have no key column {', '.join(key for key in mode.keys if not spelled(key, stage.types))}.",
            f"Correct the keys. {stage.table} is unchanged.",
        )
    _check_keys(cursor, found, stage)
    match = " AND ".join(f"t.{identifier(key)} = s.{identifier(key)}" for key in found)
    values = ", ".join(f"{identifier(name)} = s.{identifier(name)}" for name in stage.types if name not in found)
    if values:
        cursor.execute(
            f"UPDATE {stage.table} AS t SET {values} FROM {_STAGE} AS s WHERE {match} "
            f"AND ROW({stage.compared('t')}) IS DISTINCT FROM ROW({stage.compared('s')})"
        )
    cursor.execute(
        f"INSERT INTO {stage.table} ({stage.columns}) SELECT {stage.columns} FROM {_STAGE} AS s "
        f"WHERE NOT EXISTS (SELECT 1 FROM {stage.table} AS t WHERE {match})"
    )


def _check_keys(cursor: Any, keys: list[str], stage: _Stage) -> None:
    null = " OR ".join(f"{identifier(key)} IS NULL" for key in keys)
    nulls = cursor.execute(f"SELECT count(*) FROM {_STAGE} WHERE {null}").fetchone()[0]
    if nulls:
        raise MergeError(
            "merge.null_keys",
            f"{nulls:,} row{' has' if nulls == 1 else 's have'} no {' or '.join(keys)}; keys cannot be NULL.",
            f"Leave them out, or choose other keys. {stage.table} is unchanged.",
        )
    grouped = f"SELECT {_listed(keys)} FROM {_STAGE} GROUP BY {_listed(keys)} HAVING count(*) > 1"
    doubled = cursor.execute(f"SELECT count(*) FROM ({grouped}) AS d").fetchone()[0]
    if doubled:
        some = ", ".join(str(tuple(row)) for row in cursor.execute(f"{grouped} LIMIT 5").fetchall())
        raise MergeError(
            "merge.duplicate_keys",
            f"{doubled:,} key{' comes' if doubled == 1 else 's come'} more than once in this export: {some}.",
            f"Make the query unique on ({', '.join(keys)}). {stage.table} is unchanged.",
        )


def _type(field: t.StructField, export: Export) -> str:
    if isinstance(field.dataType, t.DecimalType):
        return f"numeric({field.dataType.precision},{field.dataType.scale})"
    found = _TYPES.get(type(field.dataType))
    if found is None:
        raise SchemaError(
            "export.no_type",
            f"PostgreSQL has no type for {field.name} of the export {export}: {field.dataType.simpleString()}.",
            "Cast it in the query.",
        )
    return found


def _line(schema: t.StructType) -> Column:
    """A row in the text format of COPY: fields between tabs, with a mark of its own for NULL."""
    return F.concat_ws("\t", *(F.coalesce(_escaped(_text(field)), F.lit("\\N")) for field in schema.fields))


def _text(field: t.StructField) -> Column:
    value = F.col(quote(field.name))
    match field.dataType:
        case t.BinaryType():
            return F.concat(F.lit("\\x"), F.hex(value))
        case t.TimestampType():
            moment = f"timestampadd(MICROSECOND, unix_micros({quote(field.name)}), TIMESTAMP_NTZ '1970-01-01 00:00:00')"
            return F.concat(F.expr(moment).cast("string"), F.lit("+00"))
        case kind if isinstance(kind, _NESTED):
            return F.to_json(value)
        case _:
            return value.cast("string")


def _escaped(text: Column) -> Column:
    for char, escape in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")):
        text = F.replace(text, F.lit(char), F.lit(escape))
    return text


def _chunks(lines: Any) -> Any:
    """Lines together, because each piece that is sent has its cost."""
    pieces: list[str] = []
    size = 0
    for line in lines:
        pieces.append(line)
        size += len(line) + 1
        if size >= _CHUNK:
            yield "\n".join([*pieces, ""])
            pieces, size = [], 0
    if pieces:
        yield "\n".join([*pieces, ""])


def _listed(names: Any) -> str:
    return ", ".join(identifier(name) for name in names)


def write_database(spark: SparkSession, rows: DataFrame, export: Export) -> tuple[int, str]:  # noqa: ARG001  as others
    """How many rows were written, and to which table: the target, or the option `table` where that is the URL."""
    options = Options(export)
    url = export.target if "://" in export.target or export.target.startswith("jdbc:") else options.text("url")
    table = options.text("table") if url == export.target else export.target
    if not url or not table:
        raise export.wrong("export.no_url", "needs the url of its database and a table", "Give both in its OPTIONS.")
    address = read_address(url, options.text("user"), options.text("password"))
    if address.is_postgres:
        return PostgresTable(address, table, export).write(rows), table
    return _append(rows, export, address, table, options.left()), table


def _append(rows: DataFrame, export: Export, address: Address, table: str, options: dict[str, str]) -> int:
    """One partition, because Spark commits each by itself."""
    if not export.mode.appends:
        raise export.wrong(
            "export.not_atomic",
            f"cannot {export.mode} a table of this database in one transaction",
            "Use MODE APPEND, or PostgreSQL.",
        )
    given = {"user": address.user, "password": address.password}
    counted = Observation()
    writer = rows.coalesce(1).observe(counted, F.count(F.lit(1)).alias("rows")).write.format("jdbc").mode("append")
    writer.options(**{name: value for name, value in given.items() if value is not None} | options)
    writer.option("url", address.jdbc).option("dbtable", table).save()
    return int(counted.get["rows"])
