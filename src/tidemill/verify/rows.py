"""Compares two sets of rows with Spark, by keys or as multisets, floats within a tolerance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Column, Window
from pyspark.sql import functions as F
from pyspark.sql import types as t

from tidemill.changes.bags import COPY, NUMBER, all_of, compared_fields, same, surplus
from tidemill.model import of, quote
from tidemill.spark.session import settle
from tidemill.verify.result import Found, Kind, Sample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from tidemill.verify.result import Rule

    Texts = dict[str, str | None]

SAMPLES = 5
_KIND, _LATE, _ORDER = "__tidemill_kind", "__tidemill_late", "__tidemill_order"
_HERE, _FULL = "__tidemill_here", "__tidemill_full"


@dataclass(frozen=True, slots=True)
class Sides:
    """The rows of a full run, and the table's, with the same columns.

    `reach` is what the next run reads, as a filter, None where it reads everything.
    """

    full: DataFrame
    here: DataFrame
    volatile: frozenset[str]
    reach: str | None = None

    @property
    def late(self) -> Column:
        return ~F.coalesce(F.expr(self.reach), F.lit(False)) if self.reach else F.lit(False)  # noqa: FBT003


def compare_rows(sides: Sides, rule: Rule) -> dict[Kind, Found]:
    """How the two sides differ."""
    found = settle(_by_keys(sides, rule) if rule.keys else _as_multisets(sides, rule))
    shown = _Shown(sides.full.columns, rule.keys)
    totals = found.groupBy(_KIND).agg(
        F.count(F.lit(1)).alias("rows"),
        F.count_if(_LATE).alias("late"),
        F.count_if(COPY).alias("copies"),
    )
    return {
        Kind(row[_KIND]): Found(row["rows"], row["late"], row["copies"], _samples(found, row[_KIND], shown))
        for row in totals.collect()
    }


@dataclass(frozen=True, slots=True)
class _Shown:
    """Makes samples of collected rows, which come without the order of their columns."""

    columns: Sequence[str]
    keys: Sequence[str]

    def sample(self, here: Texts | None, full: Texts | None) -> Sample:
        if here is None or full is None:
            return Sample(self._ordered(here or full or {}))
        apart = [name for name in full if full[name] != here.get(name)]
        return Sample(
            self._ordered({name: here[name] for name in here if name in self.keys or name in apart}),
            self._ordered({name: full[name] for name in apart}),
        )

    def _ordered(self, row: Texts) -> Texts:
        return {name: row[name] for name in self.columns if name in row}


def _samples(found: DataFrame, kind: str, shown: _Shown) -> tuple[Sample, ...]:
    rows = found.where(F.col(_KIND) == kind).orderBy(_ORDER).select(_HERE, _FULL).limit(SAMPLES).collect()
    return tuple(shown.sample(row[_HERE], row[_FULL]) for row in rows)


def _by_keys(sides: Sides, rule: Rule) -> DataFrame:
    """The keys that one side lacks, or whose rows differ. A full run has each key once; the table should."""
    full = sides.full.withColumn(_LATE, sides.late).alias("s")
    here = sides.here.withColumn(COPY, F.lit(True)).alias("t")  # noqa: FBT003
    keys = [F.col(of("s", key)) == F.col(of("t", key)) for key in rule.keys]
    joined = full.join(here, all_of(keys), "full_outer")
    kind = (
        F.when(F.col(f"t.{COPY}").isNull(), rule.only_full)
        .when(F.col(f"s.{_LATE}").isNull(), rule.only_here)
        .when(~all_of(_values_same(sides, rule)), F.when(_ignored(rule), Kind.IGNORED).otherwise(rule.differs))
    )
    key = [F.coalesce(F.col(of("s", key)), F.col(of("t", key))) for key in rule.keys]
    labelled = joined.select(
        kind.alias(_KIND),
        F.coalesce(F.col(f"s.{_LATE}"), F.lit(False)).alias(_LATE),  # noqa: FBT003
        (F.col(f"t.{COPY}").isNotNull() & F.col(f"s.{_LATE}").isNotNull()).alias(COPY),
        F.struct(*[column.alias(f"k{n}") for n, column in enumerate(key)]).alias(_ORDER),
        F.when(F.col(f"t.{COPY}").isNotNull(), _shown(sides.here.schema, sides.volatile, "t")).alias(_HERE),
        F.when(F.col(f"s.{_LATE}").isNotNull(), _shown(sides.full.schema, sides.volatile, "s")).alias(_FULL),
    )
    number = F.row_number().over(Window.partitionBy(_ORDER).orderBy(F.col(_KIND).asc_nulls_first()))
    again = F.col(COPY) & (F.col(NUMBER) > 1)
    return (
        labelled.withColumn(NUMBER, number)
        .withColumn(_KIND, F.when(again, Kind.EXTRA).otherwise(F.col(_KIND)))
        .withColumn(COPY, again)
        .withColumn(_FULL, F.when(~again, F.col(_FULL)))
        .where(F.col(_KIND).isNotNull())
        .drop(NUMBER)
    )


def _ignored(rule: Rule) -> Column:
    """The full run's row is older than the table's, where that counts: the same rule as a merge has for it."""
    if rule.only_newer is None:
        return F.lit(False)  # noqa: FBT003
    given, stored = F.col(of("s", rule.only_newer)), F.col(of("t", rule.only_newer))
    return stored.isNotNull() & ~F.coalesce(given >= stored, F.lit(False))  # noqa: FBT003


def _values_same(sides: Sides, rule: Rule) -> list[Column]:
    left_out = sides.volatile | {key.lower() for key in rule.keys}
    return [
        same(of("s", field.name), of("t", field.name), field.dataType)
        for field in sides.full.schema.fields
        if field.name.lower() not in left_out
    ]


def _as_multisets(sides: Sides, rule: Rule) -> DataFrame:
    """The rows that one side holds more often than the other, each as often as that."""
    fields = compared_fields(sides.full.schema, sides.volatile)
    more_here = F.col(NUMBER) < 0
    row = _shown(t.StructType(fields), frozenset())
    return surplus(sides.full, sides.here, sides.volatile).select(
        F.when(more_here, rule.only_here).otherwise(rule.only_full).alias(_KIND),
        sides.late.alias(_LATE),
        (more_here & F.col(COPY)).alias(COPY),
        F.struct(*[quote(field.name) for field in fields]).alias(_ORDER),
        F.when(more_here, row).alias(_HERE),
        F.when(~more_here, row).alias(_FULL),
    )


def _shown(schema: t.StructType, volatile: frozenset[str], side: str | None = None) -> Column:
    """A row as a map of texts."""
    pairs: list[Column] = []
    for field in schema.fields:
        if field.name.lower() not in volatile:
            name = of(side, field.name) if side else quote(field.name)
            pairs += [F.lit(field.name), _text(F.col(name), field.dataType)]
    return F.create_map(*pairs)


def _text(column: Column, kind: t.DataType) -> Column:
    match kind:
        case t.ArrayType() | t.MapType() | t.StructType() | t.VariantType():
            return F.to_json(column)
        case t.BinaryType():
            return F.hex(column)
        case _:
            return column.cast("string")
