"""What is known of JSON files by their bytes, without Spark."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from tidemill.errors import ConnectorError
from tidemill.sources.files.listing import Listing
from tidemill.sources.files.text import files_are_documents

if TYPE_CHECKING:
    from pathlib import Path

PRETTY = b'[\n  {\n    "id": 1\n  },\n  {\n    "id": 2\n  }\n]\n'
LINES = b'{"id": 1}\n{"id": 2}\n'


def told(folder: Path, *files: bytes, **options: str) -> bool:
    for number, content in enumerate(files):
        (folder / f"{number}.json").write_bytes(content)
    return files_are_documents(Listing((str(folder),)), options)


@pytest.mark.parametrize(
    ("content", "is_document"),
    [
        (b"", False),
        (LINES, False),
        (b'{"id": 1},\r\n\r\n{"id": 2},\r\n', False),
        (b'{"id": 1}\r{"id": 2}\r', False),
        (b'{"v": "}{ }, {"}\n{"v": [{"a": 1}, {"a": 2}], "w": [[1], [2]]}\n', False),
        (b'[{"id": 1}, {"id": 2}]\n', False),
        (b"{'id': 1}\n{'id': 2}\n", False),
        (b'{"id": \n', False),
        (b'{"v": "K\xf6ln"}\n', False),
        (b'{"id":\n1}', True),
        (b'\xef\xbb\xbf[{"id": 1},\n{"id": 2}]', True),
        (PRETTY, True),
    ],
)
def test_a_value_that_goes_over_lines_makes_a_document(tmp_path: Path, content: bytes, is_document: bool) -> None:
    assert told(tmp_path, content, b'{"id": 3}\n') is is_document


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b'{"id": 1}\n{"id": 2}{"id": 3}\n', "has several values in line 2."),
        (b'{"id": 1}, {"id": 2}\n', "has several values in line 1."),
        (b'[{"id": 1}] [{"id": 2}]\n', "has several values in line 1."),
        (b'{\n"id": 1\n}\n{\n"id": 2\n}\n', "has several values that go over its lines."),
    ],
)
def test_a_value_that_spark_would_pass_over_is_an_error(tmp_path: Path, content: bytes, problem: str) -> None:
    with pytest.raises(ConnectorError) as error:
        told(tmp_path, content)
    assert str(error.value) == (
        f"[source.not_json_lines] {tmp_path}/0.json {problem} "
        "Write each object in one line, as jq -c does; a file may also be one object or one array of objects."
    )


def test_documents_beside_lines_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError) as error:
        told(tmp_path, LINES, PRETTY)
    assert error.value.problem == (
        f"{tmp_path}/1.json is one value that goes over its lines, and {tmp_path}/0.json has a value in each."
    )


def test_options_have_the_last_word_on_documents(tmp_path: Path) -> None:
    assert not told(tmp_path, PRETTY, multiLine="false")
    assert not told(tmp_path, PRETTY.decode().encode("utf-16"), encoding="UTF-16")
    with pytest.raises(ConnectorError, match="several values"):
        told(tmp_path, LINES, MULTILINE="true")


def test_compressed_json_is_looked_at_too(tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(PRETTY))
    assert told(tmp_path)
