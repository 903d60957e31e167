"""What refreshes took is in the view's own log, and the next ones go by it; most of a view is computed whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.api.workspace import Workspace
from tidemill.formats.delta.log import DeltaLog
from tidemill.planning import costs
from tidemill.planning.costs import past_refreshes

if TYPE_CHECKING:
    import pytest
    from views.conftest import Lake

SUMS = "SELECT k, count(*) AS n, max(v) AS v FROM amounts GROUP BY k"  # a maximum is not added up
AN_HOUR = 3600


def began_earlier(lake: Lake, view: str, version: int, seconds: int) -> None:
    """Lets the refresh of a commit have taken longer."""
    entry = Path(lake.path(view)) / "_delta_log" / f"{version:020}.json"
    actions = [json.loads(line) for line in entry.read_text().splitlines()]
    info = next(each["commitInfo"] for each in actions if "commitInfo" in each)
    info["timestamp"] += seconds * 1000
    entry.write_text("\n".join(map(json.dumps, actions)))
    entry.with_name(f".{entry.name}.crc").unlink(missing_ok=True)


def test_a_view_is_computed_whole_where_that_took_less_than_its_last_incremental_refreshes(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "_FEW_BYTES", 0)  # rules of thumb take small inputs whole
    lake.table("amounts", "id long, k long, v long", *((n, n % 10, n) for n in range(40)))
    lake.view("sums", SUMS, "")
    lake.view("bound", SUMS)
    lake.run()
    for number in (100, 101):
        lake.append("amounts", (number, 1, 1))
        steps = lake.run()
        lake.check_all(steps, "incremental")

    record = lake.snapshot("sums").record
    assert record is not None
    past = past_refreshes(DeltaLog(lake.path("sums")).commits(), record.sql_hash)
    assert [each.is_full for each in past] == [False, False, True]
    assert [each.changed for each in past[:2]] == [1, 1]
    assert all(0 < each.seconds < AN_HOUR and each.size for each in past)

    for view in lake.queries:
        for version in (lake.version(view), lake.version(view) - 1):
            began_earlier(lake, view, version, AN_HOUR)
    lake.append("amounts", (102, 1, 1))
    lake.project()
    planned = {each.table.removeprefix("main."): each.reason for each in Workspace.load(str(lake.folder)).plan()}
    why = "full refresh: the last 2 incremental ones took 360"
    assert planned["sums"].startswith(why), planned
    assert planned["bound"].startswith("incremental: "), "nothing else may be chosen for it"
    steps = lake.run()
    lake.check(steps["sums"], "full")
    assert steps["sums"].refresh["reason"] == planned["sums"]
    lake.check(steps["bound"], "incremental")


def test_a_view_is_computed_whole_where_most_of_its_keys_turn_out_to_have_changed(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "_FEW_BYTES", 0)
    lake.table("amounts", "id long, k long, v long", *((n, n % 10, n) for n in range(100)))
    lake.view("sums", SUMS, "")
    lake.view("bound", SUMS)
    lake.run()
    lake.append("amounts", *((1000 + n, n, 1) for n in range(4)))
    steps = lake.run()
    lake.check(steps["sums"], "full")
    assert steps["sums"].refresh["reason"] == (
        "full refresh: 4 values of k have changed, and the view has 10 rows: computing all of them is faster"
    )
    lake.check(steps["bound"], "incremental")
    lake.append("amounts", *((2000 + n, n, 1) for n in range(3)))
    lake.check_all(lake.run(), "incremental")
