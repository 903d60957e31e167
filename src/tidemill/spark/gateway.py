"""PySpark's end of an engine: a JVM of our own through py4j, or a server through Spark Connect; and Ctrl-C.

PySpark's own handler of Ctrl-C asks the JVM from within the call that it interrupts, which breaks the connection.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import threading
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from tidemill.errors import EngineError
from tidemill.model.project import Masking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from py4j.java_gateway import JavaGateway

    from tidemill.model.project import SparkSettings
    from tidemill.spark.jvm import Jvm

# PySpark's Python half prints every error of a query to stderr before it raises it.
_TALKATIVE = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


def attach(jvm: Jvm) -> JavaGateway:
    """PySpark joins a JVM that already runs when the environment names one."""
    for name in _TALKATIVE:
        PySparkLogger.getLogger(name).disabled = True
    with _set_for_now(PYSPARK_GATEWAY_PORT=str(jvm.port), PYSPARK_GATEWAY_SECRET=jvm.secret):
        return launch_gateway()  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def _set_for_now(**variables: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def leave_call(connection: JavaGateway) -> None:
    """Closes this thread's connection, on which an interrupted call still waits; the next call makes another.

    py4j would ask the JVM to close it, and the JVM then closes others too, such as the next call's.
    """
    busy = connection._gateway_client.get_thread_connection()  # noqa: SLF001 - py4j has no other way
    if busy is not None:
        busy.close()


def detach(connection: JavaGateway) -> None:
    """PySpark forgets a JVM, so that another one can be started in this process."""
    with contextlib.suppress(Exception):  # a JVM that has died has no connection to close
        connection.shutdown()
    if SparkContext._gateway is connection:  # noqa: SLF001 - PySpark's own tests do the same
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None  # noqa: SLF001
        SparkSession._instantiatedSession = None  # noqa: SLF001


def has_jvm() -> bool:
    """Whether PySpark has joined a JVM in this process."""
    return SparkContext._gateway is not None  # noqa: SLF001 - PySpark tells it nowhere else


@contextlib.contextmanager
def handler_kept(interrupt: Callable[[], None], leave: Callable[[], None] | None = None) -> Iterator[None]:
    """What is started in the block may take SIGINT; afterwards it is the caller's again, after `interrupt`.

    Where the caller's raises, the call that is under way is left by `leave`; without one, a server gets some time to
    hear of the interruption.
    """
    before = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is not threading.main_thread():
        return
    if not callable(before):
        signal.signal(signal.SIGINT, before)
        return
    first = before

    def handler(number: int, frame: FrameType | None) -> None:
        logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)  # it logs the calls that end now as errors
        # In a thread of its own, and so on a connection of its own.
        interrupting = threading.Thread(target=_quietly, args=(interrupt,), daemon=True)
        interrupting.start()
        try:
            first(number, frame)
        except KeyboardInterrupt:
            _quietly(leave or partial(interrupting.join, PATIENCE))
            raise

    logging.getLogger().addFilter(_not_of_an_interrupted_call)
    signal.signal(signal.SIGINT, handler)


def _quietly(work: Callable[[], None]) -> None:
    with contextlib.suppress(Exception):
        work()


def _not_of_an_interrupted_call(record: logging.LogRecord) -> bool:
    """py4j logs an interrupted call as an error, with its traceback, straight to the root logger."""
    return record.module != "java_gateway"


PORT = 15002
PATIENCE = 10.0  # seconds; PySpark itself would try for ten minutes


def connect(settings: SparkSettings, remote: str) -> SparkSession:
    """The session; a server that does not answer, or a package that is missing, is an error at once."""
    _knock(settings, remote)
    builder = SparkSession.builder.remote(remote)
    for name, value in settings.conf.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except ImportError as failure:
        raise EngineError(
            "engine.connect_packages",
            f"Spark Connect needs a package that is not installed: {_first_line(failure)}",
            'Install what it needs into this Python: pip install "pyspark[connect]".',
            origin=settings.origin,
        ) from failure
    except PySparkException as failure:
        raise _unreachable(settings, _first_line(failure)) from failure


def _knock(settings: SparkSettings, remote: str) -> None:
    """Whether anything listens there."""
    try:
        address = urlsplit(remote)
        socket.create_connection((address.hostname or "", address.port or PORT), PATIENCE).close()
    except (OSError, ValueError) as failure:
        raise _unreachable(settings, str(failure)) from failure


def _unreachable(settings: SparkSettings, reason: str) -> EngineError:
    return EngineError(
        "engine.unreachable",
        f"{settings} cannot be reached: {Masking(settings.secrets).mask(reason)}",
        "Start the server, correct the address, or leave out remote: then Tidemill runs its own Spark.",
        origin=settings.origin,
    )


def _first_line(failure: Exception) -> str:
    return str(failure).splitlines()[0] if str(failure) else type(failure).__name__
