"""The incremental join called from a table function: its window is the run's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tables.conftest import write

if TYPE_CHECKING:
    from tables.conftest import League

SOURCES = """
SOURCE bank TYPE CSV PARAMS { "path": "bank.csv", "header": true, "schema": "reference STRING, day DATE" };
SOURCE sepa TYPE CSV PARAMS { "path": "sepa.csv", "header": true, "schema": "reference STRING, day DATE" };
LOAD bronze.bank FROM bank;
LOAD bronze.sepa FROM sepa;
"""
PAYMENTS = """
import tidemill

@tidemill.table(keys=["reference"], time_column="target_time", start="2026-02-01", reads=["bronze.bank", "bronze.sepa"])
def payments(run):
    return tidemill.incremental_join(
        run.read("bronze.bank"), run.read("bronze.sepa"), on="reference", how="left", a_time="day", b_time="day",
        look_back="2 days", look_forward="2 days", start=run.start, end=run.end,
        select=["reference", "target_time", "join_status"],
    )
"""


def test_a_function_joins_the_dates_of_its_run(league: League) -> None:
    write({"payments.py": PAYMENTS, "pipelines/bank.sql": SOURCES})
    Path("bank.csv").write_text("reference,day\nR1,2026-02-01\nR2,2026-02-02\n", encoding="utf-8")
    Path("sepa.csv").write_text("reference,day\nR1,2026-02-03\n", encoding="utf-8")
    assert league.run("2026-02-02")["payments"].counts.inserted == 0
    done = league.run("2026-02-04")["payments"]
    assert (done.counts.inserted, str(done.watermark)) == (2, "2026-02-04")
    assert league.rows("payments", "reference", "join_status") == [("R1", "b_late"), ("R2", "outdated")]
    assert league.run("2026-02-04")["payments"].status == "unchanged"
