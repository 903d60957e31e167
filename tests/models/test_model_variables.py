"""Variables that a run of models needs: what is missing or wrong is reported before Spark starts, and nothing runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidemill.model.cursor import cursor

DAILY = """from tidemill.typing import ModelMetadata

metadata: ModelMetadata = {
    "materialization": "incremental",
    "incremental": {
        "strategy": "delete_insert",
        "delete_insert": {
            "where_condition": "updated_at >= @start_date",
            "time_column": "updated_at",
            "start_date": "@start_date",
        },
    },
}
"""
READ = {"query": cursor("timestamp", "2024-01-31T10:30:00Z")}
GIVE = "Give it on the command line: tidemill run -s my_schema.daily --vars"
PLANNED = "  table            strategy       reads\n  my_schema.daily  delete_insert  "


@pytest.fixture
def daily(load, query, has_run, monkeypatch):
    """A model that has run, in a project whose runs may not start Spark."""
    load({"daily.sql": query, "daily.py": DAILY})
    has_run("daily", "delete_insert", progress=READ)
    monkeypatch.setenv("JAVA_HOME", "/nowhere")


@pytest.mark.usefixtures("daily")
def test_watermarks_of_models_are_under_models_by_their_own_names(cli):
    shown = "  models    my_schema.daily  updated_at  2024-01-31 10:30:00 UTC"
    assert cli("show-watermarks").stdout.splitlines()[1].startswith(shown)
    assert shown in cli("show-watermarks", "models", "--source", "my_schema.daily").stdout
    unknown = cli("set-watermark", "models", "my_schema.dialy", "2024-01-01")
    assert unknown.exit_code == 2
    assert unknown.stderr == (
        "error[watermark.unknown_source] No source my_schema.dialy reads by a cursor.\n"
        "  Did you mean my_schema.daily? Those that do: my_schema.daily.\n"
    )


@pytest.mark.usefixtures("daily")
@pytest.mark.parametrize("command", ["run", "plan"])
def test_a_missing_variable_is_an_error_that_names_it_and_shows_how_to_give_it(cli, command):
    result = cli(command, "-s", "my_schema.daily")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "error[variables.missing] my_schema.daily needs @start_date.\n"
        "  models/my_schema/daily.py:10:13\n"
        f"""  {GIVE} '{{"start_date": "2024-02-01"}}'\n"""
    )
    assert not Path(".tidemill").exists()


@pytest.mark.usefixtures("daily")
def test_a_misspelled_variable_is_recognized(cli):
    result = cli("run", "--var", "strat_date=2024-02-01")
    assert result.exit_code == 2
    assert f"  strat_date is given: did you mean start_date? {GIVE}" in result.stderr


@pytest.mark.usefixtures("daily")
def test_a_value_of_the_wrong_type_names_its_variable_and_the_type(cli):
    result = cli("run", "--vars", json.dumps({"start_date": "1' OR '1'='1; --"}))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        """error[window.bad_value] @start_date is "1' OR '1'='1; --", which is no timestamp.\n"""
        "  models/my_schema/daily.py:10:13\n"
        "  Write a timestamp as 2024-01-31T10:30:00Z; a bare date is that day in the session's zone.\n"
    )


@pytest.mark.usefixtures("daily")
def test_all_that_is_missing_is_reported_at_once(cli, load, query):
    load({"other.sql": f"{query} AND status = @kind"})
    result = cli("run")
    assert result.exit_code == 2
    assert [line for line in result.stderr.splitlines() if not line.startswith("  ")] == [
        "error[variables.missing] my_schema.daily needs @start_date.",
        "error[variables.missing] my_schema.other needs @kind.",
        "2 errors · nothing was run",
    ]
    assert cli("plan", "-s", "my_schema.other", "--var", "kind=x").exit_code == 0


@pytest.mark.usefixtures("daily")
@pytest.mark.parametrize("command", ["run", "plan"])
def test_a_refresh_that_is_not_allowed_is_reported_beside_what_is_missing(cli, load, query, has_run, command):
    load(
        {
            "other.sql": f"{query} AND status = @kind",
            "kept.sql": query,
            "kept.py": "metadata = {'reset_allowed': False}",
        }
    )
    has_run("kept", "replace")
    result = cli(command, "--full-refresh")
    assert (result.exit_code, result.stdout) == (2, "")
    assert [line.partition(":")[0] for line in result.stderr.splitlines() if not line.startswith("  ")] == [
        "error[table.reset_refused] my_schema.kept is declared reset_allowed = false",
        "error[variables.missing] my_schema.other needs @kind.",
        "2 errors · nothing was run",
    ]
    assert not Path(".tidemill").exists()
    assert cli("plan", "--full-refresh", "--exclude", "my_schema.kept", "--var", "kind=x").exit_code == 0


@pytest.mark.usefixtures("daily")
@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (("--vars", '{"start_date": "2024-01-30"}'), "since 2024-01-30 00:00:00 UTC (from @start_date)"),
        (("--start", "2024-01-01"), "backfill from 2024-01-01"),
        (("--full-refresh",), "full refresh: everything is read, and the table becomes what a first run gives"),
    ],
)
def test_a_run_that_knows_where_to_start_is_planned(cli, args, reason):
    assert cli("plan", *args).stdout == f"{PLANNED}{reason}\n"


@pytest.mark.usefixtures("daily")
@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (("--start", "soon"), "error[window.bad_value] --start is 'soon', which is no timestamp.\n  Write a"),
        (("--start", "2024-02-01", "--end", "2024-01-01"), "error[backfill.empty] Nothing lies between 2024-02-01 and"),
    ],
)
def test_bounds_of_a_backfill_that_mean_nothing_are_reported_once(cli, load, query, has_run, args, problem):
    load({"other.sql": query, "other.py": DAILY})
    has_run("other", "delete_insert", progress=READ)
    result = cli("run", *args)
    assert (result.exit_code, result.stdout, result.stderr.count("error[")) == (2, "", 1)
    assert result.stderr.startswith(problem)


@pytest.mark.usefixtures("daily")
def test_a_table_whose_log_cannot_be_read_hides_nothing_that_is_wrong_with_others(cli, load, query):
    load({"broken.sql": query})
    Path("warehouse/my_schema/broken").mkdir()
    Path("warehouse/my_schema/broken/notes.txt").write_text("mine")
    assert "my_schema.daily needs @start_date" in cli("run").stderr
    planned = cli("plan", "--var", "start_date=2024-02-01")
    assert (planned.exit_code, "error[table.not_a_table]" in planned.stderr) == (1, True)


def test_a_first_run_needs_no_start(cli, load, query):
    load({"daily.sql": query, "daily.py": DAILY})
    assert cli("plan").stdout == f"{PLANNED}first run\n"


@pytest.mark.usefixtures("daily")
def test_a_variable_that_a_full_run_needs_is_missed_by_verify_too_and_the_start_is_not(cli, load, query):
    load({"daily.sql": f"{query} AND status = @kind"})
    result = cli("verify")
    assert result.exit_code == 2
    assert "error[variables.missing] my_schema.daily needs @kind." in result.stderr
