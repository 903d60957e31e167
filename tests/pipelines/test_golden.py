"""Whole histories of pipelines: what the commands print and what the tables hold after each step.

A folder in golden/ is a scenario, and the folders in it are its steps. All that a step holds, but for its texts, is
copied over the working folder. Then the commands in its commands.sh, or in the scenario's, are run; what they print
(`> plan.txt`), and what is in the tables and exports afterwards (state.txt), are the texts that stand there.
`pytest tests/pipelines/test_golden.py --renew-golden` writes them again: look at the difference before it is committed.
"""

from __future__ import annotations

import difflib
import json
import re
import shlex
import shutil
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from delta_rows import delta_rows, delta_table

from tidemill.cli.main import tidemill as command_line
from tidemill.formats.delta.log import DeltaLog
from tidemill.frontends.project_file import read_dotenv
from tidemill.model.record import counts_of
from tidemill.spark import jvm

if TYPE_CHECKING:
    from collections.abc import Iterator

SCENARIOS = sorted(Path(__file__).with_name("golden").iterdir())
COMMANDS = "commands.sh"
OF_THE_MOMENT = {"run_id", "at", "input_versions"}
NOT_TO_READ = {"sql_hash", "config_hash", "format"}  # nobody could say whether they are right


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda folder: folder.name)
@pytest.mark.usefixtures("spark")
def test_each_step_prints_and_leaves_what_stands_in_its_folder(
    scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / ".state"))
    log = jvm.log_file()
    assert log is not None
    seen_before = log.stat().st_size
    differences: list[str] = []
    for step in sorted(folder for folder in scenario.iterdir() if folder.is_dir()):
        found = played(step, tmp_path)
        logged = log.read_bytes()[seen_before:]
        assert places_of_secrets(tmp_path, {**found, "Spark's log": logged.decode(errors="replace")}) == []
        if pytestconfig.getoption("--renew-golden"):
            renew(step, found)
        differences += compared(step, found)
    if differences:
        pytest.fail("\n".join(differences), pytrace=False)


def played(step: Path, folder: Path) -> dict[str, str]:
    """What the commands of a step print, by the name it is kept under, and the state that they leave."""
    shutil.copytree(step, folder, ignore=_told, copy_function=shutil.copy, dirs_exist_ok=True)
    commands = step / COMMANDS if (step / COMMANDS).exists() else step.parent / COMMANDS
    found = {}
    for line in commands.read_text().splitlines():
        command, _, kept_as = line.partition(" > ")
        printed = _printed(shlex.split(command, comments=True))
        if kept_as:
            found[kept_as] = settled(printed, folder)
    return {**found, "state.txt": settled("".join(f"{line}\n" for line in state(folder)), folder)}


def _told(_folder: str, names: list[str]) -> set[str]:
    return {name for name in names if name == COMMANDS or name.endswith(".txt")}


def _printed(words: list[str]) -> str:
    if not words:
        return ""
    if words[0] != "tidemill":
        return subprocess.run(words, check=True, text=True, stdout=subprocess.PIPE).stdout
    result = CliRunner().invoke(command_line, words[1:], catch_exceptions=False)
    return result.output if result.exit_code == 0 else f"{result.output}[exit code {result.exit_code}]\n"


def settled(text: str, folder: Path) -> str:
    """Without what differs from run to run or between machines and releases."""
    text = text.replace(str(folder), "<folder>")
    text = re.sub(r"\d+\.\d s\b", "# s", text)
    text = re.sub(r'"(seconds|bytes_read)": [\d.]+', r'"\1": "#"', text)
    text = re.sub(r'"(run_id|started|ended)": "[^"]+"', r'"\1": "#"', text)
    text = re.sub(r"(today|yesterday) \d\d:\d\d", "today ##:##", text)
    return re.sub(r"Tidemill \d[\d.]*", "Tidemill #", text)


def state(folder: Path) -> Iterator[str]:
    """Every table with its version, its last record and its rows, and every exported file."""
    for log in sorted(folder.glob("warehouse/*/*/_delta_log")):
        yield from _table(log.parent)
    for file in sorted(folder.glob("out/*.csv")):
        yield f"{file.relative_to(folder)}"
        yield from (f"  {line}" for line in file.read_text().splitlines())


def _table(path: Path) -> Iterator[str]:
    log = DeltaLog(str(path))
    snapshot = log.snapshot()
    assert snapshot is not None
    assert snapshot.record is not None
    yield f"{path.parent.name}.{path.name} at version {snapshot.version}"
    record = json.loads(snapshot.record.to_json())["tidemill"]
    commit = log.commit(snapshot.record_version or 0)
    assert commit is not None
    record["counts"] = asdict(counts_of(commit))
    for name in sorted(record.keys() - OF_THE_MOMENT - NOT_TO_READ):
        yield f"  {name}: {json.dumps(record[name], ensure_ascii=False)}"
    yield f"  {' | '.join(delta_table(path).column_names)}"
    for row in sorted(delta_rows(path), key=lambda row: [(value is not None, value) for value in row]):
        yield f"  {' | '.join(map(_text, row))}"


def _text(value: object) -> str:
    return "NULL" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def places_of_secrets(folder: Path, texts: dict[str, str]) -> list[str]:
    """Where a value of the folder's .env stands beside that file itself: in a text, or in any byte of a file."""
    secrets = [value.encode() for value in read_dotenv(folder / ".env").values()]
    files = {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file() and file.name != ".env"}
    held = {**files, **{name: text.encode() for name, text in texts.items()}}
    return [place for place, content in held.items() if any(secret in content for secret in secrets)]


def compared(step: Path, found: dict[str, str]) -> Iterator[str]:
    expected = {file.name: file.read_text() for file in step.glob("*.txt")}
    for name in sorted(expected.keys() | found.keys()):
        before, now = expected.get(name, "").splitlines(), found.get(name, "").splitlines()
        where = f"{step.parent.name}/{step.name}/{name}"
        yield from difflib.unified_diff(before, now, f"{where} as it stands", f"{where} as found", lineterm="")


def renew(step: Path, found: dict[str, str]) -> None:
    for file in step.glob("*.txt"):
        file.unlink()
    for name, text in found.items():
        (step / name).write_text(text)
