"""What users write to have a materialized view, and what is said where it makes no sense. Starts no Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidemill.api.workspace import Workspace
from tidemill.model import excerpt
from tidemill.model.mistakes import FileErrors
from tidemill.model.strategy import Append, MaterializedView, Merge, Refresh, Replace

if TYPE_CHECKING:
    from tidemill.model.strategy import Strategy

ORDERS = '[sources.orders]\ntype = "delta"\npath = "lake/orders"\n'
QUERY = "SELECT id FROM orders"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def strategies(pipeline: str = "", flags: str = "", **models: str) -> dict[str, Strategy]:
    """Those of the tables that a pipeline and some models declare."""
    Path("tidemill.toml").write_text(f"{ORDERS}{flags}")
    Path("pipelines").mkdir(exist_ok=True)
    Path("pipelines/p.sql").write_text(pipeline)
    Path("models/main").mkdir(parents=True, exist_ok=True)
    for name, text in models.items():
        Path(f"models/main/{name}.sql").write_text(text)
    return {table.name.removeprefix("main."): table.strategy for table in Workspace.load(".").all_tables}


def error(pipeline: str = "", flags: str = "", **models: str) -> str:
    """The one error, as a terminal shows it."""
    with pytest.raises(FileErrors) as failure:
        strategies(pipeline, flags, **models)
    (found,) = failure.value.errors
    return excerpt(found)


@pytest.mark.parametrize("statement", ["CREATE MATERIALIZED VIEW", "CREATE OR REPLACE MATERIALIZED VIEW"])
def test_a_statement_declares_a_view_that_chooses_how_it_is_refreshed(statement: str) -> None:
    assert strategies(f"{statement} v AS {QUERY};") == {"v": MaterializedView(refresh=Refresh.AUTO)}


def test_a_statement_and_a_model_say_how_a_view_is_refreshed() -> None:
    found = strategies(
        f'CREATE MATERIALIZED VIEW v OPTIONS {{"refresh": "full", "max_shrink": 0.5}} AS {QUERY};',
        m=f'-- metadata: {{"materialization": "materialized_view", "refresh": "incremental"}}\n{QUERY}\n',
    )
    assert found["v"] == MaterializedView(max_shrink=0.5, refresh=Refresh.FULL)
    assert found["v"].refresh is Refresh.FULL
    assert found["m"].refresh is Refresh.INCREMENTAL


def test_a_flag_makes_views_of_the_tables_that_a_query_replaces_and_of_no_others() -> None:
    found = strategies(
        f"CREATE TABLE plain AS {QUERY}; CREATE TABLE merged MODE MERGE ON id AS {QUERY};"
        f"CREATE TABLE appended MODE APPEND AS {QUERY};"
        f'CREATE MATERIALIZED VIEW own OPTIONS {{"refresh": "full"}} AS {QUERY};'
        'SOURCE files TYPE CSV PARAMS {"path": "x.csv"}; LOAD loaded FROM files;',
        '[flags]\ntable_refresh = "incremental"\n',
        model=f"{QUERY}\n",
    )
    assert {name: each.refresh for name, each in found.items()} == {
        "plain": Refresh.INCREMENTAL,
        "merged": None,
        "appended": None,
        "own": Refresh.FULL,
        "loaded": None,
        "model": Refresh.INCREMENTAL,
    }
    assert isinstance(found["merged"], Merge)
    assert isinstance(found["appended"], Append)
    assert isinstance(found["loaded"], Replace)


def test_refreshes_are_checked_where_a_view_or_else_its_project_says_so() -> None:
    views = (
        f"CREATE MATERIALIZED VIEW v AS {QUERY};"
        f'CREATE MATERIALIZED VIEW quick OPTIONS {{"refresh_check": "never"}} AS {QUERY};'
        f"CREATE TABLE plain AS {QUERY};"
    )
    model = f'-- metadata: {{"materialization": "materialized_view", "refresh_check": "always"}}\n{QUERY}\n'
    alone = strategies(views, m=model)
    assert {name: each.checks_refresh for name, each in alone.items()} == {
        "v": False, "quick": False, "plain": False, "m": True,
    }  # fmt: skip
    assert alone["m"].refresh is Refresh.AUTO
    flagged = strategies(views, '[flags]\nrefresh_check = "always"\n', m=model)
    assert {name: each.checks_refresh for name, each in flagged.items()} == {
        "v": True, "quick": False, "plain": False, "m": True,
    }  # fmt: skip
    hashes = {repr(each["v"]) for each in (alone, flagged)}
    assert len(hashes) == 1, "it is no change of the declaration"


@pytest.mark.parametrize(
    ("pipeline", "problem", "line", "remedy"),
    [
        (
            "CREATE MATERIALIZED VIEW v\nMODE MERGE ON id AS SELECT 1;",
            "[language.unexpected] CREATE MATERIALIZED VIEW takes no MODE",
            "p.sql:2:1",
            "leave it out: the view is what its query gives, whichever way its rows enter",
        ),
        (
            'CREATE MATERIALIZED VIEW v\nOPTIONS {"refresh": "full"} MODE REPLACE AS SELECT 1;',
            "[language.unexpected] CREATE MATERIALIZED VIEW takes no MODE",
            "p.sql:2:29",
            "leave it out: the view is what its query gives, whichever way its rows enter",
        ),
        (
            'CREATE MATERIALIZED VIEW v OPTIONS {\n"refresh": "sometimes"} AS SELECT 1;',
            "[language.bad_option] refresh must be one of auto, incremental, full",
            "p.sql:2:1",
            "correct it",
        ),
        (
            'CREATE MATERIALIZED VIEW v OPTIONS {\n"refresh_check": true} AS SELECT 1;',
            "[language.bad_option] refresh_check must be one of never, always",
            "p.sql:2:1",
            "correct it",
        ),
        (
            'CREATE MATERIALIZED VIEW v OPTIONS {\n"refresh": "incremetal"} AS SELECT 1;',
            "[language.bad_option] refresh must be one of auto, incremental, full",
            "p.sql:2:1",
            "did you mean incremental?",
        ),
        (
            "CREATE\nMATERIALISED VIEW v AS SELECT 1;",
            "[language.unexpected] CREATE needs TABLE or MATERIALIZED VIEW",
            "p.sql:2:1",
            "did you mean MATERIALIZED?",
        ),
        (
            "CREATE MATERIALIZED VIEW v CLUSTER BY (id) AS SELECT 1 AS id;",
            "[language.unexpected] CREATE MATERIALIZED VIEW has no clause CLUSTER",
            "p.sql:1:28",
            'it is an option: OPTIONS { "cluster_by": … }',
        ),
        (
            "SELECT 1 AS id;",
            "[language.unknown_statement] a query alone is no statement",
            "p.sql:1:1",
            "write CREATE TABLE name AS before a query",
        ),
        (
            'CREATE MATERIALIZED VIEW v OPTIONS {\n"only_newer": true} AS SELECT 1;',
            "[language.misplaced_option] CREATE MATERIALIZED VIEW takes no only_newer",
            "p.sql:2:1",
            "leave it out: the view is what its query gives",
        ),
        (
            'CREATE TABLE v OPTIONS {\n"refresh": "full"} AS SELECT 1;',
            "[language.misplaced_option] CREATE TABLE takes no refresh",
            "p.sql:2:1",
            "it is for CREATE MATERIALIZED VIEW",
        ),
        (
            'SOURCE s TYPE CSV PARAMS {"path": "x"};\nLOAD v FROM s OPTIONS {"refresh": "full"};',
            "[language.misplaced_option] LOAD takes no refresh",
            "p.sql:2:24",
            "it is for CREATE MATERIALIZED VIEW",
        ),
        (
            "CREATE MATERIALIZED v AS SELECT 1;",
            "[language.unexpected] CREATE MATERIALIZED needs VIEW",
            "p.sql:1:21",
            "write CREATE MATERIALIZED VIEW name AS SELECT …;",
        ),
        (
            "CREATE VIEW v AS SELECT 1;",
            "[language.unexpected] CREATE needs TABLE",
            "p.sql:1:8",
            "write CREATE TABLE name AS SELECT …; or CREATE MATERIALIZED VIEW name AS SELECT …;",
        ),
    ],
)
def test_what_a_pipeline_says_wrongly_is_one_error_at_its_place(
    pipeline: str, problem: str, line: str, remedy: str
) -> None:
    found = error(pipeline)
    assert found.startswith(f"error{problem}\n")
    assert f"/{line}\n" in found
    assert found.endswith(remedy)


@pytest.mark.parametrize(
    ("metadata", "problem", "remedy"),
    [
        (
            '{"materialization": "table", "refresh": "full"}',
            "[models.misplaced_key] a table takes no refresh",
            "it is for materialized_view",
        ),
        (
            '{"materialization": "view", "refresh": "full"}',
            "[models.misplaced_key] a view takes no refresh",
            "it is for materialized_view",
        ),
        (
            '{"materialization": "materialized_view", "refresh": "often"}',
            "[models.unknown_value] refresh must be one of auto, incremental, full, not often",
            "use one of them",
        ),
        (
            '{"materialization": "materialised_view"}',
            "[models.unknown_value] materialization must be one of table, view, materialized_view, incremental",
            "did you mean materialized_view?",
        ),
        (
            '{"materialization": "materialized_view", "incremental": {"strategy": "append"}}',
            "[models.misplaced_key] incremental is given, and the materialization is materialized_view",
            'write "materialization": "incremental"',
        ),
    ],
)
def test_what_a_model_says_wrongly_is_one_error_at_its_place(metadata: str, problem: str, remedy: str) -> None:
    found = error(m=f"-- metadata: {metadata}\n{QUERY}\n")
    assert found.startswith(f"error{problem}")
    assert "/m.sql:1:" in found
    assert found.endswith(remedy)


def test_an_unknown_refresh_of_all_tables_is_an_error_of_the_project_file() -> None:
    found = error(f"CREATE TABLE v AS {QUERY};", '[flags]\ntable_refresh = "yes"\n')
    assert found.startswith("error[project.bad_value] flags.table_refresh must be one of auto, incremental, full\n")
