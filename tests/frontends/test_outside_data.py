"""Outside data is declared in the project file; what is wrong with it is reported at its line, without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidemill.api.workspace import Workspace
from tidemill.errors import ArgumentError
from tidemill.frontends.project import ProjectSettings
from tidemill.frontends.project_file import Filling
from tidemill.model import FileErrors, excerpt

if TYPE_CHECKING:
    from pathlib import Path

DATABASE = """\
[vars]
host = "db.example.com"
[sources."erp.orders"]
type = "postgres"
url = "postgresql://${host}:${port|5432}/erp"
table = "public.orders"
columns = ["id", "at"]
password = "${env:ERP_PASSWORD}"
[sources.Rates]
type = "python"
function = "rates.py:today"
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    def write(text: str, pipeline: str = "") -> Path:
        (tmp_path / "tidemill.toml").write_text(text)
        (tmp_path / "pipelines").mkdir(exist_ok=True)
        (tmp_path / "pipelines" / "shop.sql").write_text(pipeline)
        return tmp_path

    return write


def test_outside_data_is_a_source_whose_texts_may_hold_variables(project):
    folder = project(DATABASE)
    (folder / ".env").write_text("ERP_PASSWORD=swordfish\n")
    loaded = ProjectSettings.load()
    filling = Filling(loaded.variables({"port": "6543"}))
    found = loaded.outside(filling)
    assert list(found) == ["erp.orders", "main.rates"]
    orders = found["erp.orders"]
    assert orders.params == {
        "url": "postgresql://db.example.com:6543/erp",
        "table": "public.orders",
        "password": "swordfish",
    }
    assert (orders.columns, orders.folder, str(orders.origin)) == (
        ("id", "at"),
        folder,
        f"{folder / 'tidemill.toml'}:3:2",
    )
    assert orders.masking.mask("swordfish") == "***"
    assert filling.secrets == {"swordfish"}
    assert Workspace.load().masking.mask("swordfish") == "***"


def test_a_variable_without_a_value_is_an_error_at_the_sources_line(project):
    folder = project(DATABASE)
    with pytest.raises(ArgumentError) as failure:
        Workspace.load()
    assert str(failure.value) == (
        "[project.missing_variable] ${env:ERP_PASSWORD} has no value. "
        "Set ERP_PASSWORD in .env or in the environment, or write a default: ${env:ERP_PASSWORD|…}."
    )
    assert str(failure.value.origin) == f"{folder / 'tidemill.toml'}:3:2"
    project('[sources."a.b"]\ntype = "csv"\npath = "${where}"')
    with pytest.raises(ArgumentError, match=r"Give it with --var where=… or in \[vars\]"):
        Workspace.load()


def test_a_name_that_no_query_could_write_is_an_error(project):
    project('[sources."a.b.c"]\ntype = "csv"\n')
    with pytest.raises(FileErrors) as failure:
        ProjectSettings.load()
    assert [excerpt(error).splitlines()[-1].strip() for error in failure.value.errors] == [
        "│  ^^^^^^^^^^^^^^^ name it schema.table"
    ]
    assert failure.value.errors[0].code == "project.bad_source_name"


def test_a_table_and_outside_data_cannot_have_one_name(project):
    folder = project(
        '[sources."main.orders"]\ntype = "csv"\npath = "orders.csv"\n',
        'SOURCE s TYPE CSV PARAMS { "path": "s.csv" };\nLOAD orders FROM s;\n',
    )
    with pytest.raises(FileErrors) as failure:
        Workspace.load()
    assert excerpt(failure.value.errors[0]) == (
        "error[project.source_is_table] orders is declared as outside data, and as a table at "
        "pipelines/shop.sql:2:1.\n"
        f"  {folder / 'tidemill.toml'}:1:2\n"
        "  Give one of them another name."
    )


def test_queries_and_exports_may_name_outside_data(project):
    project(
        '[sources."erp.orders"]\ntype = "csv"\npath = "orders.csv"\n',
        'CREATE TABLE daily AS SELECT * FROM Erp.Orders;\nEXPORT erp.orders TO "out.csv" TYPE CSV;\n',
    )
    workspace = Workspace.load()
    assert [node.inputs for node in workspace.graph.in_order()] == [("erp.orders",), ("erp.orders",)]
