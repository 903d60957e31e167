"""Looks at one source; whatever goes wrong there is what is said of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.engine.translate import as_tidemill
from tidemill.errors import TidemillError
from tidemill.sources.registry import connector_for
from tidemill.suggest.facts import LIMIT, facts_of
from tidemill.suggest.source import Suggestion, Verdict, suggestion

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from tidemill.declare.sources import Source
    from tidemill.declare.tables import Table


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
