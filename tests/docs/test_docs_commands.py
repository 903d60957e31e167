"""Every command in README.md and docs/merge.md does what stands there.

The documents are run in order, in one folder. Run as a script, this file writes what it sees into them.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
DOCUMENTS = (ROOT / "README.md", ROOT / "docs" / "merge.md")
BLOCK = re.compile(r"^```(console|pycon)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COLD_STARTS = 6


@dataclass(frozen=True)
class Example:
    """A command, as it is written, and what it prints."""

    written: str
    command: list[str]
    output: str


def examples(language: str, body: str) -> Iterator[Example]:
    return _console(body) if language == "console" else _python(body)


def _console(body: str) -> Iterator[Example]:
    for part in re.split(r"^(?=\$ )", body, flags=re.MULTILINE)[1:]:
        lines = part.splitlines(keepends=True)
        count = next((n for n, line in enumerate(lines) if n and not line.startswith("> ")), len(lines))
        text = "".join(line[2:] for line in lines[:count])
        yield Example("".join(lines[:count]), ["bash", "-c", text], "".join(lines[count:]))


def _python(body: str) -> Iterator[Example]:
    """All statements of a block are one process: Spark starts once."""
    found = doctest.DocTestParser().get_examples(body)
    statements = [example.source for example in found]
    code = f"for statement in {statements!r}: exec(compile(statement, 'docs', 'single'))"
    written = "".join(f">>> {statement}" for statement in statements)
    yield Example(written, [sys.executable, "-c", code], "".join(example.want for example in found))


def run(example: Example, folder: Path) -> str:
    env = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "XDG_STATE_HOME": str(folder / ".state"),
    }
    done = subprocess.run(
        example.command, cwd=folder, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    return done.stdout


def settled(text: str) -> str:
    """Without what differs from run to run: seconds, the time of day, and the spaces around them."""
    text = re.sub(r"\d+\.\d s$", "# s", text, flags=re.MULTILINE)
    text = re.sub(r"seconds=[\d.]+", "seconds=#", text)
    text = re.sub(r"(today|yesterday) \d\d:\d\d", "today ##:##", text)
    return re.sub(r" {2,}", "  ", text)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shop")


def _cases() -> Iterator[object]:
    for document in DOCUMENTS:
        for language, body in BLOCK.findall(document.read_text()):
            for example in examples(language, body):
                yield pytest.param(example, id=f"{document.name}: {example.written.splitlines()[0]}")


@pytest.mark.parametrize("example", list(_cases()))
def test_a_command_in_the_documents_prints_what_stands_there(example: Example, shop: Path):
    assert settled(run(example, shop)) == settled(example.output)


def test_the_documents_start_spark_only_a_few_times():
    texts = [example.written for document in DOCUMENTS for example in _all(document)]
    assert (
        sum("tidemill merge" in text or "restore" in text or "tidemill.merge(" in text for text in texts) <= COLD_STARTS
    )


def test_the_documents_name_no_machine():
    for document in (*DOCUMENTS, ROOT / "CONTRIBUTING.md", *(ROOT / "docs" / "adr").glob("*.md")):
        assert not re.search(r"/root/|/home/|/work/|/tmp/", document.read_text()), document


def _all(document: Path) -> Iterator[Example]:
    for language, body in BLOCK.findall(document.read_text()):
        yield from examples(language, body)


def renew() -> None:
    """Writes what the commands print into the documents."""
    with tempfile.TemporaryDirectory() as folder:
        for document in DOCUMENTS:
            text = document.read_text()

            def renewed(block: re.Match[str]) -> str:
                seen = (example.written + run(example, Path(folder)) for example in examples(block[1], block[2]))
                return f"```{block[1]}\n{''.join(seen)}```"

            document.write_text(BLOCK.sub(renewed, text))


if __name__ == "__main__":
    renew()
