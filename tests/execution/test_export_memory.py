"""An export that would write what is there already is not written; known without Spark."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest

from tidemill.declarations import Append, Merge, Query, Replace
from tidemill.execution.catalog import Catalog
from tidemill.execution.exports.options import FOLDER, ExportMemory
from tidemill.execution.runner import Runner
from tidemill.model.graph import Graph
from tidemill.model.query import Export

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

ROWS = pa.table({"id": [1, 2]})


def export(folder: Path, target: str = "out.csv", kind: str = "csv", mode: Any = None, **options: Any) -> Export:
    query = Query(("SELECT * FROM daily",))
    given = {"inputs": ("main.daily",), "mode": mode or Replace(), "options": options, "folder": folder}
    return Export(target, target, kind, query, **given)


@pytest.fixture
def memory(tmp_path: Path) -> ExportMemory:
    return ExportMemory(str(tmp_path / "warehouse"))


@pytest.fixture
def kept(tmp_path: Path, memory: ExportMemory) -> Export:
    """An export of one file that was written and kept."""
    (tmp_path / "out.csv").write_text("id\n1\n")
    memory.keep(export(tmp_path), "v1", 1)
    return export(tmp_path)


def test_the_same_query_options_inputs_and_file_are_the_same_export(kept: Export, memory: ExportMemory):
    assert memory.holds(kept, "v1")
    others = [replace(kept, query=Query(("SELECT 1",))), replace(kept, mode=Append()), replace(kept, target="b.csv")]
    others += [replace(kept, options={"sep": ";"}), replace(kept, kind="json")]
    assert [memory.holds(other, "v1") for other in others] == [False] * 5
    assert not memory.holds(kept, "v2")
    assert not memory.holds(kept, None)


def test_a_file_that_somebody_has_changed_or_removed_is_written_again(
    tmp_path: Path, kept: Export, memory: ExportMemory
):
    file = tmp_path / "out.csv"
    then = file.stat().st_mtime_ns
    file.write_text("id\n2\n")
    os.utime(file, ns=(then, then + 1000))
    assert not memory.holds(kept, "v1")
    file.unlink()
    assert not memory.holds(kept, "v1")


def test_a_folder_is_known_by_its_files_and_a_delta_table_by_its_commits(tmp_path: Path, memory: ExportMemory):
    folder, table = export(tmp_path, "out", "parquet"), export(tmp_path, "delta", "delta", Merge(("id",)))
    (tmp_path / "out/day=1").mkdir(parents=True)
    (tmp_path / "out/day=1/part.parquet").write_text("x")
    deltalake.write_deltalake(tmp_path / "delta", ROWS)
    for each in (folder, table):
        memory.keep(each, "v1", 2)
    (tmp_path / "out/_SUCCESS").write_text("")
    assert [memory.holds(each, "v1") for each in (folder, table)] == [True, True]
    (tmp_path / "out/day=1/more.parquet").write_text("x")
    deltalake.write_deltalake(tmp_path / "delta", ROWS, mode="append")
    assert [memory.holds(each, "v1") for each in (folder, table)] == [False, False]


def test_what_others_add_to_the_target_of_an_append_is_no_reason_to_append_again(tmp_path: Path, memory: ExportMemory):
    appended = export(tmp_path, mode=Append())
    (tmp_path / "out.csv").write_text("id\n1\n")
    memory.keep(appended, "v1", 1)
    (tmp_path / "out.csv").write_text("id\n1\n7\n")
    assert memory.holds(appended, "v1")
    (tmp_path / "out.csv").unlink()
    assert not memory.holds(appended, "v1")


def test_a_database_is_not_looked_at_and_a_new_password_changes_nothing(tmp_path: Path, memory: ExportMemory):
    rows = export(tmp_path, "shop.daily", "postgres", url="postgresql://u:old-secret@host/db")
    memory.keep(rows, "v1", 1)
    assert memory.holds(replace(rows, options={"url": "postgresql://u:new-secret@host/db"}), "v1")
    assert not memory.holds(replace(rows, options={"url": "postgresql://u:old-secret@other/db"}), "v1")
    written = "".join(file.read_text() for file in (tmp_path / "warehouse" / FOLDER).iterdir())
    assert "secret" not in written


@pytest.mark.parametrize("left", ["", "{", "[]", '{"made_of": 1}'])
def test_a_memory_that_is_gone_or_broken_means_that_the_export_is_written(
    tmp_path: Path, kept: Export, memory: ExportMemory, left: str
):
    (file,) = (tmp_path / "warehouse" / FOLDER).iterdir()
    file.write_text(left)
    assert not memory.holds(kept, "v1")
    file.unlink()
    assert not memory.holds(kept, "v1")


def test_a_memory_that_cannot_be_kept_is_a_warning(tmp_path: Path, kept: Export, caplog: pytest.LogCaptureFixture):
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.WARNING, "tidemill"):
        ExportMemory(str(tmp_path / "file")).keep(kept, "v1", 1)
    assert caplog.messages[0].startswith("out.csv was written, but that cannot be kept in _tidemill/exports: ")


def no_spark() -> SparkSession:
    raise AssertionError


def test_a_run_with_nothing_to_export_starts_no_spark_until_an_input_has_a_commit(tmp_path: Path, memory: ExportMemory):
    daily = str(tmp_path / "daily")
    deltalake.write_deltalake(daily, ROWS)
    out = export(tmp_path)
    runner = Runner(no_spark, Graph.of([out]), Catalog({"main.daily": daily}.get), {}, memory)
    source = runner.query_of(out)
    (tmp_path / "out.csv").write_text("id\n1\n2\n")
    memory.keep(out, source.version(), 2)
    (outcome,) = runner.run().outcomes
    assert outcome.result is not None
    assert (outcome.result.status, outcome.result.path) == ("up to date", str(tmp_path / "out.csv"))
    deltalake.write_deltalake(daily, ROWS, mode="append")
    (failed,) = runner.run().outcomes
    assert failed.error is not None
