from __future__ import annotations

from datetime import datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import StructType

from tidemill.declarations import Source
from tidemill.errors import ConnectorError
from tidemill.model.cursor import cursor
from tidemill.sources import Reading
from tidemill.sources.registry import connector_for

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

PREAMBLE = """
import pandas as pd
import pyarrow as pa
from datetime import datetime, UTC

"""


def read(spark, folder: Path, code: str, like: str | None = None, run: Any = None, place="fetch.py:rows") -> DataFrame:
    (folder / "fetch.py").write_text(PREAMBLE + code)
    source = Source("games", "PYTHON", {"function": place}, folder=folder)
    return connector_for(source).read(Reading(spark, StructType.fromDDL(like) if like else None, run))


def listed(rows: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in rows.collect()), key=str)


@pytest.mark.parametrize(
    "given",
    [
        "[{'id': 1, 'name': 'a'}, {'id': 2}]",
        "pa.table({'id': [1, 2], 'name': ['a', None]})",
        "pd.DataFrame({'id': [1, 2], 'name': ['a', None]})",
        "run.spark.createDataFrame([(1, 'a'), (2, None)], 'id BIGINT, name STRING')",
    ],
)
def test_a_function_may_return_any_frame_or_a_list_of_dicts(spark, tmp_path, given):
    rows = read(spark, tmp_path, f"def rows(run):\n    return {given}\n", run=SimpleNamespace(spark=spark))
    assert listed(rows) == [(1, "a"), (2, None)]
    assert rows.dtypes == [("id", "bigint"), ("name", "string")]


def test_a_function_may_yield_many_frames_with_other_columns(spark, tmp_path):
    code = """
def rows(run):
    yield [{"id": 1}]
    yield None
    yield []
    yield pa.table({"ID": [2], "at": [datetime(2024, 1, 1, tzinfo=UTC)]})
    yield pd.DataFrame({"id": [3], "extra": [1.5]})
    for number in run.numbers:
        yield [{"id": number}]
"""
    rows = read(spark, tmp_path, code, run=SimpleNamespace(numbers=range(10, 60)))
    assert rows.columns == ["id", "at", "extra"]
    assert rows.count() == 53
    found = {row.id: (row["at"], row.extra) for row in rows.collect()}
    assert found[2] == (datetime.fromisoformat("2024-01-01T00:00:00"), None)
    assert found[3] == (None, 1.5)


def test_a_function_without_parameters_is_called_without(spark, tmp_path):
    assert listed(read(spark, tmp_path, "def rows():\n    return [{'id': 1}]\n")) == [(1,)]


def test_a_function_is_called_once_however_often_its_rows_are_computed(spark, tmp_path):
    code = """
def rows():
    with open(__file__ + ".calls", "a") as calls:
        calls.write("x")
    return [{"id": 1}]
"""
    rows = read(spark, tmp_path, code)
    assert rows.count() == rows.count() == 1
    assert (tmp_path / "fetch.py.calls").read_text() == "x"


def test_columns_take_the_types_of_the_table(spark, tmp_path):
    code = """
def rows():
    yield [{"id": 1, "note": None, "n": None}]
    yield pd.DataFrame({"id": [2.0, None], "n": [1, 2]})
"""
    rows = read(spark, tmp_path, code, like="id BIGINT, note STRING, n INT")
    assert rows.dtypes == [("id", "bigint"), ("note", "string"), ("n", "int")]
    assert listed(rows) == [(1, None, None), (2, None, 1), (None, None, 2)]


def test_a_number_is_not_cut_to_fit(spark, tmp_path):
    rows = read(spark, tmp_path, "def rows():\n    return pd.DataFrame({'id': [1.5]})\n", like="id BIGINT")
    assert rows.dtypes == [("id", "double")]


def test_timestamps_are_exact(spark, tmp_path):
    code = """
def rows():
    return pa.table({
        "at": pa.array([datetime(2024, 1, 1, 1, 2, 3, 456789, tzinfo=UTC)]),
        "local": pa.array([datetime.fromisoformat("2024-03-10T02:30:00.000001")]),
    })
"""
    rows = read(spark, tmp_path, code)
    assert rows.dtypes == [("at", "timestamp"), ("local", "timestamp_ntz")]
    assert listed(rows) == [
        (datetime.fromisoformat("2024-01-01T01:02:03.456789"), datetime.fromisoformat("2024-03-10T02:30:00.000001"))
    ]


def test_modules_beside_the_pipeline_can_be_imported(spark, tmp_path):
    (tmp_path / "helper_of_fetch.py").write_text("def all_rows():\n    return [{'id': 7}]\n")
    code = "from helper_of_fetch import all_rows\ndef rows():\n    return all_rows()\n"
    assert listed(read(spark, tmp_path, code)) == [(7,)]
    assert listed(read(spark, tmp_path, "", place="helper_of_fetch:all_rows")) == [(7,)]


def test_modules_of_one_name_beside_two_pipelines_are_two_modules(spark, tmp_path):
    for number, name in enumerate(("one", "two")):
        (tmp_path / name).mkdir()
        code = f"def rows():\n    return [{{'id': {number}}}]\n"
        assert listed(read(spark, tmp_path / name, code, place="fetch:rows")) == [(number,)]


def test_nothing_is_an_empty_source_once_its_columns_are_known(spark, tmp_path):
    code = "def rows():\n    return None\n"
    with pytest.raises(ConnectorError, match="rows of the source games gave nothing"):
        read(spark, tmp_path, code)
    assert listed(read(spark, tmp_path, code, like="id INT")) == []


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("def rows():\n    raise ValueError('no games today')", "ValueError: no games today"),
        ("def rows():\n    yield [{'id': 1}]\n    1 / 0", "ZeroDivisionError: division by zero"),
        ("def rows():\n    return 'text'", "rows of the source games gave a str."),
        ("def others():\n    pass", "fetch.py, which the source games names, has no function rows."),
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
    ],
)
def test_what_goes_wrong_in_a_function_is_an_error_that_names_the_source(spark, tmp_path, code, problem):
    with pytest.raises(ConnectorError) as error:
        read(spark, tmp_path, code)
    assert problem in error.value.problem
    assert "games" in error.value.problem


def test_a_file_that_is_not_there_is_named(spark, tmp_path):
    with pytest.raises(ConnectorError, match=r"There is no file .*/gone.py"):
        read(spark, tmp_path, "", place="gone.py:rows")


def test_a_function_is_called_with_a_run_that_says_from_when_on(spark, tmp_path: Path) -> None:
    code = "def rows(run):\n    return [{'mode': run.mode, 'start': str(run.start), 'many': len(run.dates) > 700}]\n"
    (tmp_path / "fetch.py").write_text(code)
    source = connector_for(Source("rates", "python", {"function": "fetch.py:rows"}, folder=tmp_path))
    assert [tuple(row) for row in source.read(Reading(spark)).collect()] == [("first", "None", False)]
    like = StructType.fromDDL("mode STRING, start STRING, many BOOLEAN")
    since = source.read_since(Reading(spark, like), "start", cursor("timestamp", "2024-01-31T10:30:00Z"))
    assert [tuple(row) for row in since.collect()] == [("incremental", "2024-01-31", True)]
