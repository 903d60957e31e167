from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidemill.errors import EngineError
from tidemill.spark.jars import REMEDY, find_java

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_the_java_of_java_home_comes_before_the_one_on_the_path(fake_java, monkeypatch):
    monkeypatch.setenv("PATH", str(fake_java("17.0.1") / "bin"))
    monkeypatch.setenv("JAVA_HOME", str(fake_java("21.0.2")))
    assert find_java().version == "21.0.2"
    assert find_java().major == 21


def test_without_java_home_the_first_java_on_the_path_is_taken(fake_java, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(fake_java("17.0.1") / "bin"))
    assert find_java().version == "17.0.1"


def test_a_release_file_tells_the_version_without_starting_java(fake_java, monkeypatch):
    home = fake_java("8")
    (home / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    (home / "release").write_text('JAVA_RUNTIME_VERSION="17.0.15+6-Debian"\nJAVA_VERSION="17.0.15"\n')
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert find_java().version == "17.0.15+6-Debian"


def test_no_java_is_one_sentence_with_the_remedy(tmp_path: Path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError) as error:
        find_java()
    assert error.value.code == "engine.java_missing"
    assert error.value.problem == "Java was not found: JAVA_HOME is not set, and there is no java on the PATH."
    assert error.value.remedy == (
        "Install a JDK 17 or later (apt install openjdk-17-jdk-headless, or brew install openjdk@17), "
        "and set JAVA_HOME if it is not on the PATH."
    )


def test_a_java_home_without_java_is_named(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EngineError) as error:
        find_java()
    assert error.value.code == "engine.java_missing"
    assert error.value.problem == f"JAVA_HOME is {tmp_path}, and there is no Java."


def test_a_java_that_does_not_run_is_missing(fake_java, monkeypatch):
    home = fake_java("17.0.1")
    (home / "bin" / "java").write_text("#!/bin/sh\necho 'Unable to locate a Java Runtime.' >&2\nexit 1\n")
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(EngineError) as error:
        find_java()
    assert error.value.code == "engine.java_missing"
    assert error.value.problem == f"{home}/bin/java is not a working Java."


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.21", "16"])
def test_an_old_java_is_one_sentence_with_the_remedy(version: str, fake_java: Callable[[str], Path], monkeypatch):
    home = fake_java(version)
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(EngineError) as error:
        find_java()
    assert error.value.code == "engine.java_too_old"
    assert error.value.problem == f"Java {version} ({home}/bin/java) is too old: Spark needs 17 or later."
    assert error.value.remedy == REMEDY
