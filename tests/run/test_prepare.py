from __future__ import annotations

from typing import TYPE_CHECKING

import deltalake
import pytest
from support import NOW, Rows, events, keyed

from tidemill.run.step import run_step

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tidemill.sources.protocol import Reading


class InParts(Rows):
    """Rows that come in three parts."""

    def read(self, reading: Reading, columns: Sequence[str] = ()) -> DataFrame:
        return super().read(reading, columns).repartition(3, "id")


@pytest.mark.parametrize(("settled", "files"), [(False, 1), (True, 3)])
def test_few_rows_are_one_file_unless_their_source_may_keep_many_more(
    spark: SparkSession, tmp_path: Path, settled: bool, files: int
) -> None:
    rows = InParts(events(*[(n, n, "a") for n in range(100)]), settled=settled)
    run_step(spark, keyed(tmp_path / "events"), rows, now=NOW)
    assert len(deltalake.DeltaTable(str(tmp_path / "events")).file_uris()) == files
