"""Records outlive the version that wrote them: each format stays readable, and one from the future is refused."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

from tidemill import Cursor, Record
from tidemill.errors import StateError
from tidemill.formats.delta.log import DeltaLog
from tidemill.formats.registry import view_record
from tidemill.model.record import RECORD_FORMAT
from tidemill.results import CursorKind, InputRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

GOLDEN = Path(__file__).parent / "golden_records"
DAY = Cursor(CursorKind.INTEGER, 20_240_131)

# Every field of a record, none with its default. What this gives must never change within one format.
WHOLE = Record(
    run_id="7d0c-1",
    table="main.orders",
    sequence=12,
    strategy="merge upsert",
    at="2024-01-31T21:00:00.000000Z",
    rows=57,
    counts={"unchanged": 7},
    remainder="ignored",
    keys=("order_id", "region"),
    unique=True,
    window={"column": "day", "reason": "since 20240131"},
    progress={"orders": DAY},
    highest=DAY,
    floor=DAY,
    sql_hash="a1",
    config_hash="b2",
    declared_strategy="merge on order_id, region",
    columns=("order_id", "region", "day"),
    input_versions={"orders": "c3@4.d5"},
    inferred_schema="order_id BIGINT",
    restored_from=3,
    reset=("returns",),
    backfill={"until": "20240201"},
    base=11,
    held=1000,
    expectations={"positive": 2},
    joined={"matched": 5, "until": "2024-02-01"},
    same_rows_as=9,
    read_versions={"customers": "e6@7.f8"},
    inputs={"returns": InputRecord(("id",), "day", DAY, DAY, "g9")},
    refresh={"mode": "incremental", "changed": {"orders": 348}},
    sums="h1@5.i2",
)


def golden(number: int) -> str:
    return (GOLDEN / f"record-{number}.json").read_text().strip()


def test_a_record_of_this_format_is_written_and_read_as_its_golden_copy_says() -> None:
    """A field that is renamed, or means something else, needs a new format and a new golden copy beside this one."""
    assert WHOLE.to_json() == golden(RECORD_FORMAT)
    assert Record.from_json(golden(RECORD_FORMAT)) == WHOLE


def test_the_golden_copy_has_every_field() -> None:
    written = json.loads(golden(RECORD_FORMAT))["tidemill"]
    assert set(written) == {"kept_by" if each.name == "declared_strategy" else each.name for each in fields(Record)}
    assert set(written["inputs"]["returns"]) == {each.name for each in fields(InputRecord)}


@pytest.mark.parametrize("number", range(1, RECORD_FORMAT + 1))
def test_every_format_that_was_ever_written_is_read(number: int) -> None:
    record = Record.from_json(golden(number))
    assert record is not None
    assert (record.table, record.sequence, record.progress) == ("main.orders", 12, {"orders": DAY})


def written(**said: object) -> str:
    plain: Mapping[str, object] = {"run_id": "r", "table": "main.orders", "sequence": 1, "strategy": "append", "at": ""}
    return json.dumps({"tidemill": {**plain, **said}}, separators=(",", ":"))


@pytest.mark.parametrize("number", [RECORD_FORMAT + 1, 99, "2.0", None])
def test_a_record_of_a_newer_format_is_refused_whole(number: object) -> None:
    with pytest.raises(StateError) as refused:
        Record.from_json(written(format=number, sequence={"a": "thing that nobody here knows"}))
    assert refused.value.code == "state.newer_record"
    assert "Upgrade Tidemill" in refused.value.remedy
    assert "main.orders was written by a newer Tidemill" in str(refused.value)
    assert f"formats up to {RECORD_FORMAT}" in str(refused.value)


def test_a_field_that_was_added_within_a_format_is_left_out() -> None:
    record = Record.from_json(written(format=RECORD_FORMAT, later_news="x"))
    assert record is not None
    assert record.table == "main.orders"


def test_no_log_of_a_newer_tidemill_is_half_read(tmp_path: Path) -> None:
    """Neither that of a table, nor the record of a view; nothing treats it as a table of others."""
    newer = written(format=RECORD_FORMAT + 1)
    said = CommitProperties(custom_metadata={"userMetadata": newer}, app_transactions=[Transaction("tidemill", 1)])
    write_deltalake(tmp_path / "t", pa.table({"id": [1]}), commit_properties=said)
    (tmp_path / "_v.view.json").write_text(newer)
    log = DeltaLog(str(tmp_path / "t"))
    for read in (log.snapshot, lambda: list(log.commits()), lambda: view_record(str(tmp_path / "v"))):
        with pytest.raises(StateError, match=r"state\.newer_record"):
            read()
