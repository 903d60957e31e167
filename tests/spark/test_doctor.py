from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tidemill.cli.main import tidemill
from tidemill.spark.doctor import Check, Health, examine
from tidemill.spark.jars import REMEDY

ROOT = Path(__file__).parents[2]


def named(checks: list[Check], name: str) -> Check:
    return next(check for check in checks if check.name == name)


def test_every_need_of_the_engine_is_looked_at(tmp_path: Path):
    checks = examine(tmp_path)
    names = ["python", "java", "pyspark", "delta", "jars", "archive", "cache", "warehouse", "memory"]
    assert [check.name for check in checks] == names
    assert all(check.remedy for check in checks if check.health is not Health.OK)


def test_an_old_java_fails_with_its_remedy(fake_java, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(fake_java("11.0.2")))
    check = named(examine(tmp_path), "java")
    assert check.health is Health.FAIL
    assert "is too old: Spark needs 17 or later." in check.what
    assert check.remedy == REMEDY


def test_a_java_newer_than_spark_knows_is_a_warning(fake_java, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(fake_java("25.0.1")))
    check = named(examine(tmp_path), "java")
    assert (check.health, check.remedy) == (
        Health.WARN,
        "Spark 4.1 is made for Java 17 and 21; set JAVA_HOME to one of them.",
    )


def test_missing_jars_and_archive_name_the_command_that_makes_them(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("TIDEMILL_HOME", str(tmp_path / "home"))
    checks = examine(tmp_path)
    jars, archive = named(checks, "jars"), named(checks, "archive")
    assert jars.what == (
        f"not in {tmp_path / 'home' / 'jars'}: delta-spark_4.1_2.13-4.4.0.jar, delta-storage-4.4.0.jar"
    )
    assert (jars.health, jars.remedy) == (Health.WARN, "Fetch them: tidemill setup.")
    assert (archive.health, archive.remedy) == (Health.WARN, "Build it: tidemill setup.")


def test_a_warehouse_that_cannot_be_written_fails(tmp_path: Path):
    (tmp_path / "file").touch()
    check = named(examine(tmp_path / "file" / "warehouse"), "warehouse")
    assert check.health is Health.FAIL
    assert check.what == f"{tmp_path / 'file'} is a file, not a folder"
    assert check.remedy == "Choose another folder for the tables."


@pytest.mark.parametrize("quiet", [[], ["--quiet"]])
def test_doctor_prints_a_line_for_each_and_exits_with_1_if_one_fails(quiet: list[str], fake_java, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(fake_java("1.8.0_392")))
    result = CliRunner().invoke(tidemill, ["doctor", *quiet])
    assert result.exit_code == 1
    assert "  ✗ java       Java 1.8.0_392 (" in result.output
    assert f"\n               → {REMEDY}\n" in result.output
    assert "  ✓ python     3." in result.output
    assert "\n  2 to fix" in result.output


def test_doctor_gives_the_same_as_json(tmp_path: Path):
    result = CliRunner().invoke(tidemill, ["doctor", "--format", "json", "--warehouse", str(tmp_path)])
    told = json.loads(result.output)
    assert result.exit_code == 0
    assert told["ok"] is True
    assert {"name": "warehouse", "health": "ok", "what": str(tmp_path), "remedy": ""} in told["checks"]


def test_setup_is_one_line_when_all_is_there():
    CliRunner().invoke(tidemill, ["setup"])
    result = CliRunner().invoke(tidemill, ["setup"])
    assert result.exit_code == 0
    assert result.output.startswith("  ✓ engine ready: Java ")
    assert result.output.count("\n") == 1
    assert CliRunner().invoke(tidemill, ["setup", "--quiet"]).output == ""
    told = json.loads(CliRunner().invoke(tidemill, ["setup", "--format", "json"]).output)
    assert list(told) == ["java", "delta", "jars", "fetched", "tried", "archive", "reason"]
    assert (told["fetched"], told["tried"]) == (False, False)


def test_doctor_and_setup_start_no_spark():
    script = "import sys; import tidemill.spark.doctor; sys.exit('pyspark' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("11.0.2", "error: Java 11 is too old, Spark needs 17 or later: install a JDK 17 or later "),
        (None, "error: Java was not found in JAVA_HOME ("),
    ],
)
def test_make_setup_asks_for_java_before_it_does_anything(version, said, fake_java, tmp_path: Path):
    for name in ("Makefile", "scripts", "pyproject.toml", "requirements.lock"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    home = fake_java(version) if version else tmp_path
    done = subprocess.run(
        ["make", "setup"],
        cwd=tmp_path,
        env={**os.environ, "JAVA_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert done.stderr.startswith(said)
    assert "(apt install openjdk-17-jdk-headless, or brew install openjdk@17)" in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_make_setup_says_when_python_is_too_old(tmp_path: Path):
    for name in ("Makefile", "scripts", "pyproject.toml", "requirements.lock"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    done = subprocess.run(
        ["make", "setup", "PYTHON=/bin/false"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert done.stderr.startswith(
        "error: Python 3.11 or later was not found: install it, or name it (make setup PYTHON=/path/to/python3.11)."
    )
