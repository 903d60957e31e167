"""A project with a folder of models, read without Spark, and what was wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest
from click.testing import CliRunner

from tidemill.cli.main import tidemill
from tidemill.contracts import Record
from tidemill.declare.mistakes import FileErrors, excerpt
from tidemill.state.delta_log import APP_ID
from tidemill.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result

    from tidemill.declare.tables import Table
    from tidemill.declare.views import View

PROJECT = """
name = "shop"
[sources."t_project.source_table"]
type = "parquet"
path = "data/source"
"""
QUERY = "SELECT id, status, created_at, updated_at FROM t_project.source_table WHERE active\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("tidemill.toml").write_text(PROJECT, encoding="utf-8")
    return tmp_path


@pytest.fixture
def query() -> str:
    return QUERY


def write(files: dict[str, str]) -> None:
    """Files by their paths; a model's are written from `models/` on."""
    for name, text in files.items():
        file = Path(name if "/" in name else f"models/my_schema/{name}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="")


@pytest.fixture
def load() -> Callable[..., Workspace]:
    def run(files: dict[str, str], **given: str) -> Workspace:
        write(files)
        return Workspace.load(".", given=given)

    return run


@pytest.fixture
def model(load) -> Callable[..., Table | View]:
    """The declaration of one model: a query, and the text of its sidecar from `metadata = ` on."""

    def run(metadata: str | None = None, query: str = QUERY, **given: str) -> Table | View:
        files = {"orders.sql": query} | ({} if metadata is None else {"orders.py": f"metadata = {metadata}\n"})
        return load(files, **given).graph.nodes["my_schema.orders"]

    return run


@pytest.fixture
def errors(load) -> Callable[..., list[str]]:
    """The same for files that are wrong: each error as a terminal shows it."""

    def run(files: dict[str, str], **given: str) -> list[str]:
        with pytest.raises(FileErrors) as failure:
            load(files, **given)
        assert failure.value.exit_code == 2
        return [excerpt(error) for error in failure.value.errors]

    return run


@pytest.fixture
def error(errors) -> Callable[..., str]:
    """The one error of a model with this sidecar."""

    def run(metadata: str, query: str = QUERY, **more: Any) -> str:
        (found,) = errors({"orders.sql": query, "orders.py": f"metadata = {metadata}\n"}, **more)
        return found

    return run


@pytest.fixture
def has_run() -> Callable[..., None]:
    """A model that has run before: its table is there, with the record of its last commit."""

    def commit(name: str, strategy: str, **known: Any) -> None:
        record = Record("run-0", f"my_schema.{name}", 1, strategy, "2024-02-01T06:00:00.000Z", held=0, **known)
        mark = deltalake.CommitProperties(
            {"userMetadata": record.to_json()}, app_transactions=[deltalake.Transaction(APP_ID, 1)]
        )
        deltalake.write_deltalake(f"warehouse/my_schema/{name}", pa.table({"id": [1, 2]}), commit_properties=mark)

    return commit


@pytest.fixture
def cli() -> Callable[..., Result]:
    return lambda *args: CliRunner().invoke(tidemill, list(args))
