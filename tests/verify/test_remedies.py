"""What to do about rows that a run would not read: it depends on why they are not there."""

from __future__ import annotations

from typing import Any

from tidemill import Table
from tidemill.declarations import Append, Merge, NullTime, Window
from tidemill.model.cursor import cursor
from tidemill.planning.windows import WindowPlan
from tidemill.results import CursorKind, Found, Kind
from tidemill.verify.result import remedies

REACH = WindowPlan("at", CursorKind.DATE, "since …", NullTime.FAIL, start=cursor("date", "2024-02-01"))
BELOW = "below what a run reads (at from 2024-02-01 on)"


def table(strategy: Append | Merge, **more: Any) -> Table:
    return Table("my_schema.orders", "orders", strategy, Window("at"), **more)


def test_rows_below_the_window_came_late_unless_the_query_was_another():
    found = {Kind.MISSING: Found(3, late=2), Kind.DIFFERENT: Found(1, late=1)}
    soon, missing, different = remedies(table(Merge(("id",))), found, REACH)
    assert soon == "1 row has not been read yet or was changed here by somebody else: tidemill run corrects it"
    assert missing == (
        f"2 rows came later than the lookback, {BELOW}: a longer lookback takes such rows in time, a backfill "
        "(tidemill run --start) takes these"
    )
    again = "a backfill (tidemill run --start) writes them again"
    assert different == f"1 row changed without a newer at, {BELOW}: {again}"
    _, old = remedies(table(Merge(("id",))), found, REACH, requeried=True)
    assert old == (
        f"3 rows lie {BELOW}: its query has changed since that time was read, or they came later than the lookback. "
        "tidemill run -s my_schema.orders --full-refresh makes all rows by the query as it is now, a backfill "
        "(tidemill run --start) those from a time on"
    )
    kept = table(Merge(("id",)), reset_allowed=False)
    (told,) = remedies(kept, {Kind.MISSING: Found(1, late=1)}, REACH, requeried=True)
    assert told == (
        f"1 row lies {BELOW}: its query has changed since that time was read, or it came later than the lookback. "
        "A backfill (tidemill run --start) makes those from a time on by the query as it is now"
    )


def test_rows_that_only_an_append_holds_may_be_of_an_old_query():
    (told,) = remedies(table(Append()), {Kind.EXTRA: Found(2)}, REACH, requeried=True)
    assert told.startswith("2 rows are here that the source does not give: made by a query that it no longer has, ")
    (told,) = remedies(table(Append()), {Kind.EXTRA: Found(2)}, REACH)
    assert told == (
        "2 rows are here that the source does not give: corrected there (then both versions are here), removed there, "
        "or added here by somebody else; a merge on the keys keeps one version of a row"
    )
