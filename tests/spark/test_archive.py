from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from tidemill.spark.jars import (
    Java,
    archive_options,
    archive_path,
    build_archive,
    ensure_jars,
    find_java,
    why_not_built,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def own_jars(tmp_path: Path, monkeypatch) -> list[Path]:
    real = ensure_jars()
    monkeypatch.setenv("TIDEMILL_HOME", str(tmp_path / "home"))
    shutil.copytree(real[0].parent, tmp_path / "home" / "jars")
    return ensure_jars()


def test_without_an_archive_the_jvm_gets_no_options_for_one(own_jars):
    assert archive_options(find_java(), own_jars) == []


def test_an_archive_for_this_java_and_these_jars_is_used(own_jars):
    archive = archive_path(find_java(), own_jars)
    archive.parent.mkdir(parents=True)
    archive.touch()
    assert archive_options(find_java(), own_jars) == ["-Xshare:auto", f"-XX:SharedArchiveFile={archive}"]


def test_an_archive_made_with_other_jars_is_not_used(own_jars):
    archive = archive_path(find_java(), own_jars)
    archive.parent.mkdir(parents=True)
    archive.touch()
    os.utime(own_jars[0], (1, 1))
    assert archive_options(find_java(), own_jars) == []


def test_an_archive_made_with_another_java_is_not_used(own_jars):
    java = find_java()
    assert archive_path(Java(java.executable, "17.0.99"), own_jars) != archive_path(java, own_jars)


def test_a_build_that_fails_is_reported_and_remembered_and_leaves_nothing_behind(own_jars, monkeypatch):
    monkeypatch.setenv("TIDEMILL_DRIVER_MEMORY", "1k")
    reason = build_archive(find_java(), own_jars)
    assert "Spark did not start: Error occurred during initialization of VM: Too small maximum heap." in reason
    assert why_not_built(find_java(), own_jars) == reason
    assert archive_options(find_java(), own_jars) == []
    assert list(archive_path(find_java(), own_jars).parent.glob("*.jsa")) == []


def test_a_folder_that_cannot_be_written_is_no_error(own_jars, tmp_path):
    (tmp_path / "home" / "archives").touch()
    assert build_archive(find_java(), own_jars) == f"{tmp_path / 'home' / 'archives'} cannot be written (File exists)"
