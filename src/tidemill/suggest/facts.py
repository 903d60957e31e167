"""What a sample of a source says of its columns; whatever goes wrong there is what is said of it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as t

from tidemill.changes.profile import kind_of
from tidemill.errors import TidemillError
from tidemill.model import quote
from tidemill.model.cursor import CursorKind
from tidemill.sources import Reading
from tidemill.sources.kinds import is_of_files
from tidemill.sources.registry import connector_for
from tidemill.spark.errors import as_tidemill
from tidemill.spark.session import settle
from tidemill.suggest.advice import Suggestion, Verdict, like_a_key, suggestion

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from tidemill.model.source import Source
    from tidemill.model.table import Table
    from tidemill.sources import Connector

LIMIT = 100_000
_PAIRED = 5
_COUNTED = 20  # counting distinct values of a column costs a copy of the sample
_FILE, _PLACE = "__tidemill_file", "__tidemill_place"
_KEYS = (CursorKind.INTEGER, CursorKind.STRING, CursorKind.DECIMAL, CursorKind.DATE)
_ORDERED = (CursorKind.DATE, CursorKind.TIMESTAMP, CursorKind.TIMESTAMP_NTZ, CursorKind.INTEGER)


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """One column over the sample. `back` counts the rows whose value is below that of the row read before them,
    `future` the values later than tomorrow, `recent` the rows within a day of the highest value.
    """

    name: str
    kind: CursorKind | None
    nulls: int = 0
    distinct: int = 0
    back: int = 0
    future: int = 0
    recent: int = 0


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """The columns over the first `rows` rows; `whole` where there are no more. `pairs` has distinct values of two."""

    rows: int
    whole: bool
    columns: tuple[ColumnFacts, ...]
    pairs: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def column(self, name: str) -> ColumnFacts | None:
        return next((each for each in self.columns if each.name.lower() == name.lower()), None)


def facts_of(spark: SparkSession, source: Source, connector: Connector, limit: int = LIMIT) -> SourceFacts:
    """Reads at most `limit` rows of the source, and asks them everything in one pass."""
    rows = connector.read(Reading(spark))
    # Only within a file is the order of reading that of the rows.
    file = F.input_file_name() if is_of_files(source.kind) else F.lit("")
    placed = rows.select("*", file.alias(_FILE), F.monotonically_increasing_id().alias(_PLACE))
    sample = settle(placed.limit(limit))
    fields = [each for each in rows.schema.fields if kind_of(each.dataType)]
    return _asked(sample, rows.schema.fields, fields, source.primary_key, limit)


def _asked(
    sample: DataFrame,
    fields: Sequence[t.StructField],
    simple: Sequence[t.StructField],
    primary: Sequence[str],
    limit: int,
) -> SourceFacts:
    ordered = [each for each in simple if kind_of(each.dataType) in _ORDERED]
    keys = _promising([each for each in simple if kind_of(each.dataType) in _KEYS], primary)
    pairs = list(itertools.combinations([each.name for each in keys[:_PAIRED]], 2))
    tops = sample.agg(*[F.max(quote(each.name)).alias(f"top{n}") for n, each in enumerate(ordered)] or [F.lit(1)])
    before = Window.partitionBy(_FILE).orderBy(_PLACE)
    steps = sample.select(
        "*",
        *[(F.col(quote(f.name)) < F.lag(quote(f.name)).over(before)).alias(f"back{n}") for n, f in enumerate(ordered)],
    ).crossJoin(F.broadcast(tops))
    asked: dict[str, Column] = {"rows": F.count(F.lit(1))}
    asked |= {f"nulls {f.name}": F.count_if(F.col(quote(f.name)).isNull()) for f in fields}
    asked |= {f"distinct {f.name}": F.count_distinct(quote(f.name)) for f in {*keys, *ordered}}
    asked |= {f"pair {a},{b}": F.count_distinct(quote(a), quote(b)) for a, b in pairs}
    for n, each in enumerate(ordered):
        asked |= _order_of(each, n)
    found = steps.agg(*[column.alias(name) for name, column in asked.items()]).first()
    assert found is not None  # noqa: S101  a global aggregate has one row
    data: dict[str, Any] = found.asDict()
    return SourceFacts(
        rows=data["rows"],
        whole=data["rows"] < limit,
        columns=tuple(_column(each, data) for each in fields),
        pairs={(a, b): data[f"pair {a},{b}"] for a, b in pairs},
    )


def _order_of(field: t.StructField, number: int) -> dict[str, Column]:
    asked = {f"back {field.name}": F.count_if(F.col(f"back{number}"))}
    if kind_of(field.dataType) is not CursorKind.INTEGER:
        value, day = F.col(quote(field.name)), F.expr("INTERVAL 1 DAY")
        asked[f"future {field.name}"] = F.count_if(value > F.current_timestamp() + day)
        asked[f"recent {field.name}"] = F.count_if(value >= F.col(f"top{number}") - day)
    return asked


def _column(field: t.StructField, data: Mapping[str, Any]) -> ColumnFacts:
    asked = {name: data.get(f"{name} {field.name}", 0) for name in ("nulls", "distinct", "back", "future", "recent")}
    return ColumnFacts(field.name, kind_of(field.dataType), **asked)


def _promising(keys: Sequence[t.StructField], primary: Sequence[str]) -> list[t.StructField]:
    """The columns that may be keys: what is declared as one, what looks like one, then some of the rest."""
    declared = {name.lower() for name in primary}
    ranked = sorted(keys, key=lambda each: (each.name.lower() not in declared, not like_a_key(each.name)))
    return ranked[:_COUNTED]


def look_at(
    spark: SparkSession, source: Source, tables: Sequence[Table], short: Callable[[str], str] = str, limit: int = LIMIT
) -> Suggestion:
    """What is proposed for a source and the tables that load it, by its first `limit` rows."""
    try:
        return suggestion(source, tables, facts_of(spark, source, connector_for(source), limit), short)
    except TidemillError as failure:
        return _failed(source, failure)
    except Exception as failure:  # noqa: BLE001  Spark raises many kinds; each is this source's own
        return _failed(source, as_tidemill(failure, doing=f"Looking at {source}"))


def _failed(source: Source, failure: TidemillError) -> Suggestion:
    return Suggestion(source.name, source.kind.upper(), Verdict.FAILED, error=failure)
