"""Mistakes of a first day, each with the whole text that a user reads; none of them needs Spark."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

DAC_OVERRIDE, DAC_READ_SEARCH, DROP = 1, 2, 24  # of Linux's capabilities: root reads what nobody may


@pytest.fixture
def project(folder: Path) -> Path:
    for name, text in {
        "tidemill.toml": 'name = "shop"\n',
        "pipelines/shop.sql": (
            'SOURCE orders TYPE CSV PARAMS { "path": "data/orders.csv" };\nLOAD orders FROM orders MODE MERGE ON id;\n'
        ),
        "data/orders.csv": "id,amount\n1,10\n",
    }.items():
        write(folder / name, text)
    return folder


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def as_ordinary_user(*args: str) -> subprocess.CompletedProcess[str]:
    """Runs a command without the rights by which root reads every file."""

    def give_up_rights() -> None:
        for right in (DAC_OVERRIDE, DAC_READ_SEARCH):
            ctypes.CDLL(None).prctl(DROP, right, 0, 0, 0)

    command = [sys.executable, "-m", "tidemill.cli.main", *args]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=give_up_rights,
    )


def test_a_query_that_cannot_be_parsed_is_shown_where_the_parser_stops(project: Path, cli):
    write(project / "models/main/daily.sql", "SELECT id,\n       sum(amount) AS total\nFROM orders\nGROUPP BY id\n")
    result = cli("validate")
    assert result.exit_code == 2
    assert result.stderr == (
        "error[models.syntax] the query cannot be parsed: unexpected BY\n"
        "  models/main/daily.sql:4:8\n"
        "    4 │ GROUPP BY id\n"
        '      │        ^^ correct it, or name its tables in the metadata: "reads": ["my_schema.orders"]\n'
        "1 error · nothing was run\n"
    )


def test_the_place_is_right_beside_variables_and_a_bracket_that_is_missing_is_named(project: Path, cli):
    write(project / "models/main/daily.sql", "SELECT id, (amount + ${more|1000} FROM orders\n")
    assert cli("validate").stderr == (
        "error[models.syntax] the query cannot be parsed: ) is missing before FROM\n"
        "  models/main/daily.sql:1:35\n"
        "    1 │ SELECT id, (amount + ${more|1000} FROM orders\n"
        '      │                                   ^^^^ correct it, or name its tables in the metadata: "reads": '
        '["my_schema.orders"]\n'
        "1 error · nothing was run\n"
    )


@pytest.mark.parametrize("file", ["models/main/daily.sql", "pipelines/daily.sql"])
def test_a_model_of_dbt_is_recognised(project: Path, cli, file: str):
    write(project / file, "{{ config(materialized='incremental') }}\nSELECT * FROM {{ ref('orders') }}\n")
    result = cli("validate")
    assert result.exit_code == 2
    assert result.stderr == (
        "error[language.dbt_template] this is a template of dbt, and queries are plain SQL here\n"
        f"  {file}:1:1\n"
        "    1 │ {{ config(materialized='incremental') }}\n"
        f"      │ {'^' * 40} docs/coming-from.md says what each part of a dbt model becomes\n"
        "1 error · nothing was run\n"
    )


def test_the_name_that_a_ref_of_dbt_means_is_said(project: Path, cli):
    write(project / "pipelines/daily.sql", "CREATE TABLE daily AS SELECT * FROM {{ ref('orders') }};\n")
    assert cli("validate").stderr == (
        "error[language.dbt_template] this is a template of dbt, and queries are plain SQL here\n"
        "  pipelines/daily.sql:1:37\n"
        "    1 │ CREATE TABLE daily AS SELECT * FROM {{ ref('orders') }};\n"
        "      │                                     ^^^^^^^^^^^^^^^^^^^ write orders, the plain name; "
        "docs/coming-from.md says what each part of a dbt model becomes\n"
        "1 error · nothing was run\n"
    )


def test_files_that_may_not_be_read_are_not_said_to_be_missing(project: Path):
    (project / "data/orders.csv").chmod(0o000)
    write(project / "closed/p.sql", "")
    (project / "closed").chmod(0o000)
    allow = "  Allow the user who runs this to read it.\n"
    try:
        merged = as_ordinary_user("merge", "data/orders.csv", "lake/orders", "--on", "id")
        found = as_ordinary_user("validate", "closed/p.sql")
        inside = as_ordinary_user("merge", "closed/a.csv", "lake/orders", "--on", "id")
    finally:
        (project / "closed").chmod(0o755)
    file = project / "data/orders.csv"
    assert (merged.returncode, merged.stderr) == (
        2,
        f"error[source.forbidden] {file} may not be read: permission denied.\n{allow}",
    )
    assert (found.returncode, found.stderr) == (
        2,
        f"error[target.forbidden] closed/p.sql may not be read: permission denied.\n{allow}",
    )
    assert (inside.returncode, inside.stderr) == (
        2,
        f"error[source.forbidden] {project}/closed/a.csv may not be read: permission denied.\n{allow}",
    )


def test_a_home_that_cannot_be_written_names_the_setting(project: Path, monkeypatch: pytest.MonkeyPatch):
    (project / "home").mkdir(mode=0o555)
    monkeypatch.setenv("TIDEMILL_HOME", str(project / "home/cache"))
    result = as_ordinary_user("setup", "--quiet")
    assert (result.returncode, result.stderr) == (
        1,
        (
            f"error[engine.cache_unwritable] {project}/home/cache/jars cannot be written (Permission denied).\n"
            "  Make it writable, or name another folder in TIDEMILL_HOME.\n"
        ),
    )


@pytest.mark.parametrize(
    "command",
    [
        ("run",),
        ("run", "nowhere.sql"),
        ("plan", "nowhere.sql"),
        ("validate", "nowhere.sql"),
        ("merge", "nowhere.csv", "lake/orders", "--on", "id"),
        ("history", "lake/nowhere"),
        ("show", "lake/nowhere"),
        ("compact", "lake/nowhere"),
        ("restore", "lake/nowhere", "--to", "1"),
        ("backup", "lake/nowhere"),
    ],
    ids=" ".join,
)
def test_a_file_that_is_missing_ends_every_command_with_2(project: Path, cli, command: tuple[str, ...]):
    (project / "data/orders.csv").unlink()
    assert cli(*command).exit_code == 2


def test_in_a_project_a_merge_goes_into_a_table_and_a_path_needs_a_slash(project: Path, cli):
    result = cli("merge", "data/orders.csv", "ordres", "--on", "id")
    assert result.exit_code == 2
    assert result.stderr == (
        "error[table.unknown] No table ordres is declared.\n  Did you mean orders? A path needs ./ here: ./ordres\n"
    )
    assert not (project / "ordres").exists()


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_query_of_a_pipeline_that_cannot_be_parsed_is_a_notice_as_spark_may_know_more(project: Path, cli, form: str):
    write(
        project / "pipelines/daily.sql", "CREATE TABLE daily AS SELECT id,\n  count(* AS n FROM orders GROUP BY id;\n"
    )
    result = cli("validate", "--format", form)
    said = (
        "pipelines/daily.sql:2:11: the query of daily cannot be parsed: ) is missing before AS. Correct it; "
        "if Spark knows this syntax, what the query reads stays unknown."
    )
    assert result.exit_code == 0
    if form == "json":
        assert json.loads(result.stdout)["notices"] == [said]
    else:
        assert result.stdout == f"  notice  {said}\n  ! no errors · 1 notice · 2 tables\n"


@pytest.mark.parametrize("command", ["compact", "vacuum", "recover", "backup", "drop", "restore --to 0"])
@pytest.mark.usefixtures("project")
def test_commands_on_a_table_that_is_declared_say_that_it_is_not_made_yet(cli, command: str):
    result = cli(*command.split(), "orders")
    assert (result.exit_code, result.stderr) == (
        2,
        "error[table.not_made] orders is declared, and not made yet.\n  Make it: tidemill run.\n",
    )


@pytest.mark.parametrize("command", ["compact", "vacuum", "recover", "backup", "drop"])
def test_commands_on_tables_say_which_one_may_be_meant(project: Path, cli, command: str):
    result = cli(command, "ordres")
    assert (result.exit_code, result.stderr) == (
        2,
        "error[table.missing] There is no table ordres.\n  Did you mean orders?\n",
    )
    gone = f"error[table.missing] There is no table at {project}/lake/x.\n  Give the path of a table.\n"
    assert cli(command, project / "lake/x").stderr == gone


def test_a_project_file_that_may_not_be_read_is_not_said_to_be_no_text(project: Path):
    (project / "tidemill.toml").chmod(0o000)
    result = as_ordinary_user("validate")
    assert result.returncode == 2
    assert result.stderr == (
        f"error[project.unreadable] {project}/tidemill.toml cannot be read\n"
        "  permission denied\n1 error · nothing was run\n"
    )


@pytest.mark.parametrize("name", ["pipelines", "models", "models/shop"])
def test_a_folder_that_may_not_be_looked_into_is_an_error_and_not_empty(project: Path, name: str):
    write(project / name / "orders.sql", "SELECT 1 AS id\n")
    (project / name).chmod(0o000)
    try:
        result = as_ordinary_user("validate")
    finally:
        (project / name).chmod(0o755)
    allow = "  Allow the user who runs this to read it.\n"
    assert (result.returncode, result.stderr) == (
        2,
        f"error[target.forbidden] {project}/{name} may not be read: permission denied.\n{allow}",
    )
