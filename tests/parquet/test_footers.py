"""Which files may hold a key: by the names of their folders, and by the statistics in their footers."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidemill.errors import TableError
from tidemill.formats.parquet.files import columns_of, holding, misread
from tidemill.formats.parquet.folder import Folder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    for name, ids in {"p=01/day=2024-01-01": [1, 5], "p=2/day=2024-01-02": [1, 5], "p=2/day=odd": [7, 9]}.items():
        (tmp_path / name).mkdir(parents=True)
        pq.write_table(pa.table({"id": ids}), tmp_path / name / "f.parquet")
    broken = tmp_path / "p=__HIVE_DEFAULT_PARTITION__" / "day=2024-01-01"
    broken.mkdir(parents=True)
    (broken / "f.parquet").write_bytes(b"a file that nobody opens")
    return Folder(str(tmp_path))


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"p": [(1, 1)]}, ["p=01/day=2024-01-01"]),
        ({"p": [(2, 2)], "id": [(6, 8)]}, ["p=2/day=odd"]),
        ({"p": [(1, 9)], "day": [(date(2024, 1, 2), date(2024, 1, 3))]}, ["p=2/day=2024-01-02", "p=2/day=odd"]),
        ({"p": [("2", "2"), ("3", "3")], "id": [(1, 1)]}, ["p=2/day=2024-01-02"]),
        ({"p": [(3, 3)]}, []),
    ],
)
def test_files_of_another_partition_are_not_even_opened(folder: Folder, wanted: dict, found: list[str]) -> None:
    near = holding(folder.root, folder.files().values(), wanted)
    assert [file.path.removesuffix("/f.parquet") for file in near] == found


def test_a_folder_without_a_value_is_an_error() -> None:
    with pytest.raises(TableError, match=r"p=/f.parquet of lake lies in a folder without a value"):
        columns_of(["p=1/f.parquet", "p=/f.parquet"], "lake")


def test_what_spark_misreads_in_the_names_of_folders_is_known() -> None:
    paths = ["city=K%C3%B6ln/a.parquet", "city=Ulm/b.parquet", "city=a%2Fb/c.parquet", "city=M\u00fcnchen/d.parquet"]
    assert misread("city", paths) == {"K\u00c3\u00b6ln": "K\u00f6ln"}
    assert misread("other", paths) == {}
