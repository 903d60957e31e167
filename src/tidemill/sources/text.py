"""Files without types: CSV and JSON. Types are inferred once, then taken from the table."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from tidemill.declare.names import quote, spelled
from tidemill.errors import ConnectorError
from tidemill.sources.narrow import spelling

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

    from tidemill.sources.protocol import Reading

# A text that looks like this is a moment; Spark's own guess would take the text "12345" for a year.
_ISO = "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS][XXX]"
_CSV = {"header": "true", "mode": "FAILFAST", "enforceSchema": "false", "escape": '"'}
_JSON = {"mode": "FAILFAST"}
_LADDERS = (("integer", "long", "decimal", "double"), ("date", "timestamp"))


@dataclass(frozen=True, slots=True)
class Types:
    """What a user says of types: a whole schema, or some columns, as Spark writes them ("decimal(10,2)")."""

    schema: str | None = None
    some: Mapping[str, str] = field(default_factory=dict)
    source: str = ""

    def whole(self) -> StructType | None:
        return _ddl(self.schema) if self.schema else None

    def over(self, found: StructType) -> StructType:
        return _typed(found, self.told())

    def told(self) -> StructType:
        return _ddl(", ".join(f"{quote(name)} {kind}" for name, kind in self.some.items()))


def read_csv(reading: Reading, groups: Sequence[Sequence[str]], options: Mapping[str, str], types: Types) -> DataFrame:
    """All rows; one that does not fit the types is an error. Files of one group have the same columns.

    A column that a file does not have is NULL in its rows.
    """
    options = _defaults(_CSV, options)
    whole = types.whole()
    if whole:
        return reading.spark.read.options(**options).schema(whole).csv([path for paths in groups for path in paths])
    found = [_csv_schema(reading, paths, options, types) for paths in groups]
    for name in types.some:
        spelling(name, [column for schema in found for column in schema.fieldNames()], types.source)
    common = types.over(_typed(common_types(found), reading.like))
    frames = [
        reading.spark.read.options(**options).schema(_typed(schema, common)).csv([*paths])
        for schema, paths in zip(found, groups, strict=True)
    ]
    return reduce(lambda rows, more: rows.unionByName(more, allowMissingColumns=True), frames)


def read_json(reading: Reading, paths: Sequence[str], options: Mapping[str, str], types: Types) -> DataFrame:
    """All rows; one that does not fit the types is an error. A field that a row does not have is NULL."""
    options = _defaults(_JSON, options)
    schema = types.whole() or json_schema(reading, paths, options, types)
    return reading.spark.read.options(**options).schema(schema).json([*paths])


def json_schema(reading: Reading, paths: Sequence[str], options: Mapping[str, str], types: Types) -> StructType:
    """The fields of all rows; those that the table has are there and have its types, also when no row has them."""
    inferring = reading.spark.read.options(**_defaults({"inferTimestamp": "true", "timestampFormat": _ISO}, options))
    found = _with_all(_typed(inferring.json([*paths]).schema, reading.like), reading.like)
    found = types.over(_with_all(found, types.told()))
    if not found.fields:
        raise ConnectorError(
            "source.no_columns",
            "There are no rows yet, so its columns are not known.",
            'Give them in its params: "schema": "id BIGINT, updated_at TIMESTAMP".',
        )
    return found


def empty(reading: Reading, types: Types) -> DataFrame | None:
    """No rows, where the columns are known all the same."""
    schema = types.whole() or reading.like
    return None if schema is None else reading.spark.createDataFrame([], schema)


def _csv_schema(reading: Reading, paths: Sequence[str], options: Mapping[str, str], types: Types) -> StructType:
    """Inferring reads every row, and is done only for columns whose type nobody has told."""
    by_header = {name: value for name, value in options.items() if name.lower() != "inferschema"}
    found = reading.spark.read.options(**by_header).csv([*paths]).schema
    told = [*(reading.like.fieldNames() if reading.like else ()), *types.some]
    if not all(spelled(name, told) for name in found.fieldNames()):
        found = reading.spark.read.options(**_defaults({"inferSchema": "true"}, options)).csv([*paths]).schema
    return found


def common_types(found: Sequence[StructType]) -> StructType:
    """Each column once, with a type that holds what all of them hold."""
    from pyspark.sql.types import StructField, StructType  # noqa: PLC0415  slow to import

    columns: dict[str, StructField] = {}
    for each in [column for schema in found for column in schema.fields]:
        known = columns.setdefault(each.name.lower(), each)
        columns[each.name.lower()] = StructField(known.name, _wider(known.dataType, each.dataType))
    return StructType([*columns.values()])


def _wider(one: DataType, other: DataType) -> DataType:
    from pyspark.sql.types import StringType  # noqa: PLC0415  slow to import

    if one == other:
        return one
    for ladder in _LADDERS:
        kinds = [kind.typeName() for kind in (one, other)]
        if set(kinds) <= set(ladder):
            return max((one, other), key=lambda kind: ladder.index(kind.typeName()))
    return StringType()


def _typed(found: StructType, like: StructType | None) -> StructType:
    from pyspark.sql.types import StructField, StructType  # noqa: PLC0415  slow to import

    known = {each.name.lower(): each.dataType for each in like.fields} if like else {}
    return StructType([StructField(f.name, known.get(f.name.lower(), f.dataType)) for f in found.fields])


def _with_all(found: StructType, like: StructType | None) -> StructType:
    from pyspark.sql.types import StructType  # noqa: PLC0415  slow to import

    names = found.fieldNames()
    return StructType([*found.fields, *(f for f in (like.fields if like else ()) if not spelled(f.name, names))])


def _ddl(text: str) -> StructType:
    from pyspark.sql.types import StructType  # noqa: PLC0415  slow to import

    found = StructType.fromDDL(text) if text else StructType()
    assert isinstance(found, StructType)  # noqa: S101  columns with their types are one
    return found


def _defaults(defaults: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Options count without case."""
    return {name: value for name, value in defaults.items() if _option(name, given) is None} | dict(given)


def _option(name: str, options: Mapping[str, str]) -> str | None:
    return next((value for key, value in options.items() if key.lower() == name.lower()), None)
