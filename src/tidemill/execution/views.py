"""Views by their names, in the catalog of a Spark session, and the step that looks at one."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError, SourceError, TidemillError
from tidemill.execution import UP_TO_DATE, StepKind, StepResult
from tidemill.formats.registry import keep_view, store_at, view_record
from tidemill.model import quoted_name, quoted_text
from tidemill.model.record import Record
from tidemill.spark.errors import one_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from pyspark.sql import SparkSession

    from tidemill.execution.catalog import Catalog
    from tidemill.model.query import View

OURS = "a view of a Tidemill run"  # how one that a killed run has left is known


def run_view(spark: Callable[[], SparkSession], view: View, catalog: Catalog, now: datetime) -> StepResult:
    """Sees that Spark can analyse the view's query and that its checks hold, and keeps its record.

    Asks for Spark if something changed. What reads it needs no such step: the catalog makes the view for whoever asks.
    """
    from tidemill.execution.checks import check_view, warnings  # noqa: PLC0415  plan imports this module, and no Spark

    began = time.monotonic()
    if idle := view_up_to_date(view, catalog):
        return idle
    before, versions = view_record(view.path), _versions(view, catalog)
    rows = catalog.session(spark(), [view.name]).table(quoted_name(view.name))
    checks, columns = check_view(view, rows), tuple(rows.columns)
    known = {name: version for name, version in versions.items() if version is not None}
    said = (*_declared(before), before.columns, before.input_versions) if before else None
    if said != (view.sql_hash, view.config_hash, columns, known):
        keep_view(view.path, _record(view, columns, known, before, now))
    return StepResult(
        view.name,
        _status(view, columns, before),
        view.strategy,
        seconds=time.monotonic() - began,
        first_run=before is None,
        notices=warnings(checks),
        checks=checks,
        kind=StepKind.VIEW,
        columns=columns,
    )


def view_up_to_date(view: View, catalog: Catalog) -> StepResult | None:
    """The result of a view whose query, checks and inputs are known to be what they were, without Spark."""
    record = view_record(view.path)
    if record is None or _declared(record) != (view.sql_hash, view.config_hash):
        return None
    if record.input_versions != _versions(view, catalog):
        return None
    return StepResult(view.name, UP_TO_DATE, view.strategy, kind=StepKind.VIEW, columns=record.columns)


def make_view(spark: SparkSession, view: View, text: str) -> None:
    """Gives the view its name in the catalog. `text` is its query, and what that reads is there.

    A query that is wrong is an error at its line.
    """
    name = quoted_name(view.name)
    try:
        _make_room(spark, name, view)
        spark.sql(f"CREATE OR REPLACE VIEW {name} COMMENT {quoted_text(OURS)} AS\n{text}")
    except TidemillError:
        raise
    except Exception as failure:  # of many classes, which cannot be named here: plan imports this module, and no Spark
        raise SourceError(
            "view.bad_query",
            f"The query of the view {view.name} cannot be analysed: {one_line(failure)}",
            "Fix it, or what it reads, and run again.",
            origin=view.origin,
        ) from failure


def drop_view(spark: SparkSession, name: str) -> None:
    """Takes the name of a view of ours away; a table or a view of others' stays."""
    if spark.catalog.tableExists(quoted_name(name)) and _is_ours(spark, quoted_name(name)):
        spark.sql(f"DROP VIEW {quoted_name(name)}")


def _make_room(spark: SparkSession, name: str, view: View) -> None:
    """What an earlier run has left goes; what is the user's own stays, and is an error."""
    if not spark.catalog.tableExists(name) or _is_ours(spark, name):
        return
    if not store_at(view.path).is_named(spark, name):
        raise ArgumentError(
            "view.name_taken",
            f"The Spark session has a table or view {view.name} of its own, which is not the view declared.",
            "Give one of them another name.",
            origin=view.origin,
        )
    spark.sql(f"DROP TABLE {name}")


def _is_ours(spark: SparkSession, name: str) -> bool:
    return spark.catalog.getTable(name).description == OURS


def _declared(record: Record) -> tuple[str | None, str | None]:
    return record.sql_hash, record.config_hash


def _versions(view: View, catalog: Catalog) -> dict[str, str | None]:
    return {name: catalog.version(name) for name in view.inputs}


def _status(view: View, columns: tuple[str, ...], before: Record | None) -> str:
    if before is None:
        return "created"
    return "unchanged" if (before.sql_hash, before.columns) == (view.sql_hash, columns) else "changed"


def _record(
    view: View, columns: tuple[str, ...], versions: dict[str, str], before: Record | None, now: datetime
) -> Record:
    return Record(
        run_id=uuid.uuid4().hex,
        table=view.name,
        sequence=(before.sequence if before else 0) + 1,
        strategy=view.strategy,
        at=now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        sql_hash=view.sql_hash,
        config_hash=view.config_hash,
        input_versions=versions,
        columns=columns,
    )
