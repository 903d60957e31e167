"""The rows that came and went between two versions of a table add up to the difference of the versions."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest

from tidemill.errors import TableError
from tidemill.formats.delta.kept import first_removal
from tidemill.formats.delta.store import DeltaStore
from tidemill.formats.port import WEIGHT, RowsBy
from tidemill.model import local_path
from tidemill.model.record import content_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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
    check_removals(table)


def check_removals(table: Watched) -> None:
    """What the log says of files that a vacuum may take is what a vacuum takes; a restore may bring some again."""
    copy = table.path.with_name("vacuumed")
    shutil.copytree(table.path, copy)
    vacuumed = DeltaStore(str(copy))
    vacuumed.vacuum(table.spark, 0)
    needed = {
        since: first_removal(vacuumed.log, since, datetime.now(UTC)) is not None for since in range(table.version + 1)
    }
    gone = {since: vacuumed.log.changes_since(since).gone for since in needed}
    assert [since for since in needed if gone[since] and not needed[since]] == []
    restored = next(commit.version for commit in table.store.log.commits() if commit.operation == "RESTORE")
    assert {since: needed[since] for since in needed if since >= restored} == {
        since: gone[since] for since in gone if since >= restored
    }
    assert len(set(gone.values())) == 2


def delta_rs(path: Path) -> deltalake.DeltaTable:
    return deltalake.DeltaTable(str(path))


RUST_HISTORY: list[Callable[[Path], object]] = [
    lambda path: deltalake.write_deltalake(path, some(range(6)), mode="append", partition_by=["part"]),
    lambda path: delta_rs(path).delete("id = 3"),
    lambda path: delta_rs(path).update(updates={"v": "'u'"}, predicate="id < 2"),
    lambda path: delta_rs(path).optimize.compact(),
    lambda path: (
        delta_rs(path)
        .merge(some(range(4, 8)), "t.id = s.id", source_alias="s", target_alias="t")
        .when_matched_delete("s.id = 5")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    ),
    lambda path: delta_rs(path).restore(2),
    lambda path: deltalake.write_deltalake(path, some(range(2)), mode="overwrite"),
]


def some(ids: range) -> pa.Table:
    return pa.table(
        {"id": list(ids), "part": [["x y", "z%20/b=ä", None][i % 3] for i in ids], "v": [f"rs {i}" for i in ids]},
        pa.schema({"id": pa.int64(), "part": pa.string(), "v": pa.string()}),
    )


@pytest.mark.parametrize("properties", [NO_MARKS, FED], ids=["plain", "fed"])
def test_row_changes_of_what_delta_rs_has_written_add_up_too(table: Watched, properties: str) -> None:
    table.make(properties, partitioned=True)
    for write in RUST_HISTORY:
        before = table.version
        write(table.path)
        table.check(before)
    table.check(1)
    table.check(0, table.version - 1)


def test_a_column_that_was_added_is_null_in_rows_of_before(table: Watched) -> None:
    table.make(MARKS)
    table.sql("INSERT INTO {t} SELECT id, 'p', 'a' FROM range(5)")
    table.sql("ALTER TABLE {t} ADD COLUMN more INT")
    table.columns = (*table.columns, "more")
    table.check(1)
    table.sql("INSERT INTO {t} SELECT id, 'p', 'a', 7 FROM range(2)")
    table.sql("DELETE FROM {t} WHERE id = 4")
    table.check(1)
    assert table.changed(1, table.version, ["more"]) == {(7,): 2, (None,): -1}


def test_a_version_has_no_row_changes_since_itself(table: Watched) -> None:
    table.make(MARKS)
    table.sql("INSERT INTO {t} VALUES (1, 'p', 'a')")
    assert table.changed(1, 1) == {}
    told = table.store.log.changes_since(1)
    assert (told.added, told.removed, told.size, told.commits) == (0, 0, 0, ())


def test_the_log_tells_how_many_rows_and_bytes_without_spark(table: Watched) -> None:
    table.make(MARKS)
    table.sql("INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, 'p', 'a' FROM range(1000)")
    table.sql("DELETE FROM {t} WHERE id < 7")
    table.sql("ALTER TABLE {t} SET TBLPROPERTIES ('our.owner' = 'team')")
    table.sql("INSERT INTO {t} VALUES (1, 'p', 'a')")
    told = table.store.log.changes_since(1)
    assert (told.how, told.added, told.removed, told.commits) == (RowsBy.FILES, 1, 7, (2, 4))
    assert told.size


def test_files_that_row_changes_are_read_from_go_when_the_store_is_closed(table: Watched) -> None:
    table.make(MARKS)
    table.sql("INSERT INTO {t} VALUES (1, 'p', 'a')")
    rows = table.store.row_changes(table.spark, 0, 1, ["id"])
    folders = {place.parent for file in rows.inputFiles() if (place := local_path(file, escaped=True))}
    assert folders == {table.path}  # the rows are those of the table's own files
    scratch = [Path(folder) for folder in table.store._scratch]
    assert [folder.is_dir() for folder in scratch] == [True]
    table.store.close()
    assert [folder.is_dir() for folder in scratch] == [False]


def refusal(table: Watched, since: int, columns: Sequence[str] | None = None, **more: Any) -> str:
    told = table.store.log.changes_since(since, columns=columns, **more)
    assert told.how is None
    assert told.refusal is not None
    if not more:
        with pytest.raises(TableError, match=re.escape(told.refusal)):
            table.store.row_changes(table.spark, since, told.until, columns or table.columns)
    return told.refusal


def test_a_used_column_that_is_another_one_by_now_is_a_reason_why_not(table: Watched) -> None:
    table.make(f"{MARKS}, {MAPPED}")
    table.sql("INSERT INTO {t} VALUES (1, 'p', 'a')")
    table.sql("ALTER TABLE {t} RENAME COLUMN v TO w")
    assert refusal(table, 1) == "column v was renamed to w"
    assert table.changed(1, table.version, ["id", "part"]) == {}
    table.sql("ALTER TABLE {t} DROP COLUMN part")
    assert refusal(table, 1, ["id", "part"]) == "column part was dropped"
    table.sql("ALTER TABLE {t} ADD COLUMN part STRING")
    assert refusal(table, 1, ["id", "part"]) == "column part was dropped, and another one of that name was added"
    assert refusal(table, 1, ["nothing"]) == "it has no column nothing"


def test_another_type_or_other_partitions_are_a_reason_why_not(table: Watched) -> None:
    table.make(MARKS)
    table.sql("INSERT INTO {t} VALUES (1, 'p', 'a')")
    other = table.spark.sql("SELECT '1' id, 'p' part, 'a' v").write.format("delta").mode("overwrite")
    other.option("overwriteSchema", "true").save(str(table.path))
    assert refusal(table, 1) == "the type of column id was changed from long to string"
    other.option("overwriteSchema", "true").partitionBy("part").save(str(table.path))
    assert refusal(table, 2) == "it was partitioned by other columns"


def test_a_feature_that_says_how_to_read_files_and_is_not_known_is_a_reason_why_not(table: Watched) -> None:
    table.make(f"{MARKS}, 'delta.enableTypeWidening' = 'true'")
    table.sql("INSERT INTO {t} VALUES (1, 'p', 'a')")
    assert refusal(table, 0) == "it has a table feature that Tidemill does not know (typeWidening)"


def test_vacuumed_files_are_a_reason_why_not_with_what_keeps_them_longer(table: Watched) -> None:
    table.make(NO_MARKS)
    table.sql("INSERT INTO {t} VALUES (1, 'p', 'a')")
    table.sql("INSERT INTO {t} VALUES (2, 'p', 'a')")
    table.sql("UPDATE {t} SET v = 'b'")
    table.store.vacuum(table.spark, 0)
    assert refusal(table, 2) == (
        "version 2 is no longer there (kept for 7 days); set delta.deletedFileRetentionDuration, or run more often"
    )
    table.sql("INSERT INTO {t} VALUES (3, 'p', 'c')")
    assert table.changed(3, table.version) == {(3, "p", "c"): 1}


def test_cleaned_up_commits_are_a_reason_why_not_with_what_keeps_them_longer(table: Watched) -> None:
    table.make("'delta.checkpointInterval' = '1', 'delta.logRetentionDuration' = 'interval 12 days'")
    for number in range(3):
        table.sql(f"INSERT INTO {{t}} VALUES ({number}, 'p', 'a')")
    for number in range(2):
        (table.path / "_delta_log" / f"{number:020d}.json").unlink()
    expected = "version 1 is no longer there (kept for 12 days); set delta.logRetentionDuration, or run more often"
    assert refusal(table, 0) == expected
    assert table.changed(1, 3) == {(1, "p", "a"): 1, (2, "p", "a"): 1}
    assert refusal(table, 1, content="whatever@1") == expected


def test_another_table_at_the_same_path_is_a_reason_why_not(table: Watched) -> None:
    def content(version: int) -> str:
        commit = table.store.log.commit(version)
        assert commit is not None
        return content_of(str(delta_rs(table.path).metadata().id), version, commit.id)

    table.make(MARKS)
    table.sql("INSERT INTO {t} VALUES (1, 'p', 'a')")
    before = content(1)
    assert table.store.log.changes_since(1, content=before).how is RowsBy.FILES
    shutil.rmtree(table.path)
    table.store = DeltaStore(str(table.path))
    table.make(MARKS)
    table.sql("INSERT INTO {t} VALUES (1, 'p', 'a')")
    assert "version 1 differs" in refusal(table, 1, content=before)
    assert refusal(table, 7) == "version 7 is not there, the last one is 1"
    table.spark.sql("SELECT 1L id, 'p' part, 'a' v").write.format("delta").mode("overwrite").option(
        "overwriteSchema", "true"
    ).save(str(table.path))
    assert content(2).startswith(content(1).partition("@")[0])  # an overwrite is the same table


def test_of_a_file_in_which_rows_were_marked_only_these_are_read(table: Watched) -> None:
    table.make(MARKS)
    table.sql("INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, 'p', 'a' FROM range(1000)")
    table.sql("DELETE FROM {t} WHERE id % 100 = 0")
    table.sql("DELETE FROM {t} WHERE id % 100 = 1")
    since, marked = table.version - 1, table.version
    assert len(table.store.row_changes(table.spark, since, marked, ["id"]).collect()) == 10
    table.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {since - 1}")
    assert len(table.store.row_changes(table.spark, marked, table.version, ["id"]).collect()) == 20
    table.sql("DELETE FROM {t} WHERE id < 7")
    table.check(marked)
    table.check(since)
