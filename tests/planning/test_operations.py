"""How a change enters its table, in words of SQL: each strategy, and each form of a merge."""

from __future__ import annotations

import pytest

from tidemill import MergeStrategy, Table
from tidemill.declarations import Append, DeleteInsert, Merge, Replace
from tidemill.planning.operation_sql import Entering, Written, created, written

COLUMNS = ("id", "amount", "at")


def entering(strategy, window: str | None = None, columns=COLUMNS, **more) -> Written:
    return written(strategy, Entering(Table("main.t", "t", strategy, **more), window, columns))


DIFFERS = "NOT (\n  held.`amount` <=> coming.`amount` AND\n  held.`at` <=> coming.`at`\n)"
UPDATES = f"WHEN MATCHED AND {DIFFERS} THEN UPDATE SET *"
INSERTS = "WHEN NOT MATCHED THEN INSERT *"
DELETES = "WHEN NOT MATCHED BY SOURCE THEN DELETE"


@pytest.mark.parametrize(
    ("form", "clauses"),
    [
        (MergeStrategy.UPSERT, [UPDATES, INSERTS]),
        (MergeStrategy.DEDUPLICATE, [UPDATES, INSERTS]),
        (MergeStrategy.INSERT, [INSERTS]),
        (MergeStrategy.UPDATE, [UPDATES]),
        (MergeStrategy.FULL_MERGE, [UPDATES, INSERTS, DELETES]),
    ],
)
def test_each_form_of_a_merge_has_its_clauses(form: MergeStrategy, clauses: list[str]):
    head = ["MERGE INTO main.t AS held", "USING change AS coming", "ON held.`id` = coming.`id`"]
    assert entering(Merge(("id",), form)).sql == "\n".join([*head, *clauses])


def test_an_older_row_does_not_replace_a_newer_one():
    sql = entering(Merge(("ID",), only_newer="at"), columns=("id", "at")).sql
    assert sql.splitlines()[3:6] == [
        "WHEN MATCHED AND NOT (",
        "  held.`at` <=> coming.`at`",
        ") AND (held.`at` IS NULL OR coming.`at` >= held.`at`) THEN UPDATE SET *",
    ]


def test_columns_that_only_spark_can_tell_are_a_placeholder_and_keys_alone_never_differ():
    assert "WHEN MATCHED AND <some other column differs> THEN" in entering(Merge(("id",)), columns=None).sql
    assert "WHEN MATCHED AND false THEN" in entering(Merge(("id",)), columns=("id",)).sql


def test_volatile_columns_take_no_part_in_the_comparison():
    found = entering(Merge(("id",)), volatile=("at",))
    assert "`at`" not in found.sql
    assert found.notes[-1] == "at takes no part in the comparison"
    assert entering(Append(), "true", volatile=("at", "by")).notes == ("at, by take no part in the comparison",)


@pytest.mark.parametrize(
    ("strategy", "note"),
    [
        (Merge(("id", "day")), "different rows with the same id, day are an error, and so is a NULL in a key"),
        (Merge(("id",), dedup_order_by=("at",)), "of rows with the same id one enters: the highest by at"),
        (
            Merge(("id",), MergeStrategy.DEDUPLICATE),
            "of rows with the same id one enters: the highest by all columns",
        ),
        (
            Merge(("id",), newest_by="at"),
            "of rows with the same id the newest by at enters; different ones are an error",
        ),
    ],
)
def test_a_merge_says_what_becomes_of_rows_with_the_same_key(strategy: Merge, note: str):
    assert entering(strategy).notes[0] == note
    assert created(Table("main.t", "t", strategy)).notes == (note,)


def test_an_append_without_a_time_column_appends_every_row():
    assert entering(Append()) == Written(
        "INSERT INTO main.t\nSELECT * FROM change", ("it has no time column: every row that is read is appended",)
    )


def test_a_replacement_happens_only_if_something_differs_and_within_what_it_may_drop():
    assert entering(Replace(0.1)) == Written(
        "INSERT OVERWRITE main.t\nSELECT * FROM change",
        ("only if the rows are not those that it holds", "refused if it drops more than 0.1 of the rows (max_shrink)"),
    )


@pytest.mark.parametrize(
    ("predicate", "window", "together"),
    [
        ("day > 1", None, "day > 1"),
        (None, "at >= 2", "at >= 2"),
        ("a OR b", "at >= 2", "(a OR b) AND (at >= 2)"),
        (None, None, "true"),
    ],
)
def test_a_delete_insert_has_one_predicate(predicate: str | None, window: str | None, together: str):
    sql = entering(DeleteInsert(predicate), window).sql
    assert sql == f"INSERT INTO main.t REPLACE WHERE {together}\nSELECT * FROM change"


def test_a_first_run_makes_the_table_with_its_partitions():
    assert created(Table("main.t", "t", Append(), partition_by=("day", "a`b"))).sql == (
        "CREATE TABLE main.t USING delta\nPARTITIONED BY (`day`, `a``b`) AS\nSELECT * FROM change"
    )
