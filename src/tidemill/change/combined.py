"""Rows of several sources as one change: appended together, or one row per key out of all of them."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from tidemill.change.compare import rows_not_in
from tidemill.change.keys import descending, held_twice, shown_keys, without_copies
from tidemill.declare.names import quote
from tidemill.errors import MergeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

_SOURCE, _RANK = "__tidemill_source", "__tidemill_rank"


def in_one(frames: Sequence[DataFrame]) -> DataFrame:
    """The rows of all of them, with NULL in columns that a frame lacks."""
    return reduce(lambda all_rows, rows: all_rows.unionByName(rows, allowMissingColumns=True), frames)


def newest_of_all(frames: Sequence[DataFrame], keys: Sequence[str], cursor: str) -> DataFrame:
    """One row per key: that with the highest cursor; of several that tie, that of the last frame.

    Each frame has a key once.
    """
    rows = in_one([frame.withColumn(_SOURCE, F.lit(number)) for number, frame in enumerate(frames)])
    order = [*descending(rows, [cursor]), F.col(_SOURCE).desc()]
    rank = F.row_number().over(Window.partitionBy(*map(quote, keys)).orderBy(*order))
    return rows.withColumn(_RANK, rank).where(F.col(_RANK) == 1).drop(_RANK, _SOURCE)


def apart(frames: Sequence[DataFrame], volatile: frozenset[str]) -> DataFrame:
    """The rows of all of them, those that are the same in two frames once. Keys may come twice."""
    return without_copies(in_one(frames), volatile)


def not_as_stored(rows: DataFrame, held: DataFrame, keys: Sequence[str], volatile: frozenset[str]) -> DataFrame:
    """The keys that the table holds, and not with the same row."""
    stored = held.select(*[quote(name) for name in rows.columns if name in held.columns])
    known = rows.select(*map(quote, stored.columns))
    names = [quote(key) for key in keys]
    differing = rows_not_in(known, stored, volatile).select(*names).distinct()
    return differing.join(held.select(*names), [*keys], "left_semi")


def from_two_sources(rows: DataFrame, keys: Sequence[str], name: str, sources: Sequence[str]) -> MergeError:
    """The error for keys that come with different rows from several sources, one row of `rows` for each."""
    twice = held_twice(rows, keys)
    return met_in(twice, keys, name, sources)


def met_in(twice: DataFrame, keys: Sequence[str], name: str, sources: Sequence[str]) -> MergeError:
    """The same for keys that are known to come from several of these sources."""
    count = twice.count()
    word = "1 key comes" if count == 1 else f"{count:,} keys come"
    return MergeError(
        "load.key_from_two_sources",
        f"{word} into {name} from more than one source ({', '.join(sources)}): {shown_keys(twice, keys)}.",
        "Nothing says which row counts. Read these sources by the same cursor column (INCREMENTAL BY), so that the "
        f"newest row does, or make their keys distinct. {name} is unchanged.",
    )
