"""Watermarks can be seen and set; they live in the tables' own logs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from delta.tables import DeltaTable, IdentityGenerator
from delta_rows import delta_rows

from tidemill.cli.main import tidemill
from tidemill.formats.delta.log import DeltaLog

if TYPE_CHECKING:
    from pipelines.conftest import Shop

TEXT = """
SOURCE events TYPE CSV PARAMS { "path": "data/events.csv" } INCREMENTAL BY at LOOKBACK 1 HOUR;
LOAD appended FROM events MODE APPEND OPTIONS { "on_schema_change": "append_new_columns" };
LOAD merged FROM events MODE MERGE ON id;
"""
ROWS = [(1, "2024-01-01 10:00:00"), (2, "2024-01-02 10:00:00"), (3, "2024-01-03 10:00:00")]


@pytest.fixture
def fed(shop: Shop) -> Shop:
    shop.says(TEXT).data("events.csv", "id at", *ROWS)
    shop.run()
    return shop


def command(*args: str) -> dict[str, object]:
    result = CliRunner().invoke(tidemill, [*args, "--format", "json"])
    found = json.loads(result.output)
    assert isinstance(found, dict)
    return {"exit_code": result.exit_code, **found}


def shown(shop: Shop) -> list[str | None]:
    return [each["watermark"] for each in command("show-watermarks", str(shop.file))["watermarks"]]  # type: ignore[attr-defined]


def content(shop: Shop) -> list[str]:
    """Differs whenever the rows of the tables may."""
    found = [DeltaLog(str(shop.path(name))).snapshot() for name in ("appended", "merged")]
    return [each.content for each in found if each]


def test_watermarks_are_shown_and_survive_without_a_ledger(fed: Shop) -> None:
    assert shown(fed) == ["2024-01-03T10:00:00.000000Z"] * 2


def test_a_reset_reads_everything_again_and_doubles_nothing(fed: Shop) -> None:
    refused = command("reset-watermark", str(fed.file), "events")
    assert (refused["exit_code"], refused["error"]["code"]) == (2, "watermark.not_confirmed")  # type: ignore[index]
    before = content(fed)
    command("reset-watermark", str(fed.file), "events", "--confirm")
    assert shown(fed) == [None, None]
    result = {name: outcome.result for name, outcome in fed.run().items()}
    assert [each.rows_read for each in result.values()] == [3, 3]
    assert result["appended"].window.reason == "its watermark was reset: everything is read"
    assert [len(fed.rows(name)) for name in ("appended", "merged")] == [3, 3]
    assert shown(fed) == ["2024-01-03T10:00:00.000000Z"] * 2
    assert [outcome.result.status for outcome in fed.run().values()] == ["up to date"] * 2
    assert content(fed) == before, "whoever reads them has nothing to do"


def test_a_new_column_of_a_source_whose_rows_are_here_is_reported_once(fed: Shop) -> None:
    def again() -> tuple[int, tuple[str, ...]]:
        fed.data("events.csv", "id at extra", *((*row, 7) for row in ROWS))  # a file that was never seen before
        result = fed.step("appended")
        assert result.status == "unchanged"
        return fed.version("appended"), result.notices

    noted, (notice,) = again()
    assert notice.startswith("its query or its columns changed: rows up to 2024-01-03 10:00:00 UTC stay as")
    assert again() == (noted, ())


def test_a_watermark_that_is_set_is_where_the_next_run_begins(fed: Shop) -> None:
    command("set-watermark", str(fed.file), "events", "2024-01-02T10:00:00Z", "--table", "merged")
    assert shown(fed) == ["2024-01-03T10:00:00.000000Z", "2024-01-02T10:00:00.000000Z"]
    fed.data("events.csv", "id at", *ROWS, (4, "2024-01-02 11:00:00"))
    result = {name: outcome.result for name, outcome in fed.run().items()}
    assert result["merged"].window.reason == "since 2024-01-02 10:00:00 UTC, lookback 1 hour"
    assert [len(fed.rows(name)) for name in ("appended", "merged")] == [3, 4]


def test_a_value_of_another_type_an_unknown_source_and_a_table_never_run_are_errors(fed: Shop) -> None:
    wrong = command("set-watermark", str(fed.file), "events", "yesterday")
    assert wrong["error"]["problem"] == "'yesterday' is not a timestamp."  # type: ignore[index]
    unknown = command("set-watermark", str(fed.file), "evnets", "2024-01-01")
    assert unknown["error"]["remedy"] == "Did you mean events? Those that do: events."  # type: ignore[index]
    fed.file.write_text(TEXT.replace("merged", "fresh"))
    never = command("set-watermark", str(fed.file), "events", "2024-01-01", "--table", "fresh")
    assert never["error"]["problem"] == (  # type: ignore[index]
        "fresh has not been run yet, so there is no log to hold its watermark."
    )


def test_a_commit_that_changes_no_row_leaves_columns_to_the_table_that_it_fills_itself(shop: Shop) -> None:
    made = DeltaTable.create(shop.spark).location(str(shop.path("merged")))
    made = made.addColumn("id", "INT").addColumn("at", "TIMESTAMP")
    made.addColumn("number", "BIGINT", generatedAlwaysAs=IdentityGenerator()).execute()
    text = TEXT.replace("MERGE ON id", 'MERGE ON id OPTIONS { "on_schema_change": "ignore" }')
    shop.says(text).data("events.csv", "id at", *ROWS)
    assert shop.step("merged").counts.inserted == 3
    shop.says(text.replace("1 HOUR", "3 HOURS"))
    before = shop.version("merged")
    assert (shop.step("merged").status, shop.version("merged")) == ("unchanged", before + 1)
    assert len(set(delta_rows(shop.path("merged"), "number"))) == 3
