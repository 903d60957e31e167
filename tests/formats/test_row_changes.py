"""The rows that came and went between two versions of a table add up to the difference of the versions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidemill.formats.delta.store import DeltaStore
from tidemill.formats.row_changes import WEIGHT, RowsBy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

MARKS = "'delta.enableDeletionVectors' = 'true'"
NO_MARKS = "'delta.enableDeletionVectors' = 'false'"
FED = "'delta.enableChangeDataFeed' = 'true'"
MAPPED = "'delta.columnMapping.mode' = 'name'"


@dataclass
class Watched:
    """A table whose versions are read as they come, so that each range of them can be compared."""

    spark: SparkSession
    path: Path
    columns: tuple[str, ...] = ("id", "part", "v")
    versions: dict[int, list[dict[str, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.store = DeltaStore(str(self.path))

    def make(self, properties: str, *, partitioned: bool = False) -> Watched:
        by = "PARTITIONED BY (`part`)" if partitioned else ""
        self.sql(
            f"CREATE TABLE {{t}} (id BIGINT, `part` STRING, v STRING) USING delta {by} TBLPROPERTIES ({properties})"
        )
        return self

    def sql(self, statement: str) -> None:
        self.spark.sql(statement.replace("{t}", f"delta.`{self.path}`")).collect()

    @property
    def version(self) -> int:
        return self.store.log.version()

    def rows(self, version: int, columns: Sequence[str]) -> Counter[Any]:
        """The bag of a version's rows; NULL in columns that it does not have."""
        if version not in self.versions:
            self.versions[version] = [row.asDict() for row in self.store.read(self.spark, version).collect()]
        return Counter(tuple(row.get(name) for name in columns) for row in self.versions[version])

    def changed(self, since: int, until: int, columns: Sequence[str] | None = None) -> Counter[Any]:
        wanted = columns or self.columns
        found: Counter[Any] = Counter()
        rows = self.store.row_changes(self.spark, since, until, wanted)
        assert rows.columns == [*wanted, WEIGHT]
        for *values, weight in rows.collect():
            found[tuple(values)] += weight
        return Counter({row: count for row, count in found.items() if count})

    def check(self, since: int, until: int | None = None) -> None:
        last = self.version if until is None else until
        expected = self.rows(last, self.columns)
        expected.subtract(self.rows(since, self.columns))
        assert self.changed(since, last) == {row: count for row, count in expected.items() if count}
        self.check_bounds(since, last, expected)

    def check_bounds(self, since: int, until: int, expected: Counter[Any]) -> None:
        """An overwrite says how many files it removes, and not always how many rows."""
        told = self.store.log.changes_since(since, until)
        came, went = (sum(max(sign * count, 0) for count in expected.values()) for sign in (1, -1))
        assert told.added is None or told.added >= came
        assert told.removed is None or told.removed >= went


HISTORY = [
    "INSERT INTO {t} SELECT id, IF(id % 2 = 0, 'x y', 'z%20/b=ä'), IF(id % 5 = 0, NULL, 'a') FROM range(20)",
    "INSERT INTO {t} SELECT id % 3, NULL, 'twice' FROM range(9)",
    "DELETE FROM {t} WHERE id IN (3, 4)",
    "DELETE FROM {t} WHERE id = 7",
    "UPDATE {t} SET v = 'u' WHERE id % 4 = 0",
    "OPTIMIZE {t}",
    "DELETE FROM {t} WHERE id = 12",
    """MERGE INTO {t} t USING (SELECT id FROM range(15, 25)) s ON t.id = s.id
        WHEN MATCHED AND s.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET `part` = 'moved', v = 'm'
        WHEN NOT MATCHED THEN INSERT (id, `part`, v) VALUES (s.id, 'x y', 'n')""",
    "RESTORE TABLE {t} TO VERSION AS OF 4",
    "DELETE FROM {t} WHERE id = 8",
    "INSERT INTO {t} REPLACE WHERE id < 5 SELECT id, 'x y', 'r' FROM range(4)",
    "INSERT OVERWRITE {t} SELECT id, 'whole', 'o' FROM range(6)",
    "DELETE FROM {t} WHERE `part` = 'whole'",
]
TABLES = {
    "plain": (NO_MARKS, False),
    "marked, mapped and partitioned": (f"{MARKS}, {MAPPED}", True),
    "fed": (f"{NO_MARKS}, {FED}", False),
    "fed, marked and partitioned": (f"{MARKS}, {FED}", True),
}


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Iterator[Watched]:
    found = Watched(spark, tmp_path / "a table, 5%")
    yield found
    found.store.close()


@pytest.mark.parametrize("kind", TABLES)
def test_row_changes_add_up_to_the_difference_of_any_two_versions(table: Watched, kind: str) -> None:
    properties, partitioned = TABLES[kind]
    table.make(properties, partitioned=partitioned)
    by = RowsBy.FEED if "fed" in kind else RowsBy.FILES
    for statement in HISTORY:
        before = table.version
        table.sql(statement)
        table.check(before)
        assert table.store.log.changes_since(before).how is by
    last = table.version
    for since, until in ((1, last), (1, last - 1), (3, 10), (2, 9)):
        table.check(since, until)
