"""The command line as tests call it: in this process, on the shared Spark, or as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pytest
from click.testing import CliRunner, Result

from tidemill import Record
from tidemill.cli.main import tidemill
from tidemill.formats.delta.log import APP_ID

if TYPE_CHECKING:
    import pyarrow as pa

Cli = Callable[..., Result]
Shell = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder, and a ledger, of the test's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


@pytest.fixture
def cli() -> Cli:
    def call(*args: object) -> Result:
        return CliRunner().invoke(tidemill, [str(arg) for arg in args])

    return call


@pytest.fixture
def shell(folder: Path) -> Shell:
    def call(*args: object, **env: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tidemill.cli.main", *map(str, args)]
        return subprocess.run(
            command, cwd=folder, env={**os.environ, **env}, capture_output=True, text=True, timeout=120, check=False
        )

    return call


def csv(path: Path, *rows: str, header: str = "order_id,region,amount") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


@pytest.fixture
def write_csv() -> Any:
    return csv


def _date(entry: Path, at: str) -> None:
    """Lets a commit be of this time."""
    actions = [json.loads(line) for line in entry.read_text().splitlines()]
    for action in actions:
        if "commitInfo" in action:
            action["commitInfo"]["timestamp"] = int(datetime.fromisoformat(at).timestamp() * 1000)
    entry.write_text("\n".join(map(json.dumps, actions)))


@pytest.fixture
def make_table(folder: Path) -> Callable[..., Path]:
    """A table of the warehouse with one commit of Tidemill's, whose record says this."""

    def make(name: str, rows: pa.Table, **said: Any) -> Path:
        path = folder / "warehouse" / Path(*name.split("."))
        facts = {"strategy": "append", "at": "2024-02-01T06:00:00.000Z", "columns": tuple(rows.column_names), **said}
        record = Record(run_id="run-0", table=name, sequence=1, rows=rows.num_rows, held=0, **facts)
        mark = deltalake.CommitProperties(
            {"userMetadata": record.to_json()}, app_transactions=[deltalake.Transaction(APP_ID, 1)]
        )
        deltalake.write_deltalake(path, rows, commit_properties=mark)
        _date(path / "_delta_log" / f"{0:020d}.json", record.at)
        return path

    return make
