"""A table's name is the same in text, JSON and Python; with its schema it is accepted everywhere."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import tidemill

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = "CREATE TABLE raw AS SELECT 1 AS id;\nCREATE TABLE mart.daily AS SELECT id FROM raw;\n"


@pytest.fixture
def shop(folder: Path) -> Path:
    (folder / "tidemill.toml").write_text('name = "shop"\n[warehouse]\nschema = "lake"\n')
    (folder / "pipelines").mkdir()
    (folder / "pipelines" / "p.sql").write_text(PIPELINE)
    return folder


@pytest.mark.parametrize(
    ("command", "listed", "key"),
    [
        ("plan", "steps", "table"),
        ("list", "declared", "name"),
        ("state", "tables", "model_name"),
        ("status", "tables", "table"),
    ],
)
def test_the_schema_that_goes_without_saying_is_left_out_of_text_and_json(shop: Path, cli, command, listed, key):
    del shop
    found = json.loads(cli(command, "--format", "json").stdout)[listed]
    assert [each[key] for each in found] == ["raw", "mart.daily"]
    lines = cli(command).stdout.splitlines()
    assert [line.split()[0] for line in lines[1:3]] == ["raw", "mart.daily"]
    assert "lake.raw" not in cli(command).stdout


def test_python_has_the_names_of_the_commands_and_takes_them_with_their_schema(shop: Path, cli):
    project = tidemill.Project.load(shop)
    assert [table.name for table in project.tables] == ["raw", "mart.daily"]
    assert [step.table for step in project.plan("lake.raw")] == ["raw"]
    (found,) = json.loads(cli("state", "lake.raw", "--format", "json").stdout)["tables"]
    assert found["model_name"] == "raw"
    assert json.loads(cli("compile", "lake.raw", "--format", "json").stdout)["table"] == "raw"
