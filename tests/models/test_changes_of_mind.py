"""A model that changes its strategy: warned of, refused or ignored, as tidemill.toml says, before Spark starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidemill.model.cursor import cursor

READ = {"query": cursor("timestamp", "2024-01-31T10:30:00Z")}
MERGE = """metadata = {"kept_rows": "intended", "materialization": "incremental", "incremental": {
    "strategy": "merge", "merge": {"unique_key": ["id"], "time_column": "updated_at"}}}
"""
APPEND = """metadata = {"materialization": "incremental", "incremental": {
    "strategy": "append", "append": {"time_column": "created_at", "lookback": "7 days"}}}
"""


@pytest.fixture
def changed(load, query, has_run):
    """A model that was maintained by a merge on `updated_at`, and is to be by an append on `created_at`."""
    (merged,) = load({"orders.sql": query, "orders.py": MERGE}).tables
    known = {
        "sql_hash": merged.sql_hash,
        "config_hash": merged.config_hash,
        "declared_strategy": merged.declared_strategy,
    }
    has_run("orders", "merge upsert", progress=READ, window={"column": "updated_at"}, **known)
    load({"orders.py": APPEND})


def behaves(how: str) -> None:
    with Path("tidemill.toml").open("a") as file:
        file.write(f'[flags]\nmaterialization_change_behavior = "{how}"\n')


@pytest.mark.usefixtures("changed")
def test_by_default_the_plan_says_what_to_expect(cli):
    assert cli("plan").stdout == (
        "  table             strategy  reads\n"
        "  my_schema.orders  append    since its highest created_at\n"
        "  notice  my_schema.orders was maintained by merge upsert on id, and is by append from this run on: its rows "
        "stay, and a row that is corrected enters beside the one that is here. Make all of it so with: "
        "tidemill run -s my_schema.orders --full-refresh\n"
    )


@pytest.mark.usefixtures("changed")
@pytest.mark.parametrize("command", ["plan", "run"])
def test_as_an_error_it_stops_everything_before_anything_runs(cli, command, monkeypatch):
    behaves("error")
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    result = cli(command, "--format", "json")
    error = json.loads(result.stdout)["error"]
    assert (result.exit_code, error["code"]) == (2, "plan.changed_mind")
    assert error["origin"] == "models/my_schema/orders.sql:1:1"
    assert not Path(".tidemill").exists()
    assert cli("plan", "--full-refresh").exit_code == 0


@pytest.mark.usefixtures("changed")
def test_a_changed_kind_a_changed_strategy_and_a_missing_variable_are_reported_at_once(cli, load, query, has_run):
    behaves("error")
    has_run("seen", "replace")
    load(
        {"seen.sql": f'-- metadata: {{"materialization": "view"}}\n{query}', "kinds.sql": f"{query} AND status = @kind"}
    )
    result = cli("run")
    assert (result.exit_code, result.stdout) == (2, "")
    assert [line.split()[0] for line in result.stderr.splitlines() if line.startswith("error")] == [
        "error[variables.missing]",
        "error[plan.changed_mind]",
        "error[plan.materialization_changed]",
    ]


@pytest.mark.usefixtures("changed")
def test_ignored_it_is_not_reported(cli):
    behaves("ignore")
    assert "notice" not in cli("plan").stdout


@pytest.mark.usefixtures("changed")
def test_back_again_there_is_nothing_to_say(cli, load):
    load({"orders.py": MERGE})
    assert cli("plan").stdout.splitlines()[1:] == [
        "  my_schema.orders  merge upsert on id  since 2024-01-31 10:30:00 UTC"
    ]
