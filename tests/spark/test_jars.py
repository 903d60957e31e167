"""A folder with the layout of a Maven repository stands for the network; an address where nobody answers, for none."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tidemill.errors import EngineError
from tidemill.spark import jars
from tidemill.spark.jars import POSTGRES, drivers_at_hand, ensure_jars, format_jars, jar_paths, missing_jars

if TYPE_CHECKING:
    from pathlib import Path

JARS = format_jars()
NOWHERE = '<ibiblio name="from" m2compatible="true" root="http://127.0.0.1:9/"/>'


@pytest.fixture(scope="module")
def real_jars() -> list[Path]:
    return ensure_jars()


@pytest.fixture
def empty_home(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setenv("TIDEMILL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def fetch_from(resolver: str, tmp_path: Path, monkeypatch) -> None:
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="from"/><resolvers>' + resolver + "</resolvers></ivysettings>"
    )
    monkeypatch.setenv("TIDEMILL_IVY_SETTINGS", str(settings))


def mirror(folder: Path, contents: list[bytes]) -> str:
    for jar, content in zip(JARS, contents, strict=True):
        (folder / jar.file).parent.mkdir(parents=True, exist_ok=True)
        (folder / jar.file).write_bytes(content)
    return f'<filesystem name="from"><artifact pattern="{folder}/[artifact]-[revision].[ext]"/></filesystem>'


def test_jars_come_from_the_mirror_that_the_ivy_settings_name(real_jars, empty_home, tmp_path, monkeypatch):
    resolver = mirror(tmp_path / "mirror", [jar.read_bytes() for jar in real_jars])
    fetch_from(resolver, tmp_path, monkeypatch)
    assert ensure_jars() == [empty_home / "jars" / jar.file for jar in JARS]
    assert missing_jars() == []
    assert sorted(path.name for path in (empty_home / "jars").iterdir()) == sorted(jar.file for jar in JARS)


def test_jars_that_are_there_need_no_network_and_no_java(real_jars, empty_home, tmp_path, monkeypatch):
    shutil.copytree(real_jars[0].parent, empty_home / "jars")
    fetch_from(NOWHERE, tmp_path, monkeypatch)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert ensure_jars() == jar_paths()


@pytest.mark.usefixtures("empty_home")
def test_processes_that_fetch_at_once_do_not_break_each_other(real_jars, tmp_path, monkeypatch):
    fetch_from(mirror(tmp_path / "mirror", [jar.read_bytes() for jar in real_jars]), tmp_path, monkeypatch)
    fetch = [sys.executable, "-c", "from tidemill.spark.jars import ensure_jars; ensure_jars()"]
    processes = [subprocess.Popen(fetch) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert missing_jars() == []


def test_a_jar_cut_short_is_fetched_again(real_jars, empty_home, tmp_path, monkeypatch):
    fetch_from(mirror(tmp_path / "mirror", [jar.read_bytes() for jar in real_jars]), tmp_path, monkeypatch)
    shutil.copytree(real_jars[0].parent, empty_home / "jars")
    (empty_home / "jars" / JARS[1].file).write_bytes(real_jars[1].read_bytes()[:1000])
    assert missing_jars() == [JARS[1]]
    ensure_jars()
    assert missing_jars() == []


def test_a_jar_with_other_content_than_the_released_one_is_refused(empty_home, tmp_path, monkeypatch):
    fetch_from(mirror(tmp_path / "mirror", [b"not this", b"nor this"]), tmp_path, monkeypatch)
    monkeypatch.setattr(jars, "PAUSES", ())
    with pytest.raises(EngineError) as error:
        ensure_jars()
    assert error.value.problem == (
        f"Delta's jars could not be fetched: what came as {JARS[0].file} has another SHA-256 than the released jar."
    )
    assert list((empty_home / "jars").iterdir()) == []


def test_without_a_network_the_error_says_why_and_what_to_do(empty_home, tmp_path, monkeypatch):
    fetch_from(NOWHERE, tmp_path, monkeypatch)
    with pytest.raises(EngineError) as error:
        ensure_jars()
    assert error.value.code == "engine.jars_unavailable"
    assert error.value.problem == (
        "Delta's jars could not be fetched: Server access error at url http://127.0.0.1:9/io/delta/delta-spark_4.1_2.13"
        "/4.4.0/delta-spark_4.1_2.13-4.4.0.pom (java.net.ConnectException: Connection refused)."
    )
    assert error.value.remedy == (
        "Check the network and run `tidemill setup` again; or name a mirror in an Ivy settings file "
        "(TIDEMILL_IVY_SETTINGS); or take io.delta:delta-spark_4.1_2.13:4.4.0 and io.delta:delta-storage:4.4.0 from "
        "any Maven repository and put delta-spark_4.1_2.13-4.4.0.jar and delta-storage-4.4.0.jar into "
        f"{empty_home / 'jars'}."
    )


def test_an_ivy_settings_file_that_is_not_there_is_named(empty_home, monkeypatch):
    monkeypatch.setenv("TIDEMILL_IVY_SETTINGS", str(empty_home / "no.xml"))
    with pytest.raises(EngineError) as error:
        ensure_jars()
    assert f"TIDEMILL_IVY_SETTINGS names {empty_home / 'no.xml'}, which is not a file." in error.value.problem


def test_a_folder_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("TIDEMILL_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(jars, "PAUSES", ())
    with pytest.raises(EngineError) as error:
        ensure_jars()
    assert f"{tmp_path / 'file' / 'jars'} cannot be written (Not a directory)" in error.value.problem


def test_a_driver_is_at_hand_once_it_was_fetched(real_jars, empty_home, tmp_path, monkeypatch):
    monkeypatch.delenv("TIDEMILL_HOME")
    driver = ensure_jars([POSTGRES])[0]
    monkeypatch.setenv("TIDEMILL_HOME", str(empty_home))
    shutil.copytree(real_jars[0].parent, empty_home / "jars", ignore=lambda *_: [POSTGRES.file])
    assert missing_jars() == []
    assert drivers_at_hand() == []
    pattern = f"{driver.parent}/[artifact]-[revision].[ext]"
    fetch_from(f'<filesystem name="from"><artifact pattern="{pattern}"/></filesystem>', tmp_path, monkeypatch)
    assert ensure_jars([POSTGRES]) == drivers_at_hand() == [empty_home / "jars" / POSTGRES.file]


def test_a_driver_that_cannot_be_fetched_is_named(empty_home, tmp_path, monkeypatch):
    fetch_from(NOWHERE, tmp_path, monkeypatch)
    monkeypatch.setattr(jars, "PAUSES", ())
    with pytest.raises(EngineError) as error:
        ensure_jars([POSTGRES])
    assert error.value.problem.startswith(f"The jar {POSTGRES.file} could not be fetched: ")
    assert f"take org.postgresql:postgresql:{POSTGRES.version} from any Maven repository" in error.value.remedy
    assert str(empty_home / "jars") in error.value.remedy
