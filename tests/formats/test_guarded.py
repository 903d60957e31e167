"""Where two writers of a Delta table would overwrite each other's commits, Tidemill does not write."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from support import events

import tidemill
from tidemill.api.workspace import Workspace
from tidemill.cli.main import tidemill as commands
from tidemill.errors import TableError, TidemillError
from tidemill.formats.filesystem import only_writer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.synchronize import Event
    from pathlib import Path

    from pyspark.sql import SparkSession

ROWS = events((1, 0, "a"))
NOTHING = (
    b'<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    b"<Name>lake</Name><KeyCount>0</KeyCount><IsTruncated>false</IsTruncated></ListBucketResult>"
)
SAFE = """
from tidemill.model.project import SparkSettings
from tidemill.spark.session import embedded
from tidemill.errors import TableError
from tidemill.formats.delta.writing import refuse_unguarded

settings = {f"spark.delta.logStore.{scheme}.impl": f"io.delta.storage.{name}LogStore"
            for scheme, name in {"s3": "S3DynamoDB", "s3a": "S3SingleDriver"}.items()}
spark = embedded(small=True, settings=SparkSettings(conf=settings))
refuse_unguarded(spark, "s3://lake/orders")
try:
    refuse_unguarded(spark, "s3a://lake/orders")
except TableError as refused:
    print(refused.code)
"""


class _Empty(BaseHTTPRequestHandler):
    """A bucket that holds nothing."""

    def do_HEAD(self) -> None:
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(NOTHING)))
        self.end_headers()
        self.wfile.write(NOTHING)

    def log_message(self, *_: object) -> None:
        """Silent."""


@pytest.fixture
def empty_bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Empty)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    given = {"ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}", "ACCESS_KEY_ID": "k", "SECRET_ACCESS_KEY": "s"}
    for name, value in {**given, "REGION": "us-east-1", "ALLOW_HTTP": "true"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    yield
    server.shutdown()


def test_a_delta_table_on_s3_is_refused_for_writing_before_anything_is_read(spark: SparkSession) -> None:
    session = spark.newSession()
    # Delta asks Spark as it was started; set later, it would have no effect, and so it has none here.
    session.conf.set("spark.delta.logStore.s3.impl", "io.delta.storage.S3DynamoDBLogStore")
    with pytest.raises(TableError) as refused:
        tidemill.merge(ROWS, "s3://lake/orders", on="id", spark=session)
    assert str(refused.value) == (
        "[table.unguarded] s3://lake/orders may not be written to: on S3, Delta's default LogStore lets two writers "
        "overwrite each other's commits, and both report success. Start Spark with a LogStore that prevents it "
        "(spark.delta.logStore.s3.impl = io.delta.storage.S3DynamoDBLogStore in [spark.conf]). Where no other process "
        "ever writes to the table, say so: single_writer = true under [warehouse], --single-writer, or "
        "single_writer=True in Python. Nothing was written."
    )
    for write in (
        lambda: tidemill.merge(ROWS, "s3a://lake/orders", on="id", spark=spark),
        lambda: tidemill.restore("s3://lake/orders", to=0, spark=spark),
    ):
        with pytest.raises(TableError, match=r"table\.unguarded"):
            write()


@pytest.mark.usefixtures("empty_bucket")
@pytest.mark.parametrize("command", ["show", "history", "compact", "vacuum", "drop --confirm", "restore --to 0"])
def test_a_bucket_is_looked_at_without_spark(command: str) -> None:
    nothing = CliRunner().invoke(commands, [*command.split(), "s3://lake/orders"])
    assert nothing.exit_code == 2
    assert nothing.stderr.startswith("error[table.missing] There is no table at s3://lake/orders.\n")


@pytest.mark.usefixtures("empty_bucket")
def test_a_promise_of_a_single_writer_lifts_it(spark: SparkSession) -> None:
    """What then stops the write is that this Spark has no client for S3."""
    for path in ("s3://lake/orders", "s3a://lake/orders"):
        with pytest.raises(TidemillError) as lifted:
            tidemill.merge(ROWS, path, on="id", spark=spark, single_writer=True)
        assert lifted.value.code == "engine.spark_failed"


@pytest.mark.usefixtures("empty_bucket")
@pytest.mark.parametrize("promise", [False, True])
def test_tables_of_a_warehouse_have_its_promise(spark: SparkSession, tmp_path: Path, promise: bool) -> None:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "tidemill.toml").write_text(
        f'[warehouse]\npath = "s3://lake/shop"\nsingle_writer = {str(promise).lower()}\n'
    )
    (tmp_path / "pipelines" / "shop.sql").write_text("CREATE TABLE days AS SELECT 1 AS day;")
    step = Workspace.load(tmp_path).run(spark).outcomes[0]
    assert step.error is not None
    assert step.error.code == ("engine.spark_failed" if promise else "table.unguarded")


def test_a_promise_that_is_no_truth_value_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tidemill.toml").write_text('[warehouse]\nsingle_writer = "yes"\n')
    with pytest.raises(TidemillError, match=r"warehouse\.single_writer must be true or false"):
        Workspace.load(tmp_path)


def test_a_spark_that_was_started_with_a_safe_log_store_may_write() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SAFE], env=os.environ, capture_output=True, text=True, timeout=180, check=True
    )
    assert done.stdout == "table.unguarded\n"


def _hold(path: str, held: Event, free: Event) -> None:
    with only_writer(path):
        held.set()
        free.wait(60)


def test_an_address_of_a_local_file_takes_the_lock_of_its_path(tmp_path: Path) -> None:
    processes = multiprocessing.get_context("spawn")
    held, free = processes.Event(), processes.Event()
    other = processes.Process(target=_hold, args=(str(tmp_path), held, free))
    other.start()
    assert held.wait(60)
    entered = threading.Event()

    def enter() -> None:
        with only_writer(tmp_path.as_uri()):
            entered.set()

    writer = threading.Thread(target=enter)
    writer.start()
    waits = not entered.wait(1)
    free.set()
    writer.join(60)
    other.join()
    assert (waits, entered.is_set()) == (True, True)
