"""One embedded Spark for all tests: starting one takes seconds, and the machine has room for one."""

from __future__ import annotations

import contextlib
import os
import signal
from binascii import crc32
from typing import TYPE_CHECKING

import pytest
from xdist.scheduler import LoadFileScheduling

from tidemill.formats import base
from tidemill.formats.delta import small
from tidemill.model.project import SparkSettings
from tidemill.spark import session
from tidemill.spark.jars import DRIVERS, ensure_jars
from tidemill.spark.settings import SMALL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController


# They take longest, so they begin first: at the end no worker is left alone with one of them.
LONGEST = (
    "test_docs_commands.py",
    "test_merge_forms.py",
    "test_incremental_equals_full.py",
    "test_golden.py",
    "test_values.py",
    "test_concurrent_writers.py",
    "test_model_histories.py",
    "test_foreign_commits.py",
    "test_append.py",
    "test_restore.py",
    "test_season.py",
    "test_function_tables.py",
    "test_schema_policies.py",
    "test_kill.py",
    "test_checks_on_changes.py",
    "test_datasets.py",
    "test_join_pipelines.py",
    "test_verify.py",
    "test_backfill.py",
    "test_replace_and_delete_insert.py",
    "test_views.py",
    "test_log_cleanup.py",
    "test_small_sample.py",
    "test_cli_run.py",
    "test_example_nhl.py",
    "test_statements_on_spark.py",
)

# They need no engine and wait more than they compute: a third worker has them, beside the two with an engine each.
WITHOUT_ENGINE = frozenset(
    {
        "test_cli_ends.py",
        "test_cli_spark.py",
        "test_engines.py",
        "test_fetch.py",
        "test_full_disk.py",
        "test_http_api.py",
        "test_jars.py",
        "test_kills.py",
        "test_league_api.py",
        "test_meaning.py",
        "test_pages.py",
        "test_protocol.py",
        "test_real_failures.py",
        "test_terminal.py",
        "test_two_processes.py",
    }
)

# Promises about the rows of tables: half of their tests write small tables as Tidemill does, the others by Spark.
BOTH_WAYS = frozenset(
    {
        "test_concurrent_writers.py",
        "test_foreign_commits.py",
        "test_merge_forms.py",
        "test_values.py",
    }
)

THRIFTY = (
    "-XX:+UseParallelGC",  # the usual collector took 40 and 60 s of two engines
    # Java's best compiler took a fifth of their CPU: with ten times its usual thresholds, the tests take a tenth less.
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # begun by a shell in the background: children would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--histories", type=int, default=40, help="how many random histories test_incremental_equals_full tries"
    )
    parser.addoption("--kills", type=int, default=5, help="how many writers of a dataset are killed")
    parser.addoption("--rounds", type=int, default=5, help="how often several processes merge into a dataset at once")
    parser.addoption("--renew-golden", action="store_true", help="test_golden writes what it finds as what is expected")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: (item.path.name in WITHOUT_ENGINE, places.get(item.path.name, len(LONGEST))))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Lanes:
    return Lanes(config, log)


class Lanes(LoadFileScheduling):
    """Files go to the workers in order; what needs no engine goes to the third, in one piece, and nothing else does."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return "without engine" if file.rpartition("/")[2] in WITHOUT_ENGINE else file

    def _assign_work_unit(self, node: WorkerController) -> None:
        if node.gateway.id == "gw2":
            if "without engine" not in self.workqueue:
                node.shutdown()
                return
            self.workqueue.move_to_end("without engine", last=False)
        super()._assign_work_unit(node)


@contextlib.contextmanager
def _java_options(options: Sequence[str]) -> Iterator[None]:
    """For what is started meanwhile; the commands that tests start have Java as users have it."""
    before = os.environ.get("JAVA_TOOL_OPTIONS")
    os.environ["JAVA_TOOL_OPTIONS"] = " ".join(filter(None, (before, *options)))
    yield
    os.environ.pop("JAVA_TOOL_OPTIONS")
    os.environ.update({"JAVA_TOOL_OPTIONS": before} if before else {})


@pytest.fixture(autouse=True)
def _way_of_small_tables(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables of tests are small, and most tests are about all tables: those take the way of large ones.

    Tests marked `small_tables`, the commands that tests start, and in files of BOTH_WAYS every second test have the
    way that small tables have.
    """
    marked = request.node.get_closest_marker("small_tables") or "TIDEMILL_SMALL_TABLES" in os.environ
    mixed = request.path.name in BOTH_WAYS and crc32(request.node.nodeid.encode()) % 2
    if not marked and not mixed:
        monkeypatch.setattr(base, "MOST_ROWS", -1)
        monkeypatch.setattr(small, "PART_BYTES", -1)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    assert os.environ.get("PYTEST_XDIST_WORKER") != "gw2", "a file in WITHOUT_ENGINE asks for one"
    os.environ.setdefault("TIDEMILL_DRIVER_MEMORY", "1500m")
    ensure_jars(DRIVERS)  # an engine that has them from its start tells more when a database fails
    # All work is small, but for `make soak`; but the engine lives long enough for Java to compile it well.
    with _java_options(THRIFTY):
        engine = session.embedded(settings=SparkSettings(conf={} if "TIDEMILL_WHOLE_ENGINE" in os.environ else SMALL))
    yield engine
    session.stop(wait=True)
