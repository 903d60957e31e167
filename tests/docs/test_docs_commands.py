"""Every command in README.md and the guides in docs does what stands there.

The documents are run in order, each from the same folder on; `cd` holds to the end of a document. A block that names a
file (```sql file=pipelines/shop.sql) is written there. Run as a script, this file writes what it sees into them.
"""

from __future__ import annotations

import contextlib
import doctest
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from warm import Warm, said

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
GUIDES = (
    *("merge", "datasets", "pipelines", "models", "materialized-views", "checks", "python-tables", "join", "operating"),
)
DOCUMENTS = (ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in GUIDES))
TO_READ = ("docs/coming-from.md", "docs/datasets-protocol.md", "docs/reference.md")
OTHERS = (ROOT / "CONTRIBUTING.md", *(ROOT / name for name in TO_READ), *(ROOT / "docs" / "adr").glob("*.md"))
BLOCK = re.compile(r"^```(console|pycon|\w+ file=\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Example:
    """A command, as it is written, and what it prints; statements of Python are one text."""

    written: str
    command: list[str] | str
    output: str


@dataclass
class Place:
    """Where the commands of one document are run. Those in `commands` come before all others."""

    folder: Path
    commands: Path
    here: Path = field(init=False)

    def __post_init__(self) -> None:
        self.here = self.folder

    def run(self, example: Example) -> str:
        env = {
            **os.environ,
            "PATH": f"{self.commands}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }
        if isinstance(example.command, str):
            _, heard = said(str(self.here), lambda: _executed(example.command))
            return "".join(text for _, text in heard)
        at = self.folder / ".here"
        command = [part.replace("@HERE@", str(at)) for part in example.command]
        done = subprocess.run(
            command, cwd=self.here, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        if at.exists():
            self.here = Path(at.read_text().strip())
            at.unlink()
        return done.stdout


def examples(language: str, body: str) -> Iterator[Example]:
    kind, _, file = language.partition(" file=")
    if file:
        return iter([Example(f"the file {file}", ["bash", "-c", f"cat > {file} <<'END'\n{body}END\n"], "")])
    return _console(body) if kind == "console" else _python(body)


def _console(body: str) -> Iterator[Example]:
    for part in re.split(r"^(?=\$ )", body, flags=re.MULTILINE)[1:]:
        lines = part.splitlines(keepends=True)
        count = next((n for n, line in enumerate(lines) if n and not line.startswith("> ")), len(lines))
        text = "".join(line[2:] for line in lines[:count])
        yield Example("".join(lines[:count]), ["bash", "-c", f"{text}\npwd > @HERE@"], "".join(lines[count:]))


def _python(body: str) -> Iterator[Example]:
    found = doctest.DocTestParser().get_examples(body)
    written = "".join(f">>> {example.source}" for example in found)
    statements = json.dumps([example.source for example in found])
    yield Example(written, statements, "".join(example.want for example in found))


def _executed(statements: str) -> int:
    names: dict[str, object] = {}
    for statement in json.loads(statements):
        exec(compile(statement, "docs", "single"), names)  # what our own documents say
    return 0


def settled(text: str) -> str:
    """Without what differs from run to run: seconds, sizes, the time of day, spaces, which step ended first."""
    text = re.sub(r"\d+\.\d s\b", "# s", text)
    text = re.sub(r"seconds=[\d.]+", "seconds=#", text)
    text = re.sub(r"\([\d.]+ k?B\)", "(# B)", text)  # sizes of files
    text = re.sub(r"(today|yesterday) \d\d:\d\d", "today ##:##", text)
    text = re.sub(r"\d+ (s|min|h) ago", "# ago", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6} UTC", "#", text)  # the clock's: data has whole seconds
    text = re.sub(r"^  [0-9a-f]{8}  ", "  ########  ", text, flags=re.MULTILINE)  # ids of runs
    text = re.sub(r'"last_execution_timestamp": ".*"', '"last_execution_timestamp": "#"', text)
    lines = re.sub(r" {2,}", "  ", text).splitlines()
    return "\n".join(sorted(lines, key=lambda line: line if line.startswith("  ✓") else ""))


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[dict[Path, Place]]:  # noqa: ARG001
    folder = tmp_path_factory.mktemp("shop")
    commands = tmp_path_factory.mktemp("bin")
    with _own_state(folder), Warm(commands):
        yield {document: Place(folder, commands) for document in DOCUMENTS}


@contextlib.contextmanager
def _own_state(folder: Path) -> Iterator[None]:
    before = os.environ.get("XDG_STATE_HOME")
    os.environ["XDG_STATE_HOME"] = str(folder / ".state")
    try:
        yield
    finally:
        os.environ.pop("XDG_STATE_HOME")
        os.environ.update({"XDG_STATE_HOME": before} if before else {})


def _all(document: Path) -> Iterator[Example]:
    for language, body in BLOCK.findall(document.read_text()):
        yield from examples(language, body)


def _cases() -> Iterator[object]:
    for document in DOCUMENTS:
        for example in _all(document):
            yield pytest.param(document, example, id=f"{document.name}: {example.written.splitlines()[0]}")


@pytest.mark.small_tables
@pytest.mark.parametrize(("document", "example"), list(_cases()))
def test_a_command_in_the_documents_prints_what_stands_there(
    document: Path, example: Example, places: dict[Path, Place]
):
    assert settled(places[document].run(example)) == settled(example.output)


def test_the_documents_name_no_machine():
    for document in (*DOCUMENTS, *OTHERS):
        assert not re.search(r"/root/|/home/|/work/|/tmp/", document.read_text()), document


@pytest.mark.parametrize("document", [*DOCUMENTS, *OTHERS, ROOT / "CHANGELOG.md"], ids=lambda each: each.name)
def test_a_link_in_the_documents_leads_to_a_file_and_a_heading_of_it(document: Path):
    for link in re.findall(r"\]\((?!http)([^)\s]+)\)", document.read_text()):
        name, _, heading = link.partition("#")
        file = (document.parent / name) if name else document
        assert file.exists(), link
        assert not heading or heading in _headings(file), link


def _headings(document: Path) -> set[str]:
    """As sites that show Markdown name them in links."""
    found = re.findall(r"^#+ (.*)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in found}


def renew(names: Sequence[str]) -> None:
    """Writes what the commands print into the documents, or into those that are named: as users run them, from cold."""
    with tempfile.TemporaryDirectory() as folder, _own_state(Path(folder)):
        for document in (each for each in DOCUMENTS if not names or each.name in names):
            place = Place(Path(folder), Path(sys.executable).parent)
            document.write_text(BLOCK.sub(lambda block, place=place: _renewed(block, place), document.read_text()))


def _renewed(block: re.Match[str], place: Place) -> str:
    seen = [(example.written, place.run(example)) for example in examples(block[1], block[2])]
    return block[0] if "file=" in block[1] else f"```{block[1]}\n{''.join(map(''.join, seen))}```"


if __name__ == "__main__":
    renew(sys.argv[1:])
