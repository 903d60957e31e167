"""What is handed out besides the code: the wheel's metadata, the Dockerfile, the pictures."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).parents[2]
RELATIVE = re.compile(r"\]\((?!https?:|#)")


def metadata(folder: Path) -> tuple[dict[str, list[str]], str]:
    """The fields of the wheel that is built of a folder, and its description."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist")]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    (wheel,) = (folder / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        (name,) = (each for each in opened.namelist() if each.endswith(".dist-info/METADATA"))
        found = Parser().parsestr(opened.read(name).decode())
    return {key: found.get_all(key, []) for key in found}, str(found.get_payload())


def copied() -> list[str]:
    """What the Dockerfile copies."""
    lines = [line.split()[1:-1] for line in (ROOT / "Dockerfile").read_text().splitlines() if line.startswith("COPY ")]
    return [name for names in lines for name in names]


@pytest.fixture
def in_the_image(tmp_path: Path) -> Path:
    """A folder with what the image has, and nothing else."""
    for name in copied():
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_the_wheel_can_be_built_of_what_the_dockerfile_copies_and_has_no_relative_link(in_the_image: Path) -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert set(copied()) == allowed
    fields, text = metadata(in_the_image)
    assert {"Development Status :: 3 - Alpha", "Typing :: Typed"} <= set(fields["Classifier"])
    assert fields["Keywords"]
    assert not RELATIVE.search(text)
    assert (in_the_image / "examples" / "demo.py").exists()


def test_the_address_of_the_repository_makes_urls_and_whole_links(in_the_image: Path) -> None:
    project = in_the_image / "pyproject.toml"
    project.write_text(project.read_text().replace('repository = ""', 'repository = "https://example.org/tidemill/"'))
    fields, text = metadata(in_the_image)
    assert "Repository, https://example.org/tidemill" in fields["Project-URL"]
    assert "Changelog, https://example.org/tidemill/blob/v0.1.0/CHANGELOG.md" in fields["Project-URL"]
    assert "](https://example.org/tidemill/blob/v0.1.0/docs/merge.md#reading-the-table)" in text
    assert "](https://example.org/tidemill/raw/v0.1.0/docs/demo.svg)" in text
    assert not RELATIVE.search(text)


def test_what_the_readme_shows_and_links_to_is_there_and_fetches_nothing() -> None:
    text = (ROOT / "README.md").read_text()
    for path in re.findall(r"\]\((?!https?:|#)([^)#]+)", text):
        assert (ROOT / path).exists(), path
    for name in ("demo", "shop"):
        drawn = (ROOT / "docs" / f"{name}.svg").read_text()
        ET.fromstring(drawn)
        assert "url(http" not in drawn
