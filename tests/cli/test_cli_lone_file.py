"""A pipeline file alone in its folder: commands find it there, and those that are proposed work there."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tidemill.model.cursor import cursor

if TYPE_CHECKING:
    from pathlib import Path

VISITS = """
SOURCE visits TYPE CSV PARAMS {"path": "visits.csv", "cursor_field": "day", "types": {"day": "date"}};
LOAD visits FROM visits MODE APPEND;
CREATE TABLE per_page AS SELECT page, count(*) AS visits FROM visits GROUP BY page;
"""
WITHOUT_SPARK = {
    "status": "visits",
    "list": "append",
    "plan": "visits",
    "state": "visits",
    "graph": "per_page",
    "runs": "no runs yet",
    "validate": "2 tables",
    "history visits": "append",
    "show visits": "home",
    "show-watermarks": "2024-01-02",
    "show-watermarks p": "2024-01-02",
    "compile per_page": "count(*)",
}


@pytest.fixture
def alone(folder: Path, write_csv, make_table) -> Path:
    (folder / "p.sql").write_text(VISITS)
    (folder / "helpers.py").write_text("import tidemill\nraise SystemExit('a script of the user, which is not run')\n")
    write_csv(folder / "visits.csv", "home,2024-01-02", header="page,day")
    rows = pa.table({"page": ["home"], "day": pa.array([19724], pa.date32())})
    window, progress = {"column": "day", "reason": "first run"}, {"p.visits": cursor("date", "2024-01-02")}
    make_table("main.visits", rows, window=window, progress=progress, counts={"inserted": 1})
    return folder


@pytest.mark.parametrize("command", WITHOUT_SPARK)
@pytest.mark.usefixtures("alone")
def test_a_command_finds_the_only_pipeline_file_of_its_folder(cli, command: str):
    result = cli(*command.split())
    assert (result.exit_code, result.stderr) == (0, "")
    assert WITHOUT_SPARK[command] in result.output


def test_of_several_files_a_command_asks_for_one(alone: Path, cli):
    (alone / "q.sql").write_text("CREATE TABLE other AS SELECT 1 AS id;")
    result = cli("status")
    assert result.exit_code == 2
    assert result.stderr == (
        "error[project.several_files] There is no tidemill.toml here, and 2 pipeline files: p.sql, q.sql.\n"
        "  Name one of them: p.sql. A table can also be given by its path: warehouse/main/TABLE.\n"
    )
    assert "visits" in cli("status", "p.sql").output
    assert "visits" in cli("show-watermarks", "p").output


@pytest.mark.parametrize("written", ["p", "pp.sql"])
@pytest.mark.usefixtures("alone")
def test_a_file_that_is_called_by_another_name_is_proposed(cli, written: str):
    assert cli("run", written).stderr == (
        f"error[target.missing] There is no file or folder {written}.\n  Did you mean p.sql?\n"
    )
    assert cli("run", "elsewhere/p").stderr.endswith("Name a pipeline file, or a project's folder.\n")


def test_questions_and_errors_on_watermarks_name_tables_as_users_do(alone: Path, cli):
    terminal, end = pty.openpty()
    os.write(terminal, b"n\n")
    command = [sys.executable, "-m", "tidemill", "reset-watermark", "p", "visits"]
    said = subprocess.run(command, cwd=alone, stdin=end, stdout=subprocess.PIPE, text=True, check=False).stdout
    os.close(end)
    os.close(terminal)
    assert said.startswith("The next run of visits will read everything. Go on? [y/N]: ")
    assert "the next run of visits read everything" in cli("reset-watermark", "p", "visits").stderr
    assert cli("set-watermark", "p", "visits", "2024-01-01", "--table", "visit").stderr == (
        "error[watermark.unknown_table] No table visit reads by a cursor.\n"
        "  Did you mean visits? Those that do: visits.\n"
    )


def test_a_file_with_functions_counts_and_a_script_does_not(folder: Path, cli):
    (folder / "script.py").write_text("import tidemill\nraise SystemExit('run')\n")
    assert "error[project.not_found]" in cli("list").stderr
    (folder / "tables.py").write_text(
        "import tidemill\n\n@tidemill.table(name='main.t', keys=['id'])\ndef t():\n    return [{'id': 1}]\n"
    )
    assert "tables.py:3" in cli("list").output


def test_proposed_commands_name_the_file_where_it_would_not_be_found(folder: Path, cli):
    (folder / "p.sql").write_text("CREATE TABLE a AS SELECT 1 AS id;")
    assert cli("status", "p.sql").output.endswith("  next: tidemill run\n")
    (folder / "q q.sql").write_text("CREATE TABLE b AS SELECT 1 AS id;")
    assert cli("status", "p.sql").output.endswith("  next: tidemill run p.sql\n")
    assert cli("status", "q q.sql").output.endswith("  next: tidemill run 'q q.sql'\n")


def test_watermarks_of_the_file_are_set_and_reset_and_verified_by_its_name(alone: Path, cli, spark):  # noqa: ARG001
    assert (
        json.loads(cli("set-watermark", "p", "visits", "2024-01-01", "--format", "json").output)["watermarks"][0][
            "watermark"
        ]
        == "2024-01-01"
    )
    reset = cli("reset-watermark", "p", "visits", "--confirm")
    assert (reset.exit_code, "reset: everything is read" in reset.output) == (0, True)
    assert cli("verify", "visits").exit_code == 0
    assert "visits" in cli("suggest").output
