"""Which window a join's next run has, and which side holds it back: known from logs, without Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidemill import Commit, Cursor, Duration, JoinType, Record, Table
from tidemill.declarations import Append, Join, JoinSide, NullTime, Replace, StartVariable, Template, Window
from tidemill.errors import ArgumentError, StateError
from tidemill.formats.registry import log_at
from tidemill.model.cursor import cursor
from tidemill.model.record import Snapshot
from tidemill.model.strategy import IncrementalJoin
from tidemill.planning import backfill_of
from tidemill.planning.joins import (
    JoinFacts,
    SideState,
    big_window,
    join_facts_by_log,
    join_window,
    plan_join,
    side_by_log,
    side_by_progress,
)
from tidemill.results import CursorKind

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tidemill.planning.windows import WindowPlan

DATE, NUMBER, MOMENT = CursorKind.DATE, CursorKind.INTEGER, CursorKind.TIMESTAMP
JOIN = Join(
    JoinSide("main.a", "a", "day"), JoinSide("main.b", "b", "day"), Template(("true",)), JoinType.LEFT, 6, 10,
    (Template(("a.*",)),),
)  # fmt: skip
NOW = datetime(2024, 6, 1, tzinfo=UTC)


def table(**more: Any) -> Table:
    window = Window("target_time", null_time=NullTime.SKIP)
    return Table("main.j", "j", IncrementalJoin(), window, input="shop", producer=replace(JOIN, **more))


def done(kind: CursorKind, progress: str | None, **more: Any) -> Snapshot:
    reached = {"shop": cursor(kind, progress)} if progress else {}
    record = Record("run", "main.j", 3, "incremental_join", "", progress=reached)
    return Snapshot(3, 3, record, 3, **more)


def known(kind: CursorKind, snapshot: Snapshot | None, *ends: str | None, low: str | None = None) -> JoinFacts:
    times = [cursor(kind, end) if end else None for end in ends]
    sides = [SideState(name, end, end) for name, end in zip("ab", times, strict=True)]
    lowest = cursor(kind, low) if low else None
    return JoinFacts(snapshot, sides, lambda: lowest, lambda _: cursor(kind, low) if low else None)


def window(found: JoinFacts, kind: CursorKind = DATE, part: Any = None, given: Any = None, **more: Any) -> WindowPlan:
    return join_window(table(**more), kind, found, part, given or {})


def bounds(plan: WindowPlan) -> tuple[str, str, str | None]:
    return str(plan.start), str(plan.end), str(plan.reached) if plan.reached else None


def test_the_first_window_begins_with_the_first_row_or_at_start_and_ends_before_the_lower_of_the_highest() -> None:
    first = window(known(DATE, None, "2024-03-08", "2024-03-10", low="2024-03-02"))
    assert bounds(first) == ("2024-03-02", "2024-03-08", "2024-03-07")
    assert (first.reason, first.notice) == ("first run: 2024-03-02 … 2024-03-07", None)
    started = window(known(DATE, None, "2024-03-08", "2024-03-08", low="2024-03-02"), start="2024-03-05")
    assert (bounds(started)[0], started.reason) == ("2024-03-05", "first run: 2024-03-05 … 2024-03-07")


def test_later_windows_go_on_where_the_last_one_ended_and_instants_that_tie_with_the_end_wait() -> None:
    dates = window(known(DATE, done(DATE, "2024-03-07"), "2024-03-10", "2024-03-10"))
    assert bounds(dates) == ("2024-03-08", "2024-03-10", "2024-03-09")
    numbers = window(known(NUMBER, done(NUMBER, "7"), "12", "10"), NUMBER)
    assert bounds(numbers) == ("8", "10", "9")
    moments = known(MOMENT, done(MOMENT, "2024-03-07T10:00:00Z"), "2024-03-07T12:00:00Z", "2024-03-08T00:00:00Z")
    assert bounds(window(moments, MOMENT)) == (
        "2024-03-07 10:00:00 UTC", "2024-03-07 12:00:00 UTC", "2024-03-07 12:00:00 UTC"
    )  # fmt: skip


def test_a_quiet_or_empty_side_leaves_nothing_to_do_and_is_named() -> None:
    quiet = window(known(DATE, done(DATE, "2024-03-07"), "2024-03-08", "2024-03-20"))
    assert (bounds(quiet), quiet.moves_on) == (("2024-03-08", "2024-03-08", None), False)
    assert quiet.reason == "nothing new: joined up to 2024-03-07"
    assert quiet.notice == "a holds it back: its newest is 2024-03-08, that of b 2024-03-20"
    empty = window(known(DATE, None, "2024-03-08", None, low="2024-03-01"))
    assert (empty.start, empty.reason) == (empty.end, "first run: nothing to join yet")
    assert empty.notice == "b holds it back: it is empty"
    nothing = window(known(DATE, done(DATE, None), None, None))
    assert nothing.predicate == "`target_time` >= DATE '1970-01-01' AND `target_time` < DATE '1970-01-01'"


def test_up_to_says_it_in_place_of_the_sides() -> None:
    behind = known(DATE, done(DATE, "2024-03-07"), "2024-03-08", "2024-03-20")
    told = window(behind, up_to="2024-03-12")
    assert (bounds(told), told.reason) == (("2024-03-08", "2024-03-13", "2024-03-12"), "2024-03-08 … 2024-03-12")
    given = window(behind, up_to=StartVariable("day"), given={"day": "2024-03-09"})
    assert bounds(given)[1] == "2024-03-10"
    moments = known(MOMENT, done(MOMENT, "2024-03-07T00:00:00Z"), "2024-03-08T00:00:00Z", "2024-03-08T00:00:00Z")
    assert bounds(window(moments, MOMENT, up_to="2024-03-07T06:00:00Z"))[1] == "2024-03-07 06:00:00 UTC"
    assert bounds(window(moments, MOMENT, up_to="2024-03-09"))[1] == "2024-03-10 00:00:00 UTC"
    with pytest.raises(ArgumentError, match=r"UP TO: 'soon' is not a date"):
        window(behind, up_to="soon")


def test_a_backfill_never_reaches_beyond_what_both_sides_have_and_moves_progress_only_without_a_gap() -> None:
    found = known(DATE, done(DATE, "2024-03-07"), "2024-03-10", "2024-03-12")

    def backfill(start: str, end: str | None) -> WindowPlan:
        asked = backfill_of(start, end, None)
        assert asked is not None
        (part,) = asked.parts(DATE, NOW, {})
        return window(found, part=part)

    past = backfill("2024-03-01", "2024-03-05")
    assert (bounds(past), past.moves_on) == (("2024-03-01", "2024-03-06", "2024-03-05"), False)
    assert past.next_watermark(None, NOW) == cursor(DATE, "2024-03-07")
    beyond = backfill("2024-03-08", "2024-03-31")
    assert (bounds(beyond), beyond.moves_on) == (("2024-03-08", "2024-03-10", "2024-03-09"), True)
    gap = backfill("2024-03-09", None)
    assert (gap.moves_on, gap.next_watermark(None, NOW)) == (False, cursor(DATE, "2024-03-07"))


def test_rows_that_somebody_removed_are_joined_again_and_a_reset_starts_over() -> None:
    versions_with_removals = Commit(3, "", "DELETE", {}, None, removes_rows=True)
    snapshot = replace(done(DATE, "2024-03-07"), foreign=(versions_with_removals,))
    found = window(known(DATE, snapshot, "2024-03-10", "2024-03-10", low="2024-03-04"))
    assert (bounds(found)[0], found.reason) == ("2024-03-04", "somebody else removed rows: 2024-03-04 … 2024-03-09")
    snapshot = done(DATE, "2024-03-07")
    assert snapshot.record is not None
    reset = replace(snapshot, record=snapshot.record.with_(reset=("shop",)))
    anew = window(known(DATE, reset, "2024-03-10", "2024-03-10", low="2024-03-01"))
    assert anew.reason == "from the beginning: 2024-03-01 … 2024-03-09"


def test_times_of_another_type_than_before_are_refused() -> None:
    with pytest.raises(StateError, match=r"joined up to 7, a integer, and its sides have times of type date now"):
        window(known(DATE, done(NUMBER, "7"), "2024-03-10", "2024-03-10"))


def test_all_windows_so_far_are_one() -> None:
    found = known(DATE, done(DATE, "2024-03-07"), "2024-03-10", "2024-03-10", low="2024-03-01")
    assert bounds(big_window(table(), DATE, found)) == ("2024-03-01", "2024-03-08", "2024-03-07")
    assert bounds(big_window(table(start="2024-03-03"), DATE, found))[0] == "2024-03-03"


# what the inputs say of themselves


def days(*numbers: int) -> pa.Table:
    return pa.table({"day": pa.array([date(2024, 3, number) for number in numbers], pa.date32())})


def test_a_table_of_ours_is_complete_to_its_progress_minus_its_lookback_and_a_join_to_its_own(
    make_table: Callable[..., Path],
) -> None:
    path = make_table("main.a", days(1, 7), progress={"in": cursor(DATE, "2024-03-07")})
    ours = Table("main.a", str(path), Append(), Window("Day", lookback=Duration(2, "day")), input="in")
    told = side_by_progress(ours, "a", "day")
    assert told == SideState("a", cursor(DATE, "2024-03-07"), cursor(DATE, "2024-03-05"))
    joined = replace(ours, strategy=IncrementalJoin(), window=Window("day"))
    own = side_by_progress(joined, "a", "day")
    assert own == SideState("a", cursor(DATE, "2024-03-07"), cursor(DATE, "2024-03-08"))
    for silent in (None, replace(ours, window=None), replace(ours, strategy=Replace()), replace(ours, input="other")):
        assert side_by_progress(silent, "a", "day") is None
    assert side_by_progress(ours, "a", "at") is None


def planned(snapshot: Snapshot | None, found: list[tuple[SideState | None, Cursor | None]]) -> str:
    plan = plan_join(table(), snapshot, join_facts_by_log(table(), snapshot, found), None, {})
    return " · ".join([plan.reason, *plan.notices])


def test_a_plan_knows_the_sides_by_the_statistics_in_their_logs(make_table: Callable[..., Path], folder: Path) -> None:
    a, b = make_table("main.a", days(1, 8)), make_table("main.b", days(2, 20))
    found = [side_by_log(side, None, str(path), name) for side, path, name in ((JOIN.a, a, "a"), (JOIN.b, b, "b"))]
    assert [low for _, low in found] == [cursor(DATE, "2024-03-01"), cursor(DATE, "2024-03-02")]
    assert planned(None, found) == (
        "first run: 2024-03-01 … 2024-03-07 · a holds it back: its newest is 2024-03-08, that of b 2024-03-20"
    )
    assert planned(None, [(None, None), (None, None)]) == "from the beginning, up to what both sides have in full"
    folder.joinpath("files").mkdir()
    pq.write_table(days(1, 8), folder / "files" / "days.parquet")
    assert side_by_log(JOIN.a, None, str(folder / "files"), "a") == (None, None)
    nowhere = side_by_log(JOIN.a, None, None, "a")
    assert planned(done(DATE, "2024-03-07"), [nowhere, found[1]]) == (
        "after 2024-03-07, up to what both sides have in full"
    )


def test_statistics_are_read_for_times_of_every_type_and_for_partitions(make_table: Callable[..., Path]) -> None:
    at = datetime(2024, 3, 1, 10, 30, tzinfo=UTC)
    rows = pa.table(
        {
            "n": pa.array([3, 5]),
            "at": pa.array([at, at], pa.timestamp("us", tz="UTC")),
            "local": pa.array([at.replace(tzinfo=None)] * 2, pa.timestamp("us")),
            "text": pa.array(["x", "y"]),
        }
    )
    path = str(make_table("main.t", rows))
    assert log_at(str(path)).times("N") == (Cursor(NUMBER, 3), Cursor(NUMBER, 5))
    assert log_at(str(path)).times("at") == (Cursor(MOMENT, at), Cursor(MOMENT, at))
    local = Cursor(CursorKind.TIMESTAMP_NTZ, at.replace(tzinfo=None))
    assert log_at(str(path)).times("local") == (local, local)
    assert log_at(str(path)).times("text") is None
    assert log_at(str(path)).times("no_such_column") is None
