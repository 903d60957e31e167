"""Keys that can be trusted: none NULL, none twice; and one row per key where the user says which."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from tidemill.change.compare import canonical
from tidemill.declare.names import quote
from tidemill.errors import MergeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

SHOWN = 5
_RANK = "__tidemill_rank"


def null_keys(count: int, keys: Sequence[str], name: str) -> MergeError:
    return MergeError(
        "merge.null_keys",
        f"{_rows(count)} no {' or no '.join(keys)}; keys cannot be NULL.",
        f"Leave such rows out, or choose other keys. {name} is unchanged.",
    )


def duplicate_keys(rows: DataFrame, keys: Sequence[str], name: str) -> MergeError:
    """The error for a change that has different rows of one key; it shows some of the keys."""
    twice = _repeated(rows, keys)
    count, shown = twice.count(), shown_keys(twice, keys)
    return MergeError(
        "merge.duplicate_keys",
        f"{_keys(count)} of {name} {'comes' if count == 1 else 'come'} more than once in this change: {shown}.",
        f"Keep one row per key with dedup_order_by, or make the source unique on ({', '.join(keys)}). "
        f"{name} is unchanged.",
    )


def held_twice(held: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The keys that occur more than once, one row each."""
    return _repeated(held, keys)


def target_duplicates(twice: DataFrame, count: int, keys: Sequence[str], name: str) -> MergeError:
    return MergeError(
        "merge.target_duplicates",
        f"{name} holds {_keys(count)} of this change more than once: {shown_keys(twice, keys)}.",
        f"Use the strategy deduplicate, which leaves one row of each, or other keys. {name} is unchanged.",
    )


def one_per_key(rows: DataFrame, keys: Sequence[str], order_by: Sequence[str]) -> DataFrame:
    """One row of each key: the highest by `order_by`, NULLs last, ties broken by all columns, always the same way."""
    order = [*descending(rows, order_by), *descending(rows, rows.columns)]
    window = Window.partitionBy(*map(quote, keys)).orderBy(*order)
    ranked = rows.withColumn(_RANK, F.row_number().over(window))
    return ranked.where(F.col(_RANK) == 1).drop(_RANK)


def newest_versions(rows: DataFrame, keys: Sequence[str], by: str) -> DataFrame:
    """Of each key the rows with the highest `by`; several that tie stay."""
    window = Window.partitionBy(*map(quote, keys)).orderBy(*descending(rows, [by]))
    return rows.withColumn(_RANK, F.rank().over(window)).where(F.col(_RANK) == 1).drop(_RANK)


def without_copies(rows: DataFrame, volatile: frozenset[str]) -> DataFrame:
    """Rows that are equal in every column count once."""
    compared = [
        canonical(F.col(quote(field.name)), field.dataType)
        for field in rows.schema.fields
        if field.name.lower() not in volatile
    ]
    window = Window.partitionBy(*compared).orderBy(*(descending(rows, [*volatile]) or [F.lit(1)]))
    ranked = rows.withColumn(_RANK, F.row_number().over(window))
    return ranked.where(F.col(_RANK) == 1).drop(_RANK)


def descending(rows: DataFrame, columns: Sequence[str]) -> list[Column]:
    """An order by these columns, highest first and NULLs last."""
    kinds = {field.name.lower(): field for field in rows.schema.fields}
    return [
        canonical(F.col(quote(kinds[name.lower()].name)), kinds[name.lower()].dataType).desc_nulls_last()
        for name in columns
        if name.lower() in kinds
    ]


def _repeated(rows: DataFrame, keys: Sequence[str]) -> DataFrame:
    names = [quote(key) for key in keys]
    return rows.groupBy(*names).agg(F.count(F.lit(1)).alias(_RANK)).where(F.col(_RANK) > 1).select(*names)


def shown_keys(keys_only: DataFrame, keys: Sequence[str]) -> str:
    """Some of the keys, as people read them."""
    some = keys_only.orderBy(*map(quote, keys)).limit(SHOWN + 1).collect()
    texts = [_tuple([row[key] for key in keys]) for row in some[:SHOWN]]
    return ", ".join(texts) + (", …" if len(some) > SHOWN else "")


def _tuple(values: Sequence[object]) -> str:
    texts = [repr(value) if isinstance(value, str) else str(value) for value in values]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def _rows(count: int) -> str:
    return "1 row has" if count == 1 else f"{count:,} rows have"


def _keys(count: int) -> str:
    return "1 key" if count == 1 else f"{count:,} keys"
