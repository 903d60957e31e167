"""What a log of many files costs is paid once for each of its versions."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import deltalake
import pyarrow as pa
import pytest

from tidemill import Cursor
from tidemill.formats.base import KeyRange
from tidemill.formats.delta import opened
from tidemill.formats.registry import log_at
from tidemill.results import CursorKind

if TYPE_CHECKING:
    from pathlib import Path

ONE = (KeyRange("k", Cursor(CursorKind.INTEGER, 1), Cursor(CursorKind.INTEGER, 1)),)


def write(path: Path, *keys: int) -> None:
    deltalake.write_deltalake(path, pa.table({"k": pa.array(keys, pa.int64())}), mode="append")


@pytest.fixture
def openings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths at which a log was read whole."""
    found: list[str] = []
    real = deltalake.DeltaTable

    def counted(path: str) -> deltalake.DeltaTable:
        found.append(path)
        return real(path)

    monkeypatch.setattr(opened.deltalake, "DeltaTable", counted)
    return found


def test_a_log_that_is_as_it_was_is_not_read_again(tmp_path: Path, openings: list[str]) -> None:
    path = tmp_path / "t"
    write(path, 1, 2)
    openings.clear()
    for _ in range(3):
        log = log_at(str(path))
        snapshot = log.snapshot()
        assert snapshot is not None
        assert (snapshot.version, snapshot.files, log.columns(), log.version()) == (0, 1, ["k"], 0)
        assert log.reach(ONE).files == 1
    assert openings == [str(path)]


def test_of_a_log_that_has_grown_only_what_is_new_is_read(tmp_path: Path, openings: list[str]) -> None:
    path = tmp_path / "t"
    write(path, 1, 2)
    log = log_at(str(path))
    assert log.reach(()).files == 1
    write(path, 7)
    assert (log.version(), log.reach(()).files, log.reach(ONE).files) == (1, 2, 1)
    assert openings.count(str(path)) == 1


def test_another_table_at_the_same_path_is_noticed_whatever_its_version(tmp_path: Path) -> None:
    path, other = tmp_path / "t", tmp_path / "other"
    write(path, 1)
    write(other, 2)
    write(other, 3)
    log = log_at(str(path))
    first = log.snapshot()
    shutil.rmtree(path)
    shutil.copytree(other, path)
    again = log.snapshot()
    assert first is not None
    assert again is not None
    assert (first.table_id, first.files) != (again.table_id, again.files)
    assert again.files == 2
    shutil.rmtree(path)
    write(path, 9)
    assert log.reach(ONE).files == 0
    shutil.rmtree(path)
    assert log.snapshot() is None
