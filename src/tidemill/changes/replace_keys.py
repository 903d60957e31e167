"""Rows that replace others by keys which need not be unique, or by their whole content; what is the same stays.

All comparison is of bags of rows, null-safe, and by canonical forms (`changes/compare.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, Window
from pyspark.sql import functions as F

from tidemill.changes import ALL_COUNTS, EMPTIED, char_length, refuse_shrink
from tidemill.changes.compare import canonical, comparable
from tidemill.changes.compile import column_types, compile_change
from tidemill.changes.match import FEW_KEYS, FEW_ROWS, as_read, within
from tidemill.changes.profile import Ranged, kind_of, range_columns, range_of
from tidemill.errors import StateError
from tidemill.formats.base import COMING, HELD, AppendRows, Compiled, OverwriteRows, ReplaceByKey
from tidemill.formats.port import WEIGHT
from tidemill.model import of, quote, spelled
from tidemill.model.cursor import CursorKind
from tidemill.model.record import Counts
from tidemill.model.strategy import MaterializedView, Replace
from tidemill.spark.session import settle

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, Row
    from pyspark.sql.types import StructType

    from tidemill.formats.base import Change, KeyRange, Profile, Target

_STORED, _GIVEN, _SAME = "__tidemill_stored", "__tidemill_given", "__tidemill_same"
_MOST_DIFFERENT = 0.5  # of the rows of both sides: from there on the table is written whole
_NUMBER, _COPIES, _ROW = "__tidemill_number", "__tidemill_copies", "__tidemill_row"
_MOST_TELLING = 4  # columns by which the rows of some contents are found among all rows
_MANY = 0.5  # of the values of the column that has the most: as many tell contents apart
_MOST_RANGED = 8  # columns by whose ranges files are skipped: each of them costs for every row of those that are not


def replacing(
    held: StructType,
    keys: Sequence[str],
    gone: DataFrame | None,
    rows: DataFrame,
    ranges: Sequence[KeyRange] = (),
    *,
    covered: bool = False,
) -> ReplaceByKey:
    """The operation by which `rows` replace those of a table with columns `held` that have a key of `gone`.

    `covered` says that the keys of `rows` do not only add to these.
    """
    lengths = {field.name: char_length(field) for field in held.fields}
    sure = tuple(span for span in ranges if not lengths[spelled(span.column, held.names) or span.column])
    pairs = [_same(as_read(key, lengths[key]), of(COMING, key), held, key) for key in keys]
    near = [within(of(HELD, span.column), span) for span in sure]
    return ReplaceByKey(tuple(keys), gone, rows, " AND ".join([*pairs, *near]), sure, covered)


def replace_keys(
    held: DataFrame,
    new: DataFrame,
    keys: DataFrame,
    on: Sequence[str],
    known: Profile,
    *,
    volatile: frozenset[str] = frozenset(),
) -> Compiled:
    """The rows of some keys, as they are `held`, become the `new` ones; keys whose rows are the same stay.

    `keys` has each of them once, and `known` is its profile; the columns of `held` and `new` are aligned. A row is
    updated where its key is unique on both sides. Three Spark actions, of which the first computes `new`.
    """
    new = settle(new)
    ranges = () if known.null_keys else known.ranges
    near = " AND ".join(within(quote(span.column), span) for span in ranges) or "true"
    stored = _among(held.where(near), _sent(keys, few=known.rows <= FEW_KEYS), on)
    judged = settle(_judged(stored, new, on, volatile))
    counts, leaving, coming, vanishing = _totals(judged)
    if not leaving and not coming:
        return Compiled(None, counts, ALL_COUNTS)
    gone = judged.where(_differs() & (F.col(_STORED) > 0)).select(*map(quote, on)) if leaving else None
    changed = judged.where(_differs() & (F.col(_GIVEN) > 0)).select(*map(quote, on))
    few = partial(_sent, few=coming <= FEW_KEYS)
    rows = few(_among(new, few(changed), on))
    return Compiled(replacing(held.schema, on, gone, rows, ranges, covered=not vanishing), counts, ALL_COUNTS)


def change_contents(
    held: DataFrame,
    signed: DataFrame,
    name: str,
    *,
    volatile: frozenset[str] = frozenset(),
    row_key: Sequence[str] = (),
    is_sure: bool = False,
) -> Compiled:
    """Rows with a WEIGHT enter the table `name` and leave it, each as often as their weights add up to.

    Columns that are `volatile` are no part of a row's content, and of rows that are equal but for them any leave. One
    that should leave and is not held is an error. `is_sure` says that all are held, since nobody else has changed the
    table: then rows that leave are known by few columns where no others have the same values there, and the rest is not
    read. Four Spark actions, of which the first computes `signed`; three where rows are known so, two where no row
    leaves. A row that leaves for another with the same `row_key` is updated, which takes one more to count.
    """
    net = settle(_net(signed.select(*map(quote, held.columns), WEIGHT), volatile))
    kinds = _kinds(held.schema, volatile)
    found = _weighed(net, kinds)
    coming, leaving, contents = found["coming"] or 0, found["leaving"] or 0, found["contents"] or 0
    updated = _updated(net, row_key) if coming and leaving and row_key else 0
    counts = Counts(inserted=coming - updated, updated=updated, deleted=leaving - updated)
    entering = _repeated(net.where(F.col(WEIGHT) > 0), held.columns)
    if not contents:
        return Compiled(AppendRows(entering) if coming else None, counts, ALL_COUNTS)
    telling = _telling(found, kinds)
    ranges = _ranges(found, kinds, telling)
    near = held.where(" AND ".join(within(quote(span.column), span) for span in ranges) or "true")
    few = partial(_sent, few=coming + leaving <= FEW_ROWS)
    leaves = _known(near, net, telling, few) if is_sure and telling else None
    leaves = leaves or _met_rows(near, net, telling, volatile, few, contents, name)
    rows = few(entering if leaves.stays is None else leaves.stays.unionByName(entering))
    operation = replacing(held.schema, leaves.keys, few(leaves.gone), rows, ranges, covered=leaves.covered)
    return Compiled(operation, counts, ALL_COUNTS)


@dataclass(frozen=True, slots=True)
class _Leaving:
    """The keys by which rows leave, and those of the same keys that stay; `covered` as in the operation."""

    keys: Sequence[str]
    gone: DataFrame
    stays: DataFrame | None = None
    covered: bool = False


def _known(
    held: DataFrame, net: DataFrame, telling: Sequence[str], sent: Callable[[DataFrame], DataFrame]
) -> _Leaving | None:
    """The rows that leave by their telling columns, where no others have the same values there."""
    weight = F.col(WEIGHT)
    named = [F.col(of(_ROW, each)).alias(each) for each in telling]
    given = net.select(
        *named,
        F.lit(0).alias(_STORED),
        F.greatest(-weight, F.lit(0)).alias(_SAME),
        F.greatest(weight, F.lit(0)).alias(_GIVEN),
    )
    columns = [quote(each) for each in telling]
    stored = _among(held.select(*columns), sent(given.select(*columns)), telling)
    marked = stored.select(*columns, F.lit(1).alias(_STORED), F.lit(0).alias(_SAME), F.lit(0).alias(_GIVEN))
    sums = [F.sum(each).alias(each) for each in (_STORED, _SAME, _GIVEN)]
    by_key = marked.unionByName(given).groupBy(*columns).agg(*sums)
    seen = _one(
        by_key.agg(
            F.count_if(F.col(_STORED) != F.col(_SAME)).alias("others"),
            F.count_if((F.col(_SAME) > 0) & (F.col(_GIVEN) == 0)).alias("vanishing"),
        )
    )
    if seen["others"]:
        return None
    gone = given.where(F.col(_SAME) > 0).select(*columns).distinct()
    return _Leaving(telling, gone, covered=not seen["vanishing"])


def _met_rows(
    held: DataFrame,
    net: DataFrame,
    telling: Sequence[str],
    volatile: frozenset[str],
    sent: Callable[[DataFrame], DataFrame],
    contents: int,
    name: str,
) -> _Leaving:
    """The rows that leave by their whole content, so many contents; an error where one is not there."""
    met = settle(_met(held, net, telling, volatile, sent))
    is_meant, first = F.col(WEIGHT).isNotNull(), F.col(_NUMBER) == 1
    short = is_meant & first & (F.col(_COPIES) + F.col(WEIGHT) < 0)
    seen = _one(
        met.agg(
            F.count_if(is_meant & first).alias("contents"),
            F.count_if(short).alias("short"),
            F.count_if(~is_meant).alias("strangers"),
            F.count_if(F.col(_GIVEN).isNull()).alias("vanishing"),
        )
    )
    if missing := contents - seen["contents"] + seen["short"]:
        raise not_as_recorded(name, missing)
    stays = met.where(is_meant & (F.col(_NUMBER) <= F.col(_COPIES) + F.col(WEIGHT))).select(*map(quote, held.columns))
    is_told = bool(telling) and not seen["strangers"]
    keys = telling if is_told else [each for each in held.columns if each.lower() not in volatile]
    gone = met.where(is_meant & first).select(*map(quote, keys))
    return _Leaving(keys, gone.distinct() if is_told else gone, stays, is_told and not seen["vanishing"])


@compile_change.register(MaterializedView)
def _(strategy: MaterializedView, change: Change, target: Target) -> Compiled:
    """Only what differs is written, so that views of this one have little to follow; all of it where most differs."""
    if column_types(change.rows.schema) != column_types(target.rows.schema):
        return compile_change.dispatch(Replace)(strategy, change, target)
    rows, held = change.rows, target.rows.select(*map(quote, change.rows.columns))
    signed = rows.withColumn(WEIGHT, F.lit(1)).unionAll(held.withColumn(WEIGHT, F.lit(-1)))
    contents = partial(change_contents, volatile=change.volatile, row_key=strategy.row_key, is_sure=True)
    compiled = contents(target.rows, signed, target.name)
    counts = compiled.counts
    counts = replace(counts, unchanged=change.profile.rows - counts.inserted - counts.updated)
    before = counts.unchanged + counts.updated + counts.deleted
    if strategy.max_shrink is not None:
        refuse_shrink(strategy.max_shrink, before - change.profile.rows, before, target.name)
    notices = EMPTIED if change.profile.rows == 0 and before else ()
    differs = counts.inserted + 2 * counts.updated + counts.deleted > (before + change.profile.rows) * _MOST_DIFFERENT
    operation = OverwriteRows(rows) if differs else compiled.operation
    return Compiled(operation, counts, ALL_COUNTS, notices=notices)


def not_as_recorded(name: str, missing: int) -> StateError:
    rows = "1 row that leaves it is" if missing == 1 else f"{missing:,} rows that leave it are"
    return StateError(
        "state.not_as_recorded",
        f"{name} is not what its record says: {rows} not there.",
        "Somebody else may have changed it. Run it with --full-refresh, which computes it whole. It is unchanged.",
    )


def _same(stored: str, given: str, held: StructType, name: str) -> str:
    kind = held[name].dataType
    return f"{canonical(stored, kind)} <=> {canonical(given, kind)}"


def _among(rows: DataFrame, keys: DataFrame, on: Sequence[str]) -> DataFrame:
    """The rows that have one of these keys. To make these distinct is a shuffle, which Spark filters by `rows`."""
    same = " AND ".join(f"{of(HELD, key)} <=> {of(COMING, key)}" for key in on)
    return rows.alias(HELD).join(keys.alias(COMING), F.expr(same), "left_semi")


def _judged(stored: DataFrame, new: DataFrame, on: Sequence[str], volatile: frozenset[str]) -> DataFrame:
    """Of each key, how many rows are stored and how many are given, and how many of them are the same."""

    def marked(rows: DataFrame, mark: str) -> DataFrame:
        sides = [F.lit(int(side == mark)).alias(side) for side in (_STORED, _GIVEN)]
        compared = comparable(rows, volatile | {key.lower() for key in on})
        return rows.select(*map(quote, on), *compared, *sides)

    both = marked(stored, _STORED).unionByName(marked(new, _GIVEN), allowMissingColumns=True)
    columns = [quote(each) for each in both.columns if each not in {_STORED, _GIVEN}]
    by_row = both.groupBy(*columns).agg(*[F.sum(side).alias(side) for side in (_STORED, _GIVEN)])
    same = F.least(_STORED, _GIVEN)
    return by_row.groupBy(*map(quote, on)).agg(
        F.sum(same).alias(_SAME), F.sum(_STORED).alias(_STORED), F.sum(_GIVEN).alias(_GIVEN)
    )


def _differs() -> Column:
    return (F.col(_SAME) < F.col(_STORED)) | (F.col(_SAME) < F.col(_GIVEN))


def _totals(judged: DataFrame) -> tuple[Counts, int, int, int]:
    """The counts, and how many keys have rows that leave, how many have rows that come, and how many only the first."""
    updated = (F.col(_STORED) == 1) & (F.col(_GIVEN) == 1) & (F.col(_SAME) == 0)
    found = _one(
        judged.agg(
            F.count_if(updated).alias("updated"),
            F.sum(F.when(~updated, F.col(_GIVEN) - F.col(_SAME))).alias("inserted"),
            F.sum(F.when(~updated, F.col(_STORED) - F.col(_SAME))).alias("deleted"),
            F.sum(_SAME).alias("unchanged"),
            F.count_if(_differs() & (F.col(_STORED) > 0)).alias("leaving"),
            F.count_if(_differs() & (F.col(_GIVEN) > 0)).alias("coming"),
            F.count_if((F.col(_STORED) > 0) & (F.col(_GIVEN) == 0)).alias("vanishing"),
        )
    )
    counts = Counts(**{each: found[each] or 0 for each in ("inserted", "updated", "deleted", "unchanged")})
    return counts, found["leaving"], found["coming"], found["vanishing"]


def _net(signed: DataFrame, volatile: frozenset[str]) -> DataFrame:
    """One row of each content, and by how many copies it comes or leaves."""
    rows = signed.drop(WEIGHT)
    marks = _marks(rows, volatile)
    whole = F.struct(*[F.col(quote(each)) for each in rows.columns]).alias(_ROW)
    net = signed.select(*marks.values(), whole, WEIGHT).groupBy(*marks)
    return net.agg(F.first(_ROW).alias(_ROW), F.sum(WEIGHT).alias(WEIGHT)).where(F.col(WEIGHT) != 0)


def _updated(net: DataFrame, row_key: Sequence[str]) -> int:
    """How many keys have one row that leaves, and one that comes."""
    keys = [F.col(of(_ROW, each)).alias(f"k{number}") for number, each in enumerate(row_key)]
    weight = F.col(WEIGHT)
    by_key = net.groupBy(*keys).agg(F.sum(weight).alias("sum"), F.sum(F.abs(weight)).alias("both"))
    return by_key.where("sum = 0 AND both = 2").count()


def _marks(rows: DataFrame, volatile: frozenset[str]) -> dict[str, Column]:
    """What makes the content of a row, under names that no column has."""
    compared = comparable(rows, volatile)
    return {
        f"__tidemill_mark_{number}": each.alias(f"__tidemill_mark_{number}") for number, each in enumerate(compared)
    }


def _met(
    held: DataFrame,
    net: DataFrame,
    telling: Sequence[str],
    volatile: frozenset[str],
    sent: Callable[[DataFrame], DataFrame],
) -> DataFrame:
    """The stored rows of the contents that leave, numbered within each, with how many there are.

    They are found by the columns that are telling. Others that have the same values there as a row that leaves or comes
    are among them, without a WEIGHT. `_GIVEN` is NULL where no row comes with the same values.
    """
    marks = _marks(held, volatile)
    told = net.select(*[F.col(of(_ROW, each)).alias(each) for each in telling], WEIGHT)
    if telling:
        held = _among(held, sent(told.drop(WEIGHT)), telling)
    leaving = sent(net.where(F.col(WEIGHT) < 0)).alias(COMING)
    stored = held.select("*", *marks.values()).alias(HELD)
    same = [F.col(f"{HELD}.{mark}").eqNullSafe(F.col(f"{COMING}.{mark}")) for mark in marks]
    both = stored.join(leaving, reduce(lambda a, b: a & b, same), "left" if telling else "inner")
    met = both.select(f"{HELD}.*", f"{COMING}.{WEIGHT}")
    alike = Window.partitionBy(*marks)
    number = F.row_number().over(alike.orderBy(F.lit(1)))
    met = met.withColumns({_NUMBER: number, _COPIES: F.count(F.lit(1)).over(alike)}).drop(*marks)
    if not telling:
        return met.withColumn(_GIVEN, F.lit(None))
    coming = told.where(F.col(WEIGHT) > 0).drop(WEIGHT).distinct().withColumn(_GIVEN, F.lit(1))
    same = [F.col(of(HELD, each)).eqNullSafe(F.col(of(COMING, each))) for each in telling]
    both = met.alias(HELD).join(sent(coming).alias(COMING), reduce(lambda a, b: a & b, same), "left")
    return both.select(f"{HELD}.*", f"{COMING}.{_GIVEN}")


def _sent(rows: DataFrame, *, few: bool) -> DataFrame:
    """Rows that are sent to every worker where they are few."""
    return F.broadcast(rows) if few else rows


def _repeated(net: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Each row as often as its weight says."""
    copies = F.explode(F.array_repeat(F.col(_ROW), F.col(WEIGHT).cast("int"))).alias(_ROW)
    return net.select(copies).select(*[F.col(of(_ROW, each)).alias(each) for each in columns])


def _kinds(held: StructType, volatile: frozenset[str]) -> list[Ranged]:
    """The columns that have an order and exact values."""
    kinds = [(field.name, kind_of(field.dataType)) for field in held.fields if field.name.lower() not in volatile]
    return [Ranged(name, kind) for name, kind in kinds if kind]


def _weighed(net: DataFrame, kinds: Sequence[Ranged]) -> Row:
    """How many rows come and leave, how many contents leave; of these, how many values a column has, between which."""
    leaves = F.col(WEIGHT) < 0
    leaving = [F.when(leaves, F.col(of(_ROW, item.column))).alias(item.column) for item in kinds]
    nulls = [F.count_if(leaves & F.col(quote(item.column)).isNull()).alias(f"nulls {item.column}") for item in kinds]
    values = [F.approx_count_distinct(quote(item.column)).alias(f"values {item.column}") for item in kinds]
    others = [F.bit_xor(F.xxhash64(of(_ROW, item.column))).alias(f"others {item.column}") for item in kinds]
    return _one(
        net.select(WEIGHT, _ROW, *leaving).agg(
            F.sum(F.when(~leaves, F.col(WEIGHT))).alias("coming"),
            F.sum(F.when(leaves, -F.col(WEIGHT))).alias("leaving"),
            F.count_if(leaves).alias("contents"),
            *nulls,
            *values,
            *others,
            *[part for item in kinds if _is_short(item) for part in range_columns(item)],
        )
    )


def _is_short(item: Ranged) -> bool:
    """Texts may be long."""
    return item.kind is not CursorKind.STRING


def _telling(found: Row, kinds: Sequence[Ranged]) -> list[str]:
    """The few columns that have the most values among the contents that leave; of equals, short ones and first ones.

    Those come before all others that have many, and the same ones among the contents that come.
    """
    values = {item.column: found[f"values {item.column}"] for item in kinds}
    many = max(values.values(), default=0) * _MANY
    ranked = sorted(kinds, key=lambda item: (-values[item.column], not _is_short(item)))
    kept = [item for item in ranked if values[item.column] >= many and not found[f"others {item.column}"]]
    return [item.column for item in (kept or ranked)[:_MOST_TELLING] if values[item.column]]


def _ranges(found: Row, kinds: Sequence[Ranged], telling: Sequence[str]) -> list[KeyRange]:
    """Between which values the contents that leave lie: of the telling columns, and of the first ones."""
    whole = [item for item in kinds if _is_short(item) and not found[f"nulls {item.column}"]]
    ranked = sorted(whole, key=lambda item: item.column not in telling)
    return [span for item in ranked[:_MOST_RANGED] if (span := range_of(found, item))]


def _one(totals: DataFrame) -> Row:
    found = totals.first()
    assert found is not None  # noqa: S101  a global aggregate has one row
    return found
