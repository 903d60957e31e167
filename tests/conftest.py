"""One embedded Spark for all tests: starting one takes seconds, and the machine has room for one."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from tidemill.engine import session
from tidemill.engine.jars import DRIVERS, ensure_jars

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # begun by a shell in the background: children would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--histories", type=int, default=42, help="how many random histories test_incremental_equals_full tries"
    )
    parser.addoption("--kills", type=int, default=5, help="how many writers of a dataset are killed")
    parser.addoption("--rounds", type=int, default=5, help="how often several processes merge into a dataset at once")
    parser.addoption("--renew-golden", action="store_true", help="test_golden writes what it finds as what is expected")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    os.environ.setdefault("TIDEMILL_DRIVER_MEMORY", "1100m")
    ensure_jars(DRIVERS)  # an engine that has them from its start tells more when a database fails
    yield session.embedded(small=True)  # what C2 would compile costs more than it gives
    session.stop(wait=True)
