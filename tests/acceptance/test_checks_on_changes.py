"""Checks see just the rows that enter, beside those of the table that stay; files that cannot matter are not read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import deltalake
import pyarrow as pa
import pytest
from given import bag, commits_nothing, frame, held, refused, step, table

from tidemill import MergeStrategy
from tidemill.changes.checks import Checking
from tidemill.declarations import (
    AcceptedValues,
    Append,
    DeleteInsert,
    Holds,
    Merge,
    NotNull,
    Relationships,
    Replace,
    RowCount,
    Severity,
    Unique,
)
from tidemill.errors import ArgumentError, CheckError
from tidemill.execution.checks import FailedChecksError
from tidemill.results import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemill import Table
    from tidemill.errors import TidemillError
    from tidemill.execution import StepResult

ROWS = {"id": pa.int64(), "v": pa.string(), "at": pa.int64()}
UNIQUE, ODD = Unique(("V",)), Holds("v <> 'odd'")


def rows(*found: tuple[int | None, str | None, int]) -> pa.Table:
    return frame(ROWS, *found)


def verdicts(result: StepResult) -> list[tuple[str, int | None]]:
    return [(str(each.verdict), each.rows) for each in result.checks]


def failed(spark: SparkSession, declared: Table, *found: tuple[int | None, str | None, int]) -> list[tuple[str, int]]:
    """The checks that stop a step, with what they count; the table stays as it was."""
    error = refused(Path(declared.path), lambda: step(spark, declared, rows(*found)))
    assert isinstance(error, FailedChecksError), error
    return [(str(each.check), each.failures) for each in error.checks if each.failures]


def test_append_checks_the_new_rows_of_a_window_beside_all_that_the_table_holds(spark: SparkSession, tmp_path: Path):
    path = tmp_path / "t"
    events = table(path, Append(), time="at", back=10)
    step(spark, events, rows((1, "a", 1), (2, "odd", 15), (3, None, 15)))
    events = table(path, Append(), time="at", back=10, checks=(UNIQUE, ODD, RowCount(most=5)))
    with commits_nothing(path):
        assert step(spark, events, rows((2, "odd", 15))).checks == ()
    again = step(spark, events, rows((2, "odd", 15), (3, None, 15), (4, "d", 16), (5, None, 16)))
    assert verdicts(again) == [("passed", 2), ("passed", 2), ("passed", 5)]
    assert failed(spark, events, (4, "d", 16), (6, "a", 17)) == [("unique(v)", 1), ("row_count(max 5)", 1)]
    assert failed(spark, events, (6, "f", 17), (7, "f", 17), (8, "odd", 17)) == [
        ("unique(v)", 2), ("v <> 'odd'", 1), ("row_count(max 5)", 1)
    ]  # fmt: skip


def test_delete_insert_checks_beside_what_its_predicate_leaves(spark: SparkSession, tmp_path: Path):
    declared = table(tmp_path / "t", DeleteInsert("at >= 10"), checks=(UNIQUE, RowCount(2, 3)))
    assert verdicts(step(spark, declared, rows((2, "b", 10), (3, "c", 11)))) == [("passed", 2), ("passed", 2)]
    spark.createDataFrame([(1, "a", 1)], "id BIGINT, v STRING, at BIGINT").write.format("delta").mode("append").save(
        str(tmp_path / "t")
    )
    replaced = step(spark, declared, rows((2, "c", 10), (3, "b", 11)))
    assert verdicts(replaced) == [("passed", 2), ("passed", 3)]
    assert failed(spark, declared, (2, "a", 10), (3, "b", 11)) == [("unique(v)", 1)]
    assert failed(spark, declared) == [("row_count(min 2, max 3)", 1)]
    assert held(tmp_path / "t", "id", "v") == bag((1, "a"), (2, "c"), (3, "b"))


def test_full_merge_checks_only_what_is_new_or_changed_beside_what_stays(spark: SparkSession, tmp_path: Path):
    path = tmp_path / "t"
    step(spark, table(path, Merge(("id",))), rows((1, "odd", 1), (2, "b", 1), (3, "c", 1)))
    declared = table(path, Merge(("id",), MergeStrategy.FULL_MERGE), checks=(UNIQUE, ODD, RowCount(2, 3)))
    done = step(spark, declared, rows((1, "odd", 1), (2, "c", 2), (4, "b", 1)))  # the row of the old c goes
    assert verdicts(done) == [("passed", 2), ("passed", 2), ("passed", 3)]
    assert failed(spark, declared, (1, "odd", 1)) == [("row_count(min 2, max 3)", 1)]
    assert failed(spark, declared, (1, "odd", 1), (2, "odd", 2), (4, "b", 1)) == [("unique(v)", 1), ("v <> 'odd'", 1)]


def test_replace_checks_all_rows_and_a_first_run_that_fails_makes_no_table(spark: SparkSession, tmp_path: Path):
    path = tmp_path / "t"
    checks = (NotNull(("id", "v")), AcceptedValues("id", (1, 2.0, "3", "x")), RowCount(2))
    declared = table(path, Replace(), checks=checks)
    assert failed(spark, declared, (1, None, 1)) == [("not_null(id, v)", 1), ("row_count(min 2)", 1)]
    assert not path.exists()
    assert verdicts(step(spark, declared, rows((1, "a", 1), (2, "b", 1), (3, "b", 1)))) == [("passed", 3)] * 3
    assert failed(spark, declared, (4, "a", 1), (4, "b", 1), (None, "c", 1)) == [
        ("not_null(id, v)", 1), ("accepted_values(id)", 2)
    ]  # fmt: skip


def test_warnings_let_rows_pass_and_say_so(spark: SparkSession, tmp_path: Path):
    checks = (NotNull(("v",), severity=Severity.WARN), Unique(("at",), severity=Severity.WARN))
    declared = table(tmp_path / "t", Append(), checks=checks)
    result = step(spark, declared, rows(*[(n, None, n // 2) for n in range(12)]))
    assert result.counts.inserted == 12
    assert result.notices == (
        (
            "check not_null(v): 12 of 12 rows that would enter have no v: at=0 v=NULL, at=1 v=NULL, at=2 v=NULL, "
            "at=3 v=NULL, at=4 v=NULL, …"
        ),
        "check unique(at): 6 values of at would occur more than once in orders: 0, 1, 2, 3, 4, …",
    )


def lose_low_files(path: Path) -> None:
    """Removes the files that hold ids below a hundred only; the table's log does not know."""
    files = pa.table(deltalake.DeltaTable(str(path)).get_add_actions(flatten=True)).to_pylist()
    low = [path / file["path"] for file in files if file["max.id"] < 100]
    assert 0 < len(low) < len(files)
    for file in low:
        file.unlink()


def test_files_that_hold_none_of_the_values_are_not_read(spark: SparkSession, tmp_path: Path):
    """They are not even there: whoever read them would fail."""
    children, parents = tmp_path / "t", tmp_path / "parents"
    for path in (parents, children):
        for first in (0, 100):
            step(spark, table(path, Append()), rows(*[(n, f"v{n}", n) for n in range(first, first + 10)]))
        lose_low_files(path)
    parent = Relationships("at", "checks_here.parents", "id")
    declared = table(children, Append(), checks=(Unique(("id",)), parent, RowCount(1)))
    spark.sql("CREATE SCHEMA IF NOT EXISTS checks_here")
    spark.sql(f"CREATE TABLE checks_here.parents USING delta LOCATION '{parents}'")
    try:
        assert verdicts(step(spark, declared, rows((110, "x", 101), (111, "x", None)))) == [
            ("passed", 2), ("passed", 2), ("passed", 22)
        ]  # fmt: skip
        assert failed(spark, declared, (105, "x", 100), (112, "y", 120)) == [
            ("unique(id)", 1), ("relationships(at → checks_here.parents.id)", 1)
        ]  # fmt: skip
    finally:
        spark.sql("DROP TABLE checks_here.parents")
        spark.sql("DROP SCHEMA checks_here")


def test_a_table_may_be_its_own_parent(spark: SparkSession, tmp_path: Path):
    declared = table(tmp_path / "t", Append(), checks=(Relationships("at", "orders", "ID"),))
    step(spark, declared, rows((1, "a", 1), (2, "b", 1)))
    step(spark, declared, rows((3, "c", 2), (4, "d", 3)))
    assert failed(spark, declared, (5, "e", 4), (6, "f", 9)) == [("relationships(at → orders.ID)", 1)]


def told(spark: SparkSession, tmp_path: Path, check: object) -> TidemillError:
    declared = table(tmp_path / "t", Replace(), checks=(check,))
    return refused(tmp_path / "t", lambda: step(spark, declared, rows((1, "a", 1))))


def test_a_check_that_cannot_be_run_is_an_error_that_says_why(spark: SparkSession, tmp_path: Path):
    unknown = told(spark, tmp_path, NotNull(("vv",)))
    assert isinstance(unknown, ArgumentError)
    assert str(unknown) == (
        "[checks.unknown_column] The check not_null(vv) names vv, which the rows of orders do not have. "
        "They have: id, v, at."
    )
    bad = told(spark, tmp_path, Holds("vv > 1", name="good"))
    assert bad.code == "checks.bad_condition"
    assert bad.problem.startswith("The check good of orders is no condition on its rows: A column")
    assert told(spark, tmp_path, Holds("id + 1")).code == "checks.bad_condition"
    wrong = told(spark, tmp_path, Holds("cast(v AS int) > 1"))
    assert isinstance(wrong, CheckError)
    assert str(wrong).startswith("[checks.not_run] The checks of orders could not be run: ")
    assert wrong.remedy == "Correct the check, or the rows that it cannot read. orders is unchanged."


@pytest.mark.parametrize(
    ("kind", "values", "good", "bad"),
    [
        ("STRING", ("open", 1, True), ["open", "1", "true", None], ["2", "True"]),
        ("INT", (1, 0.5, "7", "x"), ["1", "7", None], ["0", "2"]),
        ("FLOAT", (0.1, 1), ["0.1", "1", None], ["0.2"]),
        ("DECIMAL(5,2)", (0.5, "1.25"), ["0.50", "1.25"], ["0.51"]),
        ("BOOLEAN", (True,), ["true", None], ["false"]),
        ("DATE", ("2024-01-31", "never"), ["2024-01-31", None], ["2024-02-01"]),
    ],
)
def test_accepted_values_fit_the_type_of_the_column(spark: SparkSession, kind, values, good, bad):
    found = spark.createDataFrame([(text,) for text in (*good, *bad)], "s STRING").selectExpr(f"CAST(s AS {kind}) AS s")
    checking = Checking(Place("t", entering=False), found, parent=spark.table)
    (result,) = checking.results([AcceptedValues("S", values)])
    assert (result.failures, len(result.samples)) == (len(bad), len(bad))
