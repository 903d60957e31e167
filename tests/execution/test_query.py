"""A query as a source: when it has to run again."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import deltalake
import pyarrow as pa

from tidemill.execution.catalog import Catalog
from tidemill.execution.producers import QuerySource
from tidemill.model.query import Query

if TYPE_CHECKING:
    from pathlib import Path


def test_its_version_changes_with_a_commit_and_when_a_table_that_it_reads_is_dropped_and_created_again(tmp_path: Path):
    table, rows = tmp_path / "orders", pa.table({"id": [1]})
    catalog = Catalog(lambda _: str(table))
    query = QuerySource("main.daily", Query(("SELECT * FROM orders",)), ("orders",), catalog, datetime.now(UTC))

    def version_after(mode: str) -> str | None:
        deltalake.write_deltalake(str(table), rows, mode=mode)
        assert query.version() == query.version()
        return query.version()

    first, appended = version_after("error"), version_after("append")
    shutil.rmtree(table)
    again = version_after("error")
    assert None not in (first, appended, again)
    assert len({first, appended, again}) == 3
