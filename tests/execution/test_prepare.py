from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import deltalake
import pytest
from support import NOW, Rows, events, keyed

from tidemill.execution.step import run_step

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tidemill.sources import Reading


ADAPTIVE = "spark.sql.adaptive.enabled"


class InParts(Rows):
    """Rows that come in three parts."""

    def read(self, reading: Reading, columns: Sequence[str] = ()) -> DataFrame:
        return super().read(reading, columns).repartition(3, "id")


@dataclass
class Seen(Rows):
    """Rows, and how the session plans on which they were read."""

    session: SparkSession | None = None

    def read(self, reading: Reading, columns: Sequence[str] = ()) -> DataFrame:
        self.session = reading.spark
        return super().read(reading, columns)

    @property
    def is_hastened(self) -> bool:
        assert self.session is not None
        return self.session.conf.get(ADAPTIVE) == "false"


def test_few_rows_that_meet_little_of_a_table_are_handled_without_generated_code(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = spark.newSession()
    caller.conf.set(ADAPTIVE, "true")
    table, few, many = keyed(tmp_path / "events"), [(1, 1, "a"), (2, 2, "b")], [(n, n, "a") for n in range(10_001)]

    def hastened(rows: list[tuple[int, int, str]], *, settled: bool = False) -> bool:
        source = Seen(events(*rows), settled=settled)
        run_step(caller, table, source, now=NOW)
        return source.is_hastened

    assert hastened(few), "a first load"
    assert not hastened(many), "many rows"
    assert hastened([(1, 1, "c")])
    assert not hastened([(1, 1, "d")], settled=True), "the source may be much larger than what is read of it"
    monkeypatch.setattr("tidemill.execution.attempt.NEAR", 0)
    assert not hastened([(1, 1, "e")]), "a file that may hold its key is too large"
    assert hastened([(20_000, 1, "f")]), "no file can hold its key"
    assert caller.conf.get(ADAPTIVE) == "true"


@pytest.mark.parametrize(("settled", "files"), [(False, 1), (True, 3)])
def test_few_rows_are_one_file_unless_their_source_may_keep_many_more(
    spark: SparkSession, tmp_path: Path, settled: bool, files: int
) -> None:
    rows = InParts(events(*[(n, n, "a") for n in range(100)]), settled=settled)
    run_step(spark, keyed(tmp_path / "events"), rows, now=NOW)
    assert len(deltalake.DeltaTable(str(tmp_path / "events")).file_uris()) == files
