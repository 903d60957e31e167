"""A table that was kept in one way and is declared to be kept in another: what is seen, and what is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidemill import MergeStrategy, Record, Table
from tidemill.declarations import Append, DeleteInsert, Merge, Replace, Window
from tidemill.errors import Origin
from tidemill.model import RESET_ALLOWED
from tidemill.model.cursor import cursor
from tidemill.model.record import Snapshot
from tidemill.model.table import lookback
from tidemill.planning import USUAL, Request
from tidemill.planning.refusals import change_of_mind
from tidemill.planning.windows import known_of

MERGE = Merge(("id",))
THERE = Origin("models/my_schema/orders.sql", 1)


def table(strategy, **more) -> Table:
    return Table("my_schema.orders", "orders", strategy, origin=THERE, **more)


def committed(before: Table, what: str | None = None, **more) -> Snapshot:
    """The table as its last commit left it; `what` is what that was, if no step of its strategy."""
    record = Record(
        "r",
        before.name,
        1,
        what or str(before.strategy),
        "",
        config_hash=before.config_hash,
        declared_strategy=before.declared_strategy,
    )
    return Snapshot(0, 1, replace(record, **more), 0)


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (MERGE, Append(), "merge upsert on id, and is by append from this run on: its rows stay, and a row that is"),
        (Append(), MERGE, "append, and is by merge upsert on id from this run on: its rows stay until one of the same"),
        (MERGE, Merge(("id", "region")), "merge upsert on id, and is by merge upsert on id, region from this run on"),
        (Append(), Replace(), "rows that its query does not give leave it (tidemill restore brings them back)"),
        (Replace(), DeleteInsert(), "replace, and is by delete_insert from this run on: its rows stay, but for those"),
        (MERGE, Merge(("id",), MergeStrategy.FULL_MERGE), "rows whose id its source does not give leave it"),
        (MERGE, Merge(("id",), MergeStrategy.DEDUPLICATE), "of those of one id one is left once its source gives it"),
        (MERGE, Merge(("id",), MergeStrategy.INSERT), "its rows stay as they are, and rows of a new id enter"),
        (MERGE, Merge(("id",), MergeStrategy.UPDATE), "its rows stay and follow those of the same id, and no others"),
    ],
)
def test_another_strategy_and_other_keys_are_seen_and_the_notice_says_what_to_expect(before, now, expected):
    change = change_of_mind(table(now), committed(table(before)), USUAL)
    assert change is not None
    assert change.notice.startswith("my_schema.orders was maintained by ")
    assert expected in change.notice
    assert change.notice.endswith(". Make all of it so with: tidemill run -s my_schema.orders --full-refresh")
    assert not change.refused


def test_what_leaves_strategy_and_keys_alone_is_no_change_of_mind():
    before = committed(table(Merge(("ID",)), window=Window("at")))
    assert change_of_mind(table(MERGE, window=Window("at", lookback=lookback("3 hours"))), before, USUAL) is None
    assert change_of_mind(table(Append()), None, USUAL) is None
    assert change_of_mind(table(Append()), Snapshot(0, 0, None, None), USUAL) is None


def test_a_full_refresh_rebuilds_the_table_so_there_is_nothing_to_say():
    assert change_of_mind(table(Append()), committed(table(MERGE)), Request(full_refresh=True)) is None


def test_a_commit_that_was_no_step_still_knows_how_the_table_is_kept():
    for what in ("full refresh", "set watermark", "restore"):
        change = change_of_mind(table(Append()), committed(table(MERGE), what), USUAL)
        assert change is not None
        assert change.before == "merge upsert on id"


def test_old_records_are_read_by_their_strategy_and_keys():
    written = '{"tidemill":{"run_id":"r","table":"t","sequence":1,"strategy":"merge upsert","at":"","keys":["id"]}}'
    old = Snapshot(0, 1, Record.from_json(written), 0)
    change = change_of_mind(table(Append()), old, USUAL)
    assert change is not None
    assert change.before == "merge upsert on id"
    assert change_of_mind(table(Merge(("ID",), only_newer="at")), old, USUAL) is None
    unknown = committed(table(MERGE), "full refresh", declared_strategy=None, keys=("id",))
    assert change_of_mind(table(Append()), unknown, USUAL) is None


def test_an_error_names_both_ways_and_three_ways_out():
    change = change_of_mind(table(Append()), committed(table(MERGE)), USUAL)
    assert change is not None
    assert (change.error.exit_code, change.error.origin) == (2, THERE)
    assert str(change.error) == (
        "[plan.changed_mind] my_schema.orders was maintained by merge upsert on id, and is now declared as append."
        " Take the change back, rebuild it (tidemill run -s my_schema.orders --full-refresh), or go on with its rows "
        'as they are: materialization_change_behavior = "warn" under [flags] in tidemill.toml.'
    )


def test_history_that_is_to_be_kept_is_not_replaced_by_a_change_of_mind():
    declared = table(Replace(), reset_allowed=False)
    found = change_of_mind(declared, committed(table(Append())), USUAL)
    assert found is not None
    assert str(found.error) == (
        "[table.reset_refused] my_schema.orders was maintained by append, and a run would now replace all of it; but "
        "its history is to be kept (reset_allowed = false). Take the change back, or allow it where the table is "
        "declared, and on the table itself, first."
    )
    on_table = replace(committed(table(Append())), properties={RESET_ALLOWED: "False"})
    assert [
        change.refused
        for now, snapshot in [
            (declared, committed(table(Append()))),
            (table(Replace()), on_table),
            (table(MERGE), on_table),
        ]
        if (change := change_of_mind(now, snapshot, USUAL))
    ] == [True, True, False]
    kept = change_of_mind(table(MERGE, reset_allowed=False), committed(table(Append())), USUAL)
    assert kept is not None
    assert "--full-refresh" not in kept.notice + kept.error.remedy


def test_how_far_a_table_was_read_by_another_time_column_says_nothing():
    read = {"source": cursor("timestamp", "2024-03-01"), "other": cursor("integer", "5")}
    by_created = committed(
        table(Append()), window={"column": "created_at"}, progress=read, highest=read["source"], floor=read["source"],
        columns=("id",),
    )  # fmt: skip
    same = known_of(table(Append(), window=Window("Created_At")), by_created)
    assert same == by_created
    other = known_of(table(MERGE, window=Window("updated_at")), by_created)
    assert other is not None
    assert other.record is not None
    assert other.record.progress == {"other": read["other"]}
    assert (other.record.highest, other.record.floor, other.record.columns) == (None, None, ())
    assert known_of(table(Replace()), by_created) == by_created
