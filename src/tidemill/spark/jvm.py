"""The embedded engine: the settings of its Spark and of the sessions of steps, its memory, how its JVM is
started, silently, and whether that runs.

PySpark would start it through two shell scripts and a JVM that computes the command line; here the command is
known, which saves that time, keeps a foreign SPARK_HOME out, and gives the process's output to a file.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shlex
import struct
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError, EngineError
from tidemill.formats import spark_support
from tidemill.formats.traits import LISTS
from tidemill.model.project import LOCAL, is_local
from tidemill.spark import log_folder, make_folder, spark_home
from tidemill.spark.jars import MODULE_OPTIONS, Java, class_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_EVERYWHERE = {
    "spark.app.name": "tidemill",
    # With it every column that Python makes asks Java several times, to know in which line that was.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Groups that a task counts before it takes a slower way: twice the default hold the keys of a first load.
    "spark.sql.codegen.aggregate.fastHashMap.capacityBit": "17",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
# For small work: code that Spark generates costs a fifth of it and runs too briefly to be worth that, and what is
# planned again after every stage is planned for as few rows as before. For a step on its own, or for a whole engine.
SMALL = {"spark.sql.codegen.factoryMode": "NO_CODEGEN", "spark.sql.adaptive.enabled": "false"}
LARGE = {"spark.sql.codegen.factoryMode": "FALLBACK", "spark.sql.adaptive.enabled": "true"}
# Spark keeps for its web interface what ran, with every plan as a text, whether the interface is there or not.
_UNSEEN = {
    "spark.ui.enabled": "false",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "50",
    "spark.sql.ui.retainedExecutions": "5",
    "spark.sql.ui.explainMode": "simple",
}
_MOST_SHUFFLE_PARTITIONS = 8

# What decides which rows a query gives and how they are stored; table formats have more.
_CARRIED = (
    "spark.sql.adaptive.",
    "spark.sql.ansi.",
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.broadcastTimeout",
    "spark.sql.caseSensitive",
    "spark.sql.codegen.factoryMode",
    "spark.sql.codegen.wholeStage",
    "spark.sql.csv.",
    "spark.sql.decimalOperations.",
    "spark.sql.execution.arrow.",
    "spark.sql.files.",
    "spark.sql.json.",
    "spark.sql.legacy.",
    "spark.sql.mapKeyDedupPolicy",
    "spark.sql.orc.",
    "spark.sql.avro.",
    "spark.sql.session.",
    "spark.sql.shuffle.",
    "spark.sql.sources.",
    "spark.sql.storeAssignmentPolicy",
    "spark.sql.timestampType",
    "spark.sql.variable.",
    "spark.tidemill.",
    "spark.hadoop.",
    "fs.",
)
CHECKPOINTS = "spark.tidemill.checkpoint.storageLevel"  # where settled rows are kept; DISK_ONLY_2 survives an executor
_STATEMENTS = {
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
}


def statement_settings() -> dict[str, str]:
    """The settings under which our own statements run, whatever the session has that they are sent from.

    Texts are quoted in one way, no file that is missing or damaged is left out, and commits count their rows.
    """
    return {**_STATEMENTS, **spark_support().statement_settings}


def engine_settings(
    given: Mapping[str, str], folder: Path, jars: Sequence[Path], master: str = LOCAL, *, small: bool = False
) -> dict[str, str]:
    """All settings of an engine of ours: what the user gives wins, but lists have both, the user's and ours.

    `folder` takes what Spark would put into the current one. The driver of a cluster leaves to the cluster what is
    good for one machine only, and hands on the jars. `small` is for work on few rows.
    """
    master = given.get("spark.master", master)
    ours = {**_EVERYWHERE, **spark_support().settings, "spark.master": master}
    ours |= _one_machine(folder) if is_local(master) else {"spark.jars": ",".join(map(str, jars))}
    ours |= SMALL if small else {}
    ours |= _UNSEEN if is_local(master) and given.get("spark.ui.enabled") != "true" else {}
    return ours | dict(given) | {name: _joined(given[name], ours[name]) for name in LISTS & given.keys() & ours.keys()}


def _joined(theirs: str, ours: str) -> str:
    return ",".join(dict.fromkeys([*filter(None, map(str.strip, theirs.split(","))), *ours.split(",")]))


def _one_machine(folder: Path) -> dict[str, str]:
    partitions = min(_MOST_SHUFFLE_PARTITIONS, 2 * (os.cpu_count() or 1))
    return {
        **spark_support().local,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        # A step's small queries are hundreds of generated classes; by the default of 100 each step compiled them again.
        "spark.sql.codegen.cache.maxEntries": "2000",
        # Opening a local file costs little: by the default of 4 MiB a few small files outweigh a big one, and one of
        # two cores gets more of the big ones than the other.
        "spark.sql.files.openCostInBytes": "1048576",
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(partitions),
        # A local disk is listed sooner than a job for it is started.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
    }


def carried_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Those of a session's settings that a step's own session needs to give the same rows."""
    formats = spark_support()
    carried, left = (*_CARRIED, *formats.carried), formats.not_carried
    return {name: value for name, value in settings.items() if name.startswith(carried) and not name.startswith(left)}


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


START_SECONDS = 180
LOGS_KEPT = 20


@dataclass(frozen=True, slots=True)
class Jvm:
    """A running JVM, and where PySpark reaches it; it ends when its stdin is closed."""

    process: subprocess.Popen[bytes]
    log: Path
    port: int
    secret: str = field(repr=False)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            if self.process.stdin:
                self.process.stdin.close()


_current: Jvm | None = None  # the one that this process may have


def set_current(jvm: Jvm | None) -> None:
    """From now on this is the JVM of the embedded engine; None when it has been stopped."""
    global _current  # noqa: PLW0603 - a process has one JVM
    _current = jvm


def is_embedded() -> bool:
    """Whether the Spark of this process is Tidemill's own, which may be changed."""
    return _current is not None


def has_died() -> bool:
    """Whether the JVM of the embedded engine has ended without being asked to."""
    return _current is not None and _current.process.poll() is not None


def log_file() -> Path | None:
    """Where the embedded engine's own log lines are; None when it has not been started."""
    return _current.log if _current else None


def start(java: Java, jars: Sequence[Path], options: Sequence[str], conf: Mapping[str, str]) -> Jvm:
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
    return Jvm(process, log, port, secret)


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
