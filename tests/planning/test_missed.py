"""What a table does not see by its declaration is said in one sentence, with the remedy."""

from __future__ import annotations

import json
from typing import Any

from tidemill import MergeStrategy, Record, Table
from tidemill.declarations import KeptRows, Merge, Query, Window
from tidemill.model.record import Snapshot
from tidemill.planning.notices import missed_changes, rows_will_stay

QUERY = Query(("SELECT 1",))


def table(form: MergeStrategy = MergeStrategy.UPSERT, **more: Any) -> Table:
    return Table("my_schema.daily", "daily", Merge(("day", "region"), form), producer=QUERY, input="query", **more)


def test_a_merge_of_a_query_that_can_lose_rows_says_that_they_stay_unless_that_is_intended() -> None:
    parts = ("GROUP BY", "a join")
    stays = (
        "my_schema.daily: its query has GROUP BY and a join and is maintained by MERGE: rows that the query no longer "
        'returns will stay; FULL_MERGE ON day, region deletes them, kept_rows = "intended" accepts them'
    )
    assert rows_will_stay(table(), parts) == stays
    assert rows_will_stay(table(window=Window("at")), parts) == stays.replace(
        "region deletes", "region (without a time column) deletes"
    )
    assert rows_will_stay(table(), ()) is None
    assert rows_will_stay(table(MergeStrategy.FULL_MERGE), parts) is None
    assert rows_will_stay(table(kept_rows=KeptRows.INTENDED), parts) is None


def snapshot(**known: Any) -> Snapshot:
    record = Record("run-0", "my_schema.daily", 1, "merge upsert", "2024-02-01T06:00:00.000Z", **known)
    return Snapshot(version=0, sequence=1, record=record, record_version=0)


def test_inputs_that_changed_and_those_of_which_nobody_knows_are_named() -> None:
    windowed = table(window=Window("at"), reset_allowed=False)
    versions = {"main.a": "2", "main.b": "1", "main.c": None}
    inputs = ("main.a", "main.b", "main.c")
    before = snapshot(read_versions={"main.a": "1", "main.b": "1", "main.c": "1"})
    (told,) = missed_changes(windowed, inputs, before, versions.get)
    assert told == (
        "my_schema.daily: main.a has changed and main.c may have changed since its last run, and its window on at does "
        "not see that: rows outside of the window keep their old values; run tidemill run -s my_schema.daily --start "
        "…, or make it a materialized view, which follows all of its inputs"
    )
    assert "main.b and main.c may have changed" in missed_changes(windowed, inputs, before, versions.get, {"main.b"})[0]
    older = snapshot(input_versions={"query": json.dumps({"main.b": "1"})})
    assert missed_changes(windowed, ("main.b",), older, versions.get) == ()
    assert missed_changes(windowed, inputs, None, versions.get) == (), "a first run reads everything"
    assert missed_changes(windowed, inputs, snapshot(reset=("query",)), versions.get) == ()
