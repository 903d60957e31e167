"""What becomes of the rows of a change does not depend on how it is sent to the rows of its target."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidemill.changes import match
from tidemill.changes.match import CHANGED, NEW, SAME, Match
from tidemill.changes.profile import profile
from tidemill.declarations import Merge
from tidemill.formats.base import Change, Target
from tidemill.formats.delta.store import DeltaStore

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

NAN, NULL = float("nan"), None
HELD = [(0.0, NAN), (1.0, NULL), (2.0, 0.0), (3.0, 1.0), (4.0, NULL), (NAN, 5.0), (9.0, 9.0)]
COMING = [(-0.0, NAN), (1.0, NULL), (2.0, -0.0), (3.0, NULL), (4.0, 1.0), (NAN, 6.0), (7.0, 7.0)]
SENT = {"whole": (7, 7, 0), "whole, as it is short": (0, 7, 1000), "by its keys": (0, 7, 0), "not at all": (0, 0, 0)}


def _rows(spark: SparkSession, values: list[tuple[float, float | None]]) -> DataFrame:
    return spark.createDataFrame(values, "k double, v double")


@pytest.fixture(params=SENT)
def matched(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Match:
    for name, most in zip(("FEW_ROWS", "FEW_KEYS", "FEW_BYTES"), SENT[request.param], strict=True):
        monkeypatch.setattr(match, name, most)
    _rows(spark, HELD).write.format("delta").save(str(tmp_path / "t"))
    store, coming = DeltaStore(str(tmp_path / "t")), _rows(spark, COMING)
    snapshot = store.snapshot()
    assert snapshot is not None
    change = Change(coming, profile(coming, keys=["k"], measured=True))
    return Match(Merge(("k",)), change, Target("t", store.read(spark), snapshot, store.log.reach))


def _keys(rows: DataFrame) -> list[str]:
    return sorted(str(abs(row["k"])) for row in rows.collect())


def test_every_row_has_its_fate_however_the_change_is_sent(matched: Match) -> None:
    judged = matched.judged()
    assert (judged[NEW], judged[CHANGED], judged[SAME], judged.repeats) == (1, 3, 3, False)
    assert _keys(judged.having(NEW, CHANGED)) == ["3.0", "4.0", "7.0", "nan"]
    assert _keys(judged.having(CHANGED)) == ["3.0", "4.0", "nan"]
    assert judged.having(NEW, CHANGED).columns == ["k", "v"]


def test_a_key_that_stands_in_two_rows_is_seen_however_the_change_is_sent(
    matched: Match, spark: SparkSession, tmp_path: Path
) -> None:
    """The second row differs from the first, and lies in another file."""
    _rows(spark, [(-0.0, 1.0)]).write.format("delta").mode("append").save(str(tmp_path / "t"))
    judged = matched.judged()
    assert judged.repeats
    assert judged[NEW] == 1
    assert [tuple(row) for row in matched.held_twice().collect()] == [(0.0,)]


def test_what_is_written_is_what_was_judged_though_the_source_moves_on(
    matched: Match, spark: SparkSession, tmp_path: Path
) -> None:
    """Large files are not kept: they are read again each time that their rows are asked for."""
    source = str(tmp_path / "source")
    matched.change.rows.write.format("delta").save(source)
    rows = spark.read.format("delta").load(source)
    judged = Match(matched.strategy, Change(rows, profile(rows, keys=["k"])), matched.target).judged()
    _rows(spark, [(9.0, 1.0), (8.0, 8.0)]).write.format("delta").mode("append").save(source)
    assert _keys(judged.having(NEW, CHANGED)) == ["3.0", "4.0", "7.0", "nan"]
