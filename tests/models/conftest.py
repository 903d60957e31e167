"""A project with a folder of models, read without Spark, and what was wrong with it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from delta_rows import delta_rows
from support import moment

from tidemill import Record
from tidemill.api.workspace import Workspace
from tidemill.cli.main import tidemill
from tidemill.execution import StepResult
from tidemill.formats.delta.log import APP_ID
from tidemill.model import FileErrors, excerpt
from tidemill.planning import USUAL

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result
    from pyspark.sql import SparkSession

    from tidemill import Table, Verified
    from tidemill.execution import Outcome
    from tidemill.model.query import View
    from tidemill.planning import Request

PROJECT = """
name = "shop"
[sources."t_project.source_table"]
type = "parquet"
path = "data/source"
"""
# A sidecar with the three strategies; the name of one of them comes behind it.
SIDECAR = """
from tidemill.typing import ModelMetadata

append: ModelMetadata = {
    "description": "…", "materialization": "incremental",
    "incremental": {"strategy": "append", "append": {
        "time_column": "created_at", "start_date": "2024-01-01", "lookback": "7 days"}},
}
merge: ModelMetadata = {
    "materialization": "incremental",
    "incremental": {"strategy": "merge", "merge": {
        "unique_key": ["id"], "time_column": "updated_at", "start_date": "auto", "lookback": "3 hours"}},
    "kept_rows": "intended",
}
delete_insert: ModelMetadata = {
    "materialization": "incremental",
    "incremental": {"strategy": "delete_insert", "delete_insert": {
        "where_condition": "updated_at >= @start_date", "time_column": "updated_at", "start_date": "@start_date"}},
}
metadata = """
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
        columns = [TYPES.field(column) for column in ("id", "status", "created_at", "updated_at")]  # those of QUERY
        rows = pa.Table.from_pylist([{"id": 1}, {"id": 2}], pa.schema(columns))
        deltalake.write_deltalake(f"warehouse/my_schema/{name}", rows, commit_properties=mark)

    return commit


@pytest.fixture
def cli() -> Callable[..., Result]:
    return lambda *args: CliRunner().invoke(tidemill, list(args))


TYPES = pa.schema(
    [
        *(("id", pa.int64()), ("status", pa.string()), ("amount", pa.int64()), ("active", pa.bool_())),
        *(("created_at", pa.timestamp("us", tz="UTC")), ("updated_at", pa.timestamp("us", tz="UTC"))),
    ]
)


@dataclass(frozen=True)
class Order:
    """One row of the source. Times are hours after the start of 2024."""

    id: int
    created: float
    updated: float | None
    amount: int = 10
    active: bool = True
    status: str = "open"

    def corrected(self, updated: float) -> Order:
        return replace(self, updated=updated, amount=self.amount + 1)


@dataclass
class Shop:
    """A project of models over one source table, on the shared Spark."""

    spark: SparkSession
    written: int = 0

    def source(self, *orders: Order) -> None:
        """The source becomes these rows, in a file that was never seen before."""
        rows = [
            {
                **{name: getattr(order, name) for name in ("id", "status", "amount", "active")},
                "created_at": moment(order.created),
                "updated_at": None if order.updated is None else moment(order.updated),
            }
            for order in orders
        ]
        folder = Path("data/source")
        folder.mkdir(parents=True, exist_ok=True)
        for file in folder.iterdir():
            file.unlink()
        self.written += 1
        pq.write_table(pa.Table.from_pylist(rows, schema=TYPES), folder / f"{self.written}.parquet")

    def run(self, *only: str, request: Request = USUAL, **given: str) -> dict[str, Outcome]:
        workspace = Workspace.load(".", given=given).choose([f"my_schema.{name}" for name in only])
        outcomes = workspace.run(self.spark, request=request).outcomes
        return {outcome.name.removeprefix("my_schema."): outcome for outcome in outcomes}

    def verify(self, *only: str, **given: str) -> dict[str, Verified]:
        found = Workspace.load(".", given=given).verify([f"my_schema.{name}" for name in only], self.spark)
        return {each.table.removeprefix("my_schema."): each for each in found}

    def rows(self, model: str, *columns: str) -> list[tuple[Any, ...]]:
        return sorted(delta_rows(self.path(model), *columns), key=repr)

    def version(self, model: str) -> int:
        return deltalake.DeltaTable(self.path(model)).version()

    def path(self, model: str) -> str:
        return str(Path("warehouse/my_schema", model).absolute())


@pytest.fixture
def shop(spark: SparkSession) -> Shop:
    return Shop(spark)


@pytest.fixture
def counts() -> Callable[[Outcome], tuple[int, ...]]:
    """Inserted, updated, deleted, unchanged."""

    def of(outcome: Outcome) -> tuple[int, ...]:
        assert outcome.error is None
        assert isinstance(outcome.result, StepResult)
        found = outcome.result.counts
        return found.inserted, found.updated, found.deleted, found.unchanged

    return of
