"""A project whose tables are maintained by functions, and a stand-in for the API that they ask: games by day."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pytest
from click.testing import CliRunner
from delta_rows import delta_rows

from tidemill.api.workspace import Workspace
from tidemill.cli.main import tidemill
from tidemill.execution import Silent, StepResult
from tidemill.model import FileErrors, excerpt
from tidemill.planning import USUAL

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result
    from pyspark.sql import SparkSession

    from tidemill import Table, Verified
    from tidemill.errors import TidemillError
    from tidemill.planning import Request


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("tidemill.toml").write_text('name = "league"\n[vars]\nseason = "2025"\n', encoding="utf-8")
    return tmp_path


def write(files: dict[str, str]) -> None:
    """Files by their paths; one without a folder is in `models/bronze`."""
    for name, text in files.items():
        file = Path(name if "/" in name else f"models/bronze/{name}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


@pytest.fixture
def load() -> Callable[[dict[str, str]], Workspace]:
    def run(files: dict[str, str]) -> Workspace:
        write(files)
        return Workspace.load(".")

    return run


@pytest.fixture
def declared(load: Callable[[dict[str, str]], Workspace]) -> Callable[..., Table]:
    """The one table of a file that has these decorators above `def games(run)`."""

    def run(*decorators: str) -> Table:
        (table,) = load(
            {"nhl.py": "\n".join(["import tidemill", *decorators, "def games(run):", "    return []"])}
        ).tables
        return table

    return run


@pytest.fixture
def errors(load: Callable[[dict[str, str]], Workspace]) -> Callable[[dict[str, str]], list[str]]:
    """What is wrong in files, each as a terminal shows it."""

    def run(files: dict[str, str]) -> list[str]:
        with pytest.raises(FileErrors) as failure:
            load(files)
        return [excerpt(error) for error in failure.value.errors]

    return run


@pytest.fixture
def cli() -> Callable[..., Result]:
    return lambda *args: CliRunner().invoke(tidemill, list(args))


def noon(day: str) -> datetime:
    return datetime.combine(date.fromisoformat(day), datetime.min.time(), UTC).replace(hour=12)


@dataclass
class League:
    """A project on the shared Spark, and the API that its functions ask: `api.json`, rows by the day they are of."""

    spark: SparkSession
    told: list[str] = field(default_factory=list)

    def api(self, days: dict[str, list[dict[str, Any]]]) -> None:
        Path("api.json").write_text(json.dumps(days), encoding="utf-8")

    def asked(self) -> list[str]:
        """The dates that the API was asked for since the last look."""
        file = Path("asked.txt")
        found = file.read_text(encoding="utf-8").split() if file.exists() else []
        file.write_text("", encoding="utf-8")
        return found

    def run(self, day: str, *only: str, request: Request = USUAL) -> dict[str, StepResult]:
        outcomes = self.outcomes(day, *only, request=request)
        assert not [error for _, error in outcomes.values() if error]
        return {name: result for name, (result, _) in outcomes.items() if result}

    def outcomes(
        self, day: str, *only: str, request: Request = USUAL
    ) -> dict[str, tuple[StepResult | None, TidemillError | None]]:
        workspace = Workspace.load(".")
        if only:
            workspace = workspace.choose([name if "." in name else f"bronze.{name}" for name in only])
        heard = _Heard(self.told)
        done = workspace.run(self.spark, heard, request=request, now=noon(day)).outcomes
        return {
            each.name.partition(".")[2]: (each.result if isinstance(each.result, StepResult) else None, each.error)
            for each in done
        }

    def verify(self, table: str, day: str, **more: Any) -> Verified:
        (found,) = Workspace.load(".").verify([f"bronze.{table}"], self.spark, now=noon(day), **more)
        return found

    def rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        return sorted(delta_rows(self.path(table), *columns), key=repr)

    def path(self, table: str) -> str:
        name = table if "." in table else f"bronze.{table}"
        return str(Path("warehouse", *name.split(".")).absolute())

    def version(self, table: str) -> int:
        return deltalake.DeltaTable(self.path(table)).version()

    def sql(self, text: str) -> None:
        self.spark.sql(text)


class _Heard(Silent):
    def __init__(self, told: list[str]) -> None:
        self.told = told

    def moved(self, name: str, where: str) -> None:
        self.told.append(f"{name} {where}")


@pytest.fixture
def league(spark: SparkSession) -> League:
    return League(spark)
