"""What a connector is: the few methods by which rows of one kind of source are read.

To add a kind, write a class with these methods, a factory that makes one from a `Source`, and an entry point:

    [project.entry-points."tidemill.sources"]
    salesforce = "my_package:SalesforceConnector"

`SOURCE accounts TYPE SALESFORCE PARAMS {…}` then reads by it. A connector may raise whatever it likes: the error
reaches the user as a `ConnectorError` that names the source and shows none of its secrets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from tidemill.declare.cursors import Cursor


@dataclass(frozen=True, slots=True)
class Reading:
    """What a connector may use while it reads.

    `like` has the types of the table that the rows are for, where it is there: text and JSON take them, so that
    types do not drift from run to run. Rows at or above `until` of the cursor are not wanted: a source that can leave
    them out saves work, the caller filters in any case. `run` is what a table function gets; only functions look at it.
    """

    spark: SparkSession
    like: StructType | None = None
    run: Any = None
    until: Cursor | None = None


class Connector(Protocol):
    """Reads one source. Making one starts no Spark and asks nobody; wrong params are an `ArgumentError` there."""

    def schema(self, reading: Reading) -> StructType:
        """The columns and their types, without reading rows where that is possible."""

    def read(self, reading: Reading, columns: Sequence[str] = ()) -> DataFrame:
        """All rows, lazily where possible; only these columns, if any are named."""

    def read_since(self, reading: Reading, column: str, value: Cursor, columns: Sequence[str] = ()) -> DataFrame:
        """At least the rows whose `column` is at or above `value`, and those where it is NULL.

        It may give more: the caller filters. `columns`, if any are named, hold `column`.
        """

    def version(self) -> str | None:
        """A text that differs whenever the rows may; None where that cannot be known. Asked without Spark."""

    @property
    def settled(self) -> bool:
        """Whether reading the frame twice gives the same rows, and costs less than keeping them would."""


@runtime_checkable
class OfFiles(Protocol):
    """What a connector may tell besides."""

    @property
    def is_plain(self) -> bool:
        """Whether its rows are those of Parquet files, all of them and as they are."""


@runtime_checkable
class Measured(Protocol):
    """What a connector may tell besides."""

    def bytes_read(self, start: Cursor | None) -> int | None:
        """The size of the files that hold what is read from `start` on; None where it is not known."""
