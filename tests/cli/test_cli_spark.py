"""The Spark that `[spark]` of tidemill.toml names is the one that runs, or the error says why not."""

from __future__ import annotations

import json
import os
import re
import socket
from typing import TYPE_CHECKING

import deltalake
import pyarrow as pa
import pytest

from tidemill.api.workspace import Workspace
from tidemill.cli import Live
from tidemill.cli.run import Shown

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
SOURCE s TYPE CSV PARAMS { "path": "s.csv" };
LOAD t FROM s;
CREATE TABLE zone AS SELECT current_timezone() AS zone, count(*) AS n FROM t;
"""


@pytest.fixture
def project(folder: Path, write_csv):
    """A project with a few lines of its own in its file."""
    (folder / "pipelines").mkdir()
    (folder / "pipelines" / "p.sql").write_text(PIPELINE)
    write_csv(folder / "s.csv", "1,eu,2")

    def write(*lines: str) -> None:
        (folder / "tidemill.toml").write_text("\n".join(['name = "shop"', "[spark]", *lines, ""]))

    return write


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ('master = "local[2]"', "embedded Spark"),
        ('master = "spark://host:7077"', "Spark at spark://host:7077"),
        ('remote = "sc://host:15002/;token=geheim"', "Spark Connect at sc://host:15002"),
        ('remote = "sc://${env:SC_HOST}"', "Spark Connect at sc://***"),
    ],
)
def test_the_head_of_a_run_says_which_spark_it_is(project, capsys, monkeypatch, line: str, shown: str):
    monkeypatch.setenv("SC_HOST", "hidden-host")
    project(line)
    Shown(Workspace.load(), Live("starting Spark", quiet=True)).head()
    assert capsys.readouterr().out == f"  Tidemill 0.1 · shop · {shown} · 2 steps   first run\n"


def test_a_server_that_does_not_answer_is_an_error_at_its_line(folder: Path, project, shell):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    project(f'remote = "sc://127.0.0.1:{port}/;token=geheim"')
    result = shell("run", "--summary", JAVA_HOME="/nowhere")
    assert result.returncode == 1
    assert (
        "  ✗ t     error[engine.unreachable] Spark Connect at "
        f"sc://127.0.0.1:{port} cannot be reached: [Errno 111] Connection refused\n"
        f"    {folder / 'tidemill.toml'}:2:2\n"
        "    Start the server, correct the address, or leave out remote: then Tidemill runs its own Spark.\n"
    ) in result.stderr
    assert "geheim" not in result.stdout + result.stderr


COMMANDS = {
    "merge": ("merge", "s.csv", "lake/t", "--on", "order_id"),
    "merge --dry-run": ("merge", "s.csv", "lake/t", "--on", "order_id", "--dry-run"),
    "check": ("check", "warehouse/main/t", "--on", "order_id"),
    "backup": ("backup", "t"),
    "restore": ("restore", "t", "--to", "0"),
    "suggest": ("suggest",),
    "verify": ("verify",),
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_every_command_that_needs_spark_asks_for_that_of_the_project(project, cli, make_table, command):
    """No server is there; and where these tests have a Spark of their own, it is another than was asked for."""
    make_table("main.t", pa.table({"order_id": [1], "region": ["eu"], "amount": [2]}))
    project('remote = "sc://127.0.0.1:1"')
    result = cli(*command)
    assert result.exit_code == 1
    assert re.search(r"error\[engine\.(unreachable|other_settings)\]", result.output)
    if command[0] != "suggest":  # it has a line for a source that cannot be read
        assert "tidemill.toml:2:2" in result.output


def test_an_address_that_is_none_shows_no_token(project, shell):
    project('remote = "sc://127.0.0.1:1;token=geheim"')
    result = shell("run", JAVA_HOME="/nowhere")
    assert result.returncode == 1
    assert "error[engine.unreachable] Spark Connect at sc://127.0.0.1:1 cannot be reached: Port" in result.stdout
    assert "geheim" not in result.stdout + result.stderr


def test_without_the_packages_of_spark_connect_the_error_says_how_to_get_them(folder: Path, project, shell):
    (folder / "grpc.py").write_text('raise ImportError("No module named grpc")')
    with socket.create_server(("127.0.0.1", 0)) as server:
        project(f'remote = "sc://127.0.0.1:{server.getsockname()[1]}"')
        result = shell("run", "--format", "json", JAVA_HOME="/nowhere", PYTHONPATH=_with(folder))
    error = json.loads(result.stdout)["steps"][0]["error"]
    assert (result.returncode, error["code"]) == (1, "engine.connect_packages")
    assert error["problem"].startswith(
        "Spark Connect needs a package that is not installed: [PACKAGE_NOT_INSTALLED] grpcio"
    )
    assert error["remedy"] == 'Install what it needs into this Python: pip install "pyspark[connect]".'


def _with(folder: Path) -> str:
    """The path of this Python with a folder before it."""
    return os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])


def test_a_run_has_the_settings_of_the_project(folder: Path, project, shell):
    project('master = "local[1]"', "[spark.conf]", '"spark.sql.session.timeZone" = "Asia/Tokyo"')
    result = shell("run", TIDEMILL_DRIVER_MEMORY="1g")
    assert result.returncode == 0, result.stderr
    assert "shop · embedded Spark · 2 steps" in result.stdout
    zones = pa.table(deltalake.DeltaTable(folder / "warehouse/main/zone").scan(["zone"]))
    assert zones.to_pylist() == [{"zone": "Asia/Tokyo"}]
    assert not (folder / "spark-warehouse").exists()
