"""Compares two sets of rows with Spark, by keys or as multisets, floats within a tolerance.

A sum of floats depends on the order in which Spark adds them, which differs from run to run.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, Window
from pyspark.sql import functions as F
from pyspark.sql import types as t

from tidemill.changes.compare import canonical, comparable
from tidemill.model import of, quote
from tidemill.spark.session import settle
from tidemill.verify.result import Found, Kind, Sample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from tidemill.verify.result import Rule

    Texts = dict[str, str | None]

TOLERANCE = 1e-9
_FLOATS = (t.DoubleType, t.FloatType)


def has_floats(kind: t.DataType) -> bool:
    match kind:
        case t.ArrayType():
            return has_floats(kind.elementType)
        case t.MapType():
            return has_floats(kind.keyType) or has_floats(kind.valueType)
        case t.StructType():
            return any(has_floats(field.dataType) for field in kind.fields)
        case _:
            return isinstance(kind, _FLOATS)


def canonical_kind(kind: t.DataType) -> t.DataType:
    """The type of a column's comparable form: a map is the array of its entries, sorted."""
    match kind:
        case t.MapType():
            entry = [
                t.StructField("key", canonical_kind(kind.keyType)),
                t.StructField("value", canonical_kind(kind.valueType)),
            ]
            return t.ArrayType(t.StructType(entry))
        case t.ArrayType():
            return t.ArrayType(canonical_kind(kind.elementType))
        case t.StructType():
            return t.StructType([t.StructField(f.name, canonical_kind(f.dataType)) for f in kind.fields])
        case t.VariantType():
            return t.StringType()
        case _:
            return kind


def same(ours: str, theirs: str, kind: t.DataType) -> Column:
    """A condition, never NULL: two columns of one type are the same."""
    return close(F.expr(canonical(ours, kind)), F.expr(canonical(theirs, kind)), canonical_kind(kind))


def close(ours: Column, theirs: Column, kind: t.DataType) -> Column:
    """The same for values in their comparable form."""
    if not has_floats(kind):
        return ours.eqNullSafe(theirs)
    return ours.eqNullSafe(theirs) | F.coalesce(_close(ours, theirs, kind), F.lit(False))  # noqa: FBT003


def _close(ours: Column, theirs: Column, kind: t.DataType) -> Column:
    match kind:
        case t.ArrayType():
            both = F.zip_with(ours, theirs, lambda a, b: close(a, b, kind.elementType))
            return (F.size(ours) == F.size(theirs)) & F.forall(both, lambda each: each)
        case t.StructType():
            parts = [close(ours.getField(f.name), theirs.getField(f.name), f.dataType) for f in kind.fields]
            return ours.isNotNull() & theirs.isNotNull() & reduce(lambda a, b: a & b, parts)
        case _:
            return _near(ours.cast("double"), theirs.cast("double"))


def _near(ours: Column, theirs: Column) -> Column:
    """Infinities and NaN are near nothing: what they have in common with others, `eqNullSafe` has found."""
    apart, size = F.abs(ours - theirs), F.greatest(F.abs(ours), F.abs(theirs))
    return (apart < F.lit(float("inf"))) & (apart <= size * TOLERANCE)


SAMPLES = 5
_KIND, _LATE, _COPY, _ORDER = "__tidemill_kind", "__tidemill_late", "__tidemill_copy", "__tidemill_order"
_HERE, _FULL, _NUMBER = "__tidemill_here", "__tidemill_full", "__tidemill_number"


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
        F.count_if(_COPY).alias("copies"),
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
    here = sides.here.withColumn(_COPY, F.lit(True)).alias("t")  # noqa: FBT003
    keys = [F.col(of("s", key)) == F.col(of("t", key)) for key in rule.keys]
    joined = full.join(here, _all(keys), "full_outer")
    kind = (
        F.when(F.col(f"t.{_COPY}").isNull(), rule.only_full)
        .when(F.col(f"s.{_LATE}").isNull(), rule.only_here)
        .when(~_all(_values_same(sides, rule)), F.when(_ignored(rule), Kind.IGNORED).otherwise(rule.differs))
    )
    key = [F.coalesce(F.col(of("s", key)), F.col(of("t", key))) for key in rule.keys]
    labelled = joined.select(
        kind.alias(_KIND),
        F.coalesce(F.col(f"s.{_LATE}"), F.lit(False)).alias(_LATE),  # noqa: FBT003
        (F.col(f"t.{_COPY}").isNotNull() & F.col(f"s.{_LATE}").isNotNull()).alias(_COPY),
        F.struct(*[column.alias(f"k{n}") for n, column in enumerate(key)]).alias(_ORDER),
        F.when(F.col(f"t.{_COPY}").isNotNull(), _shown(sides.here.schema, sides.volatile, "t")).alias(_HERE),
        F.when(F.col(f"s.{_LATE}").isNotNull(), _shown(sides.full.schema, sides.volatile, "s")).alias(_FULL),
    )
    number = F.row_number().over(Window.partitionBy(_ORDER).orderBy(F.col(_KIND).asc_nulls_first()))
    again = F.col(_COPY) & (F.col(_NUMBER) > 1)
    return (
        labelled.withColumn(_NUMBER, number)
        .withColumn(_KIND, F.when(again, Kind.EXTRA).otherwise(F.col(_KIND)))
        .withColumn(_COPY, again)
        .withColumn(_FULL, F.when(~again, F.col(_FULL)))
        .where(F.col(_KIND).isNotNull())
        .drop(_NUMBER)
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
    fields = _compared_fields(sides)
    surplus = _surplus(sides, fields)
    if any(has_floats(field.dataType) for field in fields):
        surplus = _without_near_pairs(surplus, fields)
    more_here = F.col(_NUMBER) < 0
    row = _shown(t.StructType(fields), frozenset())
    return surplus.select(
        F.when(more_here, rule.only_here).otherwise(rule.only_full).alias(_KIND),
        sides.late.alias(_LATE),
        (more_here & F.col(_COPY)).alias(_COPY),
        F.struct(*[quote(field.name) for field in fields]).alias(_ORDER),
        F.when(more_here, row).alias(_HERE),
        F.when(~more_here, row).alias(_FULL),
    )


def _compared_fields(sides: Sides) -> list[t.StructField]:
    return [
        t.StructField(field.name, canonical_kind(field.dataType))
        for field in sides.full.schema.fields
        if field.name.lower() not in sides.volatile
    ]


def _surplus(sides: Sides, fields: Sequence[t.StructField]) -> DataFrame:
    """One row for each that is left over, with a number that is above zero for those of the full run.

    `_COPY` says whether the other side has such a row too.
    """
    both = sides.full.select(*comparable(sides.full, sides.volatile), F.lit(1).alias(_NUMBER)).unionByName(
        sides.here.select(*comparable(sides.here, sides.volatile), F.lit(-1).alias(_NUMBER))
    )
    names = [quote(field.name) for field in fields]
    totals = both.groupBy(*names).agg(F.sum(_NUMBER).alias(_NUMBER), (F.min(_NUMBER) < F.max(_NUMBER)).alias(_COPY))
    apart = totals.where(F.col(_NUMBER) != 0)
    times = F.explode(F.sequence(F.lit(1), F.abs(_NUMBER)))
    return apart.select(*names, _COPY, F.signum(_NUMBER).alias(_NUMBER), times.alias("__tidemill_times")).drop(
        "__tidemill_times"
    )


def _without_near_pairs(surplus: DataFrame, fields: Sequence[t.StructField]) -> DataFrame:
    """What stays when rows that differ only by the noise of floats are treated as the same.

    Rows with the same other columns are paired in the order of their floats.
    """
    floats = [field for field in fields if has_floats(field.dataType)]
    exact = [field for field in fields if not has_floats(field.dataType)]
    rank = "__tidemill_rank"
    window = Window.partitionBy(_NUMBER, *[quote(field.name) for field in exact]).orderBy(
        *[quote(field.name) for field in floats]
    )
    ranked = settle(surplus.withColumn(rank, F.row_number().over(window)))
    sides = (ranked.where(F.col(_NUMBER) > 0), ranked.where(F.col(_NUMBER) < 0))

    def alone(rows: DataFrame, others: DataFrame) -> DataFrame:
        same_place = [F.col(f"s.{rank}") == F.col(f"t.{rank}")]
        equal = [F.col(of("s", f.name)).eqNullSafe(F.col(of("t", f.name))) for f in exact]
        near = [close(F.col(of("s", f.name)), F.col(of("t", f.name)), f.dataType) for f in floats]
        return rows.alias("s").join(others.alias("t"), _all([*same_place, *equal, *near]), "left_anti")

    return alone(*sides).unionByName(alone(*reversed(sides))).drop(rank)


def _all(conditions: Sequence[Column]) -> Column:
    return reduce(lambda a, b: a & b, conditions, F.lit(True))  # noqa: FBT003


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
