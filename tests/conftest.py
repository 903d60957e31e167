"""One embedded Spark for all tests: starting one takes seconds, and the machine has room for one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from binascii import crc32
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from xdist.scheduler import LoadFileScheduling

from tidemill.formats import base
from tidemill.formats.delta import small
from tidemill.model.project import SparkSettings
from tidemill.spark import session
from tidemill.spark.jars import DRIVERS, ensure_jars
from tidemill.spark.jvm import SMALL

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from pyspark.sql import SparkSession
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController


NEEDS_ENGINE = "needs_engine"
DURATIONS = Path(__file__).parent / "durations.json"  # of each test file, by `make test ARGS=--record-durations`

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
    parser.addoption("--record-durations", action="store_true", help="writes how long each test file took")
    parser.addoption("--renew-golden", action="store_true", help="test_golden writes what it finds as what is expected")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first: at the end no worker is left alone with it. A new file counts as long."""
    known = recorded_durations()
    items.sort(key=lambda item: -known.get(_file_of(item.nodeid), Duration(seconds=60.0)).seconds)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    report.user_properties.append((NEEDS_ENGINE, "spark" in getattr(item, "fixturenames", ())))
    return report


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--record-durations") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(DurationRecorder(), "durations")


@dataclass(frozen=True)
class Duration:
    """How long the tests of a file took, and whether one of them uses the worker's Spark."""

    seconds: float = 0.0
    needs_engine: bool = True


class DurationRecorder:
    """Sums up the durations of all tests by their files, and writes them when the session ends."""

    def __init__(self) -> None:
        self._files: dict[str, Duration] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = _file_of(report.nodeid)
        known = self._files.get(file, Duration(needs_engine=False))
        needs_engine = known.needs_engine or dict(report.user_properties).get(NEEDS_ENGINE) is True
        self._files[file] = Duration(known.seconds + report.duration, needs_engine)

    def pytest_sessionfinish(self) -> None:
        found = {
            file: {"seconds": round(each.seconds, 1), "needs_engine": each.needs_engine}
            for file, each in sorted(self._files.items())
        }
        DURATIONS.write_text(json.dumps({**_read_durations(), **found}, indent=1, sort_keys=True) + "\n")


@cache
def recorded_durations() -> dict[str, Duration]:
    return {file: Duration(**each) for file, each in _read_durations().items()}


def _read_durations() -> dict[str, Any]:
    return json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}


def _file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0].removeprefix("tests/")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Lanes:
    return Lanes(config, log)


class Lanes(LoadFileScheduling):
    """Files go to the workers in order; the third worker starts no engine and has the files that need none."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        if node.gateway.id == "gw2":
            known = recorded_durations()
            light = [file for file in self.workqueue if not known.get(_file_of(file), Duration()).needs_engine]
            if not light:
                node.shutdown()
                return
            self.workqueue.move_to_end(light[0], last=False)
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
    os.environ.setdefault("TIDEMILL_DRIVER_MEMORY", "1500m")
    ensure_jars(DRIVERS)  # an engine that has them from its start tells more when a database fails
    # All work is small, but for `make soak`; but the engine lives long enough for Java to compile it well.
    with _java_options(THRIFTY):
        engine = session.embedded(settings=SparkSettings(conf={} if "TIDEMILL_WHOLE_ENGINE" in os.environ else SMALL))
    yield engine
    session.stop(wait=True)
