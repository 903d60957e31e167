"""What a function gives, as one frame: Spark, Arrow or pandas frames, and lists of dicts, one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidemill.errors import SchemaError, SourceError
from tidemill.run.producers.typed import Typed
from tidemill.sources.batches import Batches
from tidemill.sources.frames import as_arrow, is_spark_frame
from tidemill.sources.kept import kept

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidemill.declare.tables import SchemaPolicy
    from tidemill.sources.protocol import Reading


def rows_given(
    given: Iterable[Any],
    reading: Reading,
    folder: Path,
    *,
    teller: str,
    schema: StructType | None,
    policy: SchemaPolicy,
) -> DataFrame:
    """All that is given, computed and kept. `schema` is the declared one; `teller` is who gives, for errors.

    Nothing given has the columns of the schema, or of the table; where there is neither, it is an error.
    """
    batches = Batches(reading, folder)
    typed = Typed(schema, policy, teller) if schema is not None else None
    for each in given:
        _add(batches, each, typed, teller)
    rows = batches.rows()
    if rows is None:
        raise SchemaError(
            "functions.no_columns",
            f"{_begins(teller)} gave no rows, and there is no table yet, so nobody knows its columns.",
            'Declare them: schema="id BIGINT, day DATE", or give a frame that has columns.',
        )
    return rows if batches.few else kept(rows)


def _add(batches: Batches, given: Any, typed: Typed | None, teller: str) -> None:
    if given is None:
        return
    if is_spark_frame(given):
        batches.add_frame(typed.frame(given) if typed else given)
    elif isinstance(given, list | tuple) and all(isinstance(each, Mapping) for each in given):
        records = [dict(each) for each in given]
        _add_records(batches, records, typed)
    elif (table := _arrow(given, typed)) is not None:
        batches.add_table(typed.table(table) if typed else table)
    elif hasattr(given, "to_dict"):
        _add_records(batches, given.astype(object).where(given.notna(), None).to_dict("records"), typed)
    else:
        raise SourceError(
            "functions.unknown_rows",
            f"{_begins(teller)} gave a {type(given).__name__}.",
            "Return or yield Spark, Arrow or pandas frames, or lists of dicts. The table is unchanged.",
        )


def _begins(teller: str) -> str:
    """As a sentence begins."""
    return teller[:1].upper() + teller[1:]


def _add_records(batches: Batches, records: list[dict[str, Any]], typed: Typed | None) -> None:
    if typed and records:
        batches.add_table(typed.records(records))
    elif records:
        batches.add_records(records)


def _arrow(given: Any, typed: Typed | None) -> pa.Table | None:
    """The frame as Arrow; None where it is none, or where its values are of several kinds and a schema may help."""
    try:
        return as_arrow(given)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        if typed is None:
            raise
        return None
