"""Starts the JVM of the embedded engine, silently, and connects PySpark to it; Ctrl-C cancels its jobs.

PySpark would start it through two shell scripts and a JVM that computes the command line; here the command is
known, which saves that time, keeps a foreign SPARK_HOME out, and gives the process's output to a file. Its own
handler of Ctrl-C asks the JVM from within the call that it interrupts, which breaks the connection.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import re
import shlex
import signal
import struct
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError, EngineError
from tidemill.model.project import LOCAL, is_local
from tidemill.spark.places import log_folder, make_folder, spark_home

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType

    from py4j.java_gateway import JavaGateway

    from tidemill.spark.jars import Java

VARIABLE = "TIDEMILL_DRIVER_MEMORY"
MIB_PER_GIB = 1024


def driver_memory(asked: str | None = None) -> str:
    """The heap of the driver as the JVM reads it (`2g`): as asked, as the environment says, or by size."""
    value = asked or os.environ.get(VARIABLE)
    if value is None:
        return f"{min(4 * MIB_PER_GIB, max(MIB_PER_GIB, machine_mib() // 4))}m"
    if not (found := re.fullmatch(r"(\d+)([kmgt])b?", value.strip().lower())):
        raise ArgumentError(
            "engine.driver_memory",
            f"{value!r} is not an amount of memory.",
            f"Give {VARIABLE} (or spark.driver.memory) as a number with m or g, such as 2g.",
        )
    return "".join(found.groups())


def machine_mib() -> int:
    """The memory of the machine, or of the container if that is less."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limits = (
        _limit("/sys/fs/cgroup/memory.max"),
        _limit("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
    )
    return min(machine, *(limit or machine for limit in limits)) // (1024 * 1024)


def _limit(file: str) -> int | None:
    try:
        text = Path(file).read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


@contextlib.contextmanager
def handler_kept(cancel: Callable[[], None], leave: Callable[[], None]) -> Iterator[None]:
    """What is started in the block may take SIGINT; afterwards it is the caller's again, after `cancel`.

    Where the caller's raises, the call that is under way is left by `leave`.
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
        threading.Thread(target=_quietly, args=(cancel,), daemon=True).start()
        try:
            first(number, frame)
        except KeyboardInterrupt:
            _quietly(leave)
            raise

    logging.getLogger().addFilter(_not_of_an_interrupted_call)
    signal.signal(signal.SIGINT, handler)


def _quietly(work: Callable[[], None]) -> None:
    with contextlib.suppress(Exception):
        work()


def _not_of_an_interrupted_call(record: logging.LogRecord) -> bool:
    """py4j logs an interrupted call as an error, with its traceback, straight to the root logger."""
    return record.module != "java_gateway"


START_SECONDS = 180
LOGS_KEPT = 20

# What Spark's launcher adds on Java 17 and later, but for the incubating vector module: only MLlib uses it.
_OPENED = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util"),
    *("java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs"),
    *("sun.security.action", "sun.util.calendar"),
)
MODULE_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--enable-native-access=ALL-UNNAMED",
)


# PySpark's Python half prints every error of a query to stderr before it raises it.
_TALKATIVE = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


@dataclass(frozen=True, slots=True)
class Gateway:
    """A running JVM with PySpark's end of the connection; it ends when its stdin is closed."""

    process: subprocess.Popen[bytes]
    connection: JavaGateway
    log: Path


def class_path(extra_jars: Sequence[Path]) -> list[Path]:
    """Jars in a fixed order: a start-up archive fits only the class path it was made with."""
    return [*sorted((spark_home() / "jars").glob("*.jar")), *extra_jars]


def start(java: Java, jars: Sequence[Path], options: Sequence[str], conf: Mapping[str, str]) -> Gateway:
    """Starts a JVM with these options and settings; its output goes to a new log file."""
    log = _new_log()
    with tempfile.TemporaryDirectory(prefix="tidemill-") as folder:
        info = Path(folder) / "gateway"
        with log.open("ab") as output:
            process = subprocess.Popen(  # noqa: S603 - the user's own Java
                _command(java, jars, options, conf),
                stdin=subprocess.PIPE,  # Spark's gateway ends with its stdin: no JVM outlives us
                stdout=output,
                stderr=output,
                env=_environment(info, conf),
                process_group=0,  # Ctrl-C on the terminal is for us, and we stop Spark
            )
        atexit.register(process.kill)  # a JVM that cannot tell its port any more would stay for ever
        port, secret = _wait_for(info, process, log)
        atexit.unregister(process.kill)
    return Gateway(process, _connect(port, secret), log)


def leave_call(jvm: Gateway) -> None:
    """Closes this thread's connection, on which an interrupted call still waits; the next call makes another.

    py4j would ask the JVM to close it, and the JVM then closes others too, such as the next call's.
    """
    connection = jvm.connection._gateway_client.get_thread_connection()  # noqa: SLF001 - py4j has no other way
    if connection is not None:
        connection.close()


def end(jvm: Gateway) -> None:
    """Lets the JVM go, and PySpark forget it, so that another one can be started in this process."""
    from pyspark import SparkContext  # noqa: PLC0415 - slow to import
    from pyspark.sql import SparkSession  # noqa: PLC0415

    with contextlib.suppress(Exception):  # a JVM that has died has no connection to close
        jvm.connection.shutdown()
    with contextlib.suppress(OSError):
        if jvm.process.stdin:
            jvm.process.stdin.close()
    if SparkContext._gateway is jvm.connection:  # noqa: SLF001 - PySpark's own tests do the same
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None  # noqa: SLF001
        SparkSession._instantiatedSession = None  # noqa: SLF001


def _command(java: Java, jars: Sequence[Path], options: Sequence[str], conf: Mapping[str, str]) -> list[str]:
    # Folders come last: the archive's class path must be the beginning of the one it is used with.
    folders = [os.environ[name] for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR") if os.environ.get(name)]
    extra = [path for path in conf.get("spark.driver.extraClassPath", "").split(os.pathsep) if path]
    path = os.pathsep.join([*map(str, class_path(jars)), *extra, *folders])
    return [
        *(str(java.executable), "-cp", path),
        *MODULE_OPTIONS,
        *options,
        *shlex.split(conf.get("spark.driver.extraJavaOptions", "")),
        "org.apache.spark.deploy.SparkSubmit",
        *(part for key, value in conf.items() for part in ("--conf", f"{key}={value}")),
        "pyspark-shell",
    ]


def _environment(info: Path, conf: Mapping[str, str]) -> dict[str, str]:
    own_machine = {"SPARK_LOCAL_IP": "127.0.0.1"} if is_local(conf.get("spark.master", LOCAL)) else {}
    return {
        **own_machine,
        **os.environ,
        "SPARK_HOME": str(spark_home()),
        "SPARK_SCALA_VERSION": "2.13",
        "SPARK_CONNECT_MODE": "0",
        "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0"),
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(info),
    }


def _wait_for(info: Path, process: subprocess.Popen[bytes], log: Path) -> tuple[int, str]:
    """Spark's gateway writes its port and its secret into a file, which appears whole."""
    deadline = time.monotonic() + START_SECONDS
    while not info.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise EngineError(
                "engine.start_failed",
                f"Spark did not start: {_first_words(log)}",
                f"`tidemill doctor` checks what it needs; its own words are in {log}.",
            )
        time.sleep(0.01)
    content = info.read_bytes()
    port, length = struct.unpack_from(">ii", content)
    return port, content[8 : 8 + length].decode()


def _connect(port: int, secret: str) -> JavaGateway:
    """PySpark joins a JVM that already runs when the environment names one."""
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415 - slow to import
    from pyspark.logger import PySparkLogger  # noqa: PLC0415

    for name in _TALKATIVE:
        PySparkLogger.getLogger(name).disabled = True
    with _set_for_now(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret):
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


def _new_log() -> Path:
    folder = make_folder(log_folder())
    logs = sorted(folder.glob("spark-*.log"), key=lambda log: log.name)
    for old in logs[:-LOGS_KEPT]:
        old.unlink(missing_ok=True)
    return folder / f"spark-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"


def _first_words(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    if not lines:
        return "it said nothing."
    telling = (at for at, line in enumerate(lines) if re.search("(?i)error|exception|invalid|fail", line))
    first = next(telling, 0)
    return ": ".join(line for line in lines[first : first + 2] if not line.startswith("at ")) + "."
