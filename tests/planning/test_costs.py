"""Whether a view is refreshed by changes or whole: by what refreshes took, else by rules of thumb. Starts no Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from tidemill import Record
from tidemill.formats.port import InputChanges
from tidemill.model.record import Commit
from tidemill.planning.costs import PastRefresh, cost_record, past_refreshes, why_many_keys, why_whole
from tidemill.planning.refresh import InputState, ViewInputs

if TYPE_CHECKING:
    from collections.abc import Sequence

GB, MB = 1_000_000_000, 1_000_000
NOON = datetime(2026, 11, 19, 12, tzinfo=UTC)


def changed(name: str, rows: int, of: int, size: int | None) -> InputState:
    return InputState(
        name, (name,), "t@2", "t@1", changes=InputChanges(1, 2, added=rows, removed=0), rows=of, size=size
    )


def same(name: str, size: int) -> InputState:
    return InputState(name, (name,), "t@1", "t@1", rows=1000, size=size)


ORDERS = changed("orders", 1000, 1_000_000, 10 * GB)


def inputs(*states: InputState, past: Sequence[PastRefresh] = ()) -> ViewInputs:
    return ViewInputs("", states, past=lambda: past)


def by_changes(*seconds: float, rows: int = 1000) -> list[PastRefresh]:
    return [PastRefresh(is_full=False, seconds=each, size=10 * GB, changed=rows) for each in seconds]


def in_full(*seconds: float, size: int | None = 10 * GB) -> list[PastRefresh]:
    return [PastRefresh(is_full=True, seconds=each, size=size) for each in seconds]


MANY = "at most 300,000 changed rows of orders, which has 1,000,000: reading all of them is faster"


@pytest.mark.parametrize(
    ("read", "why"),
    [
        (inputs(ORDERS), None),
        (
            inputs(changed("orders", 1, 10, 5 * MB), same("customers", 9 * MB)),
            "its inputs are small (14.0 MB), so that reading them whole is faster",
        ),
        (inputs(changed("orders", 300_000, 1_000_000, 10 * GB)), MANY),
        (inputs(ORDERS, changed("regions", 50, 25, MB)), None),  # a dimension that was loaded again
        (inputs(ORDERS, changed("customers", 2000, 1000, GB)), None),  # a large one, and small beside the others
        (
            inputs(ORDERS, changed("customers", 2000, 1000, 2 * GB)),
            "at most 2,000 changed rows of customers, which has 1,000: reading all of them is faster",
        ),
        (
            inputs(changed("orders", 300_000, 1_000_000, None)),
            MANY,
        ),
        (inputs(replace(ORDERS, pending=True)), None),
    ],
)
def test_before_refreshes_were_measured_rules_of_thumb_choose(read: ViewInputs, why: str | None) -> None:
    assert why_whole(read) == why


@pytest.mark.parametrize(
    ("past", "why"),
    [
        ([*by_changes(12, 13, 11), *in_full(4)], "the last 3 incremental ones took 12 s, full ones 4.0 s"),
        ([*by_changes(3, 4, 2), *in_full(4)], None),
        # One wrong guess is none, two in a row turn the choice round; older ones are forgotten.
        ([*by_changes(12, 2, 2), *in_full(4)], None),
        ([*by_changes(12, 2), *in_full(4)], None),
        ([*by_changes(14, 12), *in_full(4)], "the last 2 incremental ones took 12 s, full ones 4.0 s"),
        ([*by_changes(12, 12, 2), *in_full(4)], "the last 3 incremental ones took 12 s, full ones 4.0 s"),
        ([*by_changes(2, 2, 12, 12, 12), *in_full(4)], None),
        # Too little is known.
        ([*by_changes(12), *in_full(4)], None),
        (by_changes(12, 12, 12), None),
        # Refreshes of other changes, or of inputs of another size, say nothing.
        ([*by_changes(12, 12, 12, rows=100), *in_full(4)], None),
        ([*by_changes(12, 12, 12), *in_full(4, size=GB)], None),
        ([*by_changes(12, 12, 12), *in_full(4, size=None)], None),
        # A full refresh takes longer as the inputs grow.
        ([*by_changes(7, 7, 7), *in_full(4, size=5 * GB)], None),
        ([*by_changes(7, 7, 7), *in_full(4, size=9 * GB)], "the last 3 incremental ones took 7.0 s, full ones 4.4 s"),
    ],
)
def test_what_refreshes_took_chooses_the_one_that_took_less(past: list[PastRefresh], why: str | None) -> None:
    assert why_whole(inputs(ORDERS, past=past)) == why


def test_what_refreshes_took_outweighs_the_rules_of_thumb() -> None:
    measured = [*by_changes(2, 2, rows=300_000), *in_full(30)]
    assert why_whole(inputs(changed("orders", 300_000, 1_000_000, 10 * GB), past=measured)) is None


def test_keys_are_too_many_by_the_rows_of_the_view() -> None:
    assert why_many_keys(300, "region", 1000) is None
    assert why_many_keys(301, "region", None) is None
    assert why_many_keys(3010, "region", 10_000) == (
        "3,010 values of region have changed, and the view has 10,000 rows: computing all of them is faster"
    )


def commit(version: int, cost: object, *, mode: str = "incremental", sql_hash: str = "q") -> Commit:
    refresh = {"mode": mode, "cost": cost} if cost else {"mode": mode}
    record = Record("r", "v", version, "materialized_view", "", sql_hash=sql_hash, refresh=refresh)
    ended = (NOON + timedelta(seconds=5)).isoformat()
    return Commit(version, ended, "WRITE", {}, Record.from_json(record.to_json()))


def test_records_say_what_refreshes_by_the_same_query_took() -> None:
    cost = cost_record(inputs(ORDERS, same("customers", GB)), NOON)
    assert cost == {"began": "2026-11-19T12:00:00+00:00", "bytes": 11 * GB, "rows": 1000}
    others = Commit(8, NOON.isoformat(), "WRITE", {}, None)
    log = [commit(9, cost), others, commit(7, None), commit(6, cost, sql_hash="other"), commit(5, cost, mode="full")]
    assert past_refreshes(log, "q") == [
        PastRefresh(is_full=False, seconds=5, size=11 * GB, changed=1000),
        PastRefresh(is_full=True, seconds=5, size=11 * GB, changed=1000),
    ]


def test_refreshes_of_long_ago_are_forgotten_so_that_what_was_slow_is_tried_again() -> None:
    cost = cost_record(inputs(ORDERS), NOON)
    log = [commit(version, cost, mode="full") for version in range(40, 0, -1)]
    assert len(past_refreshes(log, "q")) == 20
