"""Results in notebooks: small tables of HTML, in which nothing of the rows is read as HTML."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import TYPE_CHECKING

import tidemill
from tidemill import MergeResult, PastRun, PastRuns, RunResult, RunStep, Verified, VerifiedTables
from tidemill.errors import MergeError
from tidemill.results import Found, Kind, PastStep

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


class Cells(HTMLParser):
    """The caption, then the cells of each line."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.caption, self.lines, self._at = "", [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in {"table", "caption", "thead", "tbody", "tr", "th", "td"}, tag
        assert {name for name, _ in attrs} <= {"style"}
        self._at = tag
        if tag == "tr":
            self.lines.append([])
        elif tag in {"th", "td"}:
            self.lines[-1].append("")

    def handle_endtag(self, _: str) -> None:
        self._at = ""

    def handle_data(self, data: str) -> None:
        if self._at in {"th", "td"}:
            self.lines[-1][-1] += data
        elif self._at == "caption":
            self.caption += data


def test_a_merge_is_a_line_of_counts():
    result = MergeResult(1200, 1, 0, 3, 0, 1204, 2, 5, 0.84, 7, status="changed", notices=("it's <b>new</b>",))
    found = Cells(result._repr_html_())
    assert found.caption == "changed · it's <b>new</b>"
    assert found.lines == [
        ["inserted", "updated", "deleted", "unchanged", "total", "files_rewritten", "files_kept", "seconds"],
        ["1,200", "1", "0", "3", "1,204", "2", "5", "0.8"],
    ]


def test_a_run_is_a_line_for_each_step_with_why_it_failed():
    error = MergeError("merge.null_keys", "4 rows have no <id>.", "Leave them out.")
    steps = (
        RunStep("orders", "created", rows_read=3, inserted=3, total=3),
        RunStep("daily", "failed", error=error),
        RunStep("report", "not run", waits_for="daily"),
    )
    found = Cells(RunResult(steps, 2.0)._repr_html_())
    assert found.caption == "failed in 2.0 s"
    assert found.lines[1] == ["orders", "created", "3", "3", "0", "0", "0", "3", ""]
    assert found.lines[2][0::8] == ["daily", "[merge.null_keys] 4 rows have no <id>."]
    assert found.lines[3][0::8] == ["report", "waits for daily"]


def test_verified_tables_are_a_table_as_text_and_as_html():
    kept = Verified("daily", "its query", rows=2, total=3, found={Kind.KEPT: Found(1)}, remedies=("Use FULL_MERGE.",))
    found = VerifiedTables([kept, Verified("api", "a function", verifiable=False, notes=("not verifiable",))])
    assert repr(found).splitlines() == [
        "table  outcome         rows  total  missing  extra  different  kept  ignored  notes",
        "daily  kept               2      3        0      0          0     1        0  Use FULL_MERGE.",
        "api    not verifiable                                                         not verifiable",
    ]
    assert Cells(found._repr_html_()).lines[1] == [
        "daily",
        "kept",
        "2",
        "3",
        "0",
        "0",
        "0",
        "1",
        "0",
        "Use FULL_MERGE.",
    ]
    assert Cells(kept._repr_html_()).lines[1][0] == "daily"


def test_a_history_is_a_list_of_commits_that_prints_as_a_table(spark: SparkSession, tmp_path: Path):
    target = tmp_path / "lake"
    tidemill.merge([{"id": 1, "v": "a"}, {"id": 2, "w": 0.5}], target, on="id", spark=spark)
    found = tidemill.history(target)
    assert isinstance(found, list)
    assert found[0].record is not None
    head, line = repr(found).splitlines()
    assert head.split() == ["version", "when", "what", "rows", "window", "watermark"]
    assert line.split()[0] == "0"
    assert line.endswith("merge upsert  +2")
    assert Cells(found._repr_html_()).lines[1][2:4] == ["merge upsert", "+2"]


def test_past_runs_are_a_list_that_prints_as_a_table_and_each_shows_its_steps():
    step = PastStep(
        "daily", "failed", "replace", "full", "no window", "2026-01-02T03:04:06.000Z", 0.5, None, None,
        *(0, 0, 0, 0, 0), None, None, "query.failed", "No column <x>.", "/lake/daily",
    )  # fmt: skip
    began, ended = "2026-01-02T03:04:05.678Z", "2026-01-02T03:04:07.000Z"
    run = PastRun("4f1c", "run", "failed", None, began, ended, 1.32, None, None, (step,))
    found = PastRuns([run])
    assert repr(found).splitlines() == [
        "run   started              command  status  steps         seconds",
        "4f1c  2026-01-02 03:04:05  run      failed  daily failed      1.3",
    ]
    assert repr(PastRuns()) == "no runs"
    assert Cells(found._repr_html_()).lines[1] == [
        "4f1c",
        "2026-01-02 03:04:05",
        "run",
        "failed",
        "daily failed",
        "1.3",
    ]
    one = Cells(run._repr_html_())
    assert one.caption == "run · failed · 2026-01-02 03:04:05 · 1.3 s"
    assert one.lines[1] == ["daily", "failed", "full", "no window", "", "0", "0", "0", "0", "0.5", "No column <x>."]
