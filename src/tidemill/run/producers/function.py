"""A function as the source of a table: it is called for some dates, and may read tables by their names."""

from __future__ import annotations

import inspect
import tempfile
import traceback
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemill.errors import ArgumentError, SourceError, TidemillError, did_you_mean
from tidemill.sources.failures import said

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from tidemill.declare.cursors import Cursor
    from tidemill.declare.functions import Function
    from tidemill.declare.tables import Table
    from tidemill.run.catalog import Catalog
    from tidemill.sources.protocol import Reading
    from tidemill.sources.run import Run

_LENT = "__tidemill_lent_spark__"


@dataclass(frozen=True)
class FunctionRows:
    """What the function of a table gives, read again at each call; its rows are kept. `vars` are what the run has."""

    table: Table
    function: Function
    catalog: Catalog
    vars: Mapping[str, str] = field(default_factory=dict)
    settled: bool = True

    def __str__(self) -> str:
        return f"the function {self.function.call.__name__}"

    def schema(self, reading: Reading) -> StructType:
        """Calls the function, unless its columns are declared."""
        declared = self._declared(reading.spark)
        return self.read(reading).schema if declared is None else declared

    def read(self, reading: Reading, columns: Sequence[str] = ()) -> DataFrame:
        from tidemill.run.producers.given import rows_given  # noqa: PLC0415  needs Spark

        session = self.catalog.session(reading.spark, [*self.table.inputs, self.table.name])
        declared = self._declared(session)
        own = replace(reading, spark=session, like=declared or reading.like)
        run = self._run(reading.run, session)
        with tempfile.TemporaryDirectory(prefix="tidemill-function-") as folder:
            rows = rows_given(
                self._given(run),
                own,
                Path(folder),
                teller=str(self),
                schema=declared,
                policy=self.table.schema_policy,
            )
        return rows.select(*columns) if columns else rows

    def read_since(self, reading: Reading, column: str, value: Cursor, columns: Sequence[str] = ()) -> DataFrame:  # noqa: ARG002
        """All that it gives: the function has the dates of its run to go by."""
        return self.read(reading, columns)

    def version(self) -> str | None:
        """Nobody knows what it would give."""
        return None

    def _declared(self, spark: SparkSession) -> StructType | None:
        ddl = self.function.schema
        if ddl is None:
            return None
        try:
            return spark.createDataFrame([], ddl).schema
        except Exception as bad:
            raise ArgumentError(
                "functions.bad_schema", f"Spark does not know the schema {ddl!r}: {said(bad)}", "Correct its types."
            ) from bad

    def _run(self, run: Run, session: SparkSession) -> Run:
        return replace(run, vars=self.vars, session=lambda: session, table=lambda name: self._input(name, session))

    def _input(self, name: str, session: SparkSession) -> DataFrame:
        key, own = self.catalog.naming.key(name), self.table.name.lower()
        if key not in {each.lower() for each in (*self.table.inputs, own)}:
            close = did_you_mean(key, self.table.inputs)
            raise ArgumentError(
                "functions.undeclared_read",
                f"{self.table.name} reads {name}, which is not in its reads.",
                f"Did you mean {close}?" if close else f'Add it to the decorator: reads=["{name}"].',
                origin=self.table.origin,
            )
        return self.catalog.frame(session, key)

    def _given(self, run: Run) -> Iterator[Any]:
        """What the function gives; whatever it raises names it, and the table is as it was."""
        from tidemill.sources.functions import called  # noqa: PLC0415  with pyarrow

        _lend(self.function.call, run.spark)
        try:
            yield from called(self.function.call, run)
        except TidemillError:
            raise
        except Exception as failure:
            name, where = self.function.call.__name__, _line(failure, self.function.call)
            raise SourceError(
                "functions.failed",
                f"The function {name} of {self.table.name} failed: {said(failure)}{where}",
                f"Fix it, or what it asks, and run again. {self.table.name} is unchanged.",
                origin=self.table.origin,
            ) from failure


def _lend(call: Callable[..., Any], spark: SparkSession) -> None:
    """Code that comes from a notebook finds `spark` where it looks for it, unless its file has one."""
    names = inspect.unwrap(call).__globals__
    if "spark" not in names or _LENT in names:
        names.update({"spark": spark, _LENT: True})


def _line(failure: Exception, call: Callable[..., Any]) -> str:
    """The last line of the function's own file that had a part in it."""
    file = inspect.unwrap(call).__code__.co_filename
    lines = [frame.lineno for frame in traceback.extract_tb(failure.__traceback__) if frame.filename == file]
    return f" ({file}:{lines[-1]})" if lines else ""
