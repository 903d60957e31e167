"""The JVM of the embedded engine: its memory, its start-up archive, how it is started, silently, and whether it runs.

PySpark would start it through two shell scripts and a JVM that computes the command line; here the command is
known, which saves that time, keeps a foreign SPARK_HOME out, and gives the process's output to a file.

The archive has classes of Spark and of the default table format in a file that the JVM maps as it is, which
halves the time of a session start. It fits one Java and one set of jars, so its name is made of those: one that
does not fit is never used. Everything works without it.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError, EngineError
from tidemill.formats import DEFAULT_FORMAT, FORMATS
from tidemill.model.project import LOCAL, is_local
from tidemill.spark import archive_folder, log_folder, make_folder, spark_home

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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


def class_path(extra_jars: Sequence[Path]) -> list[Path]:
    """Jars in a fixed order: a start-up archive fits only the class path it was made with."""
    return [*sorted((spark_home() / "jars").glob("*.jar")), *extra_jars]


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


ARCHIVES_KEPT = 3  # of some 200 MB each; more than one where several environments share the cache
BUILD_SECONDS = 600


def archive_path(java: Java, jars: Sequence[Path]) -> Path:
    """Where the archive for this Java and these jars is, or will be."""
    return archive_folder() / f"{_fingerprint(java, jars)}.jsa"


def archive_options(java: Java, jars: Sequence[Path]) -> list[str]:
    """The JVM options that use the archive; none when there is no archive that fits."""
    archive = archive_path(java, jars)
    return ["-Xshare:auto", f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []


def why_not_built(java: Java, jars: Sequence[Path]) -> str:
    """Why the last try to build this archive failed; empty when there was none."""
    try:
        return _failure(archive_path(java, jars)).read_text(encoding="utf-8")
    except OSError:
        return ""


def build_archive(java: Java, jars: Sequence[Path]) -> str:
    """Builds the archive and answers why it failed, or nothing. A failure is remembered, and is no error."""
    archive = archive_path(java, jars)
    reason = _build(archive)
    with contextlib.suppress(OSError):
        if reason:
            _failure(archive).write_text(reason, encoding="utf-8")
        else:
            _failure(archive).unlink(missing_ok=True)
            _remove_old(archive.parent)
    return reason


def _failure(archive: Path) -> Path:
    return archive.with_suffix(".failed")


def _build(archive: Path) -> str:
    """A training run in a process of its own, into a file of its own, which is then renamed."""
    own = archive.with_name(f".{archive.stem}-{os.getpid()}.jsa")
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(  # noqa: S603 - this very Python
            [sys.executable, "-m", FORMATS[DEFAULT_FORMAT].spark.training, str(own)],
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
            check=False,
        )
        if done.returncode != 0 or not own.exists():
            return _last_line(done.stderr) or "the training run wrote no archive"
        own.replace(archive)
    except subprocess.TimeoutExpired:
        return f"the training run took more than {BUILD_SECONDS} seconds"
    except OSError as error:
        return f"{archive.parent} cannot be written ({error.strerror or error})"
    finally:
        with contextlib.suppress(OSError):
            own.unlink(missing_ok=True)
    return ""


def _fingerprint(java: Java, jars: Sequence[Path]) -> str:
    """The JVM refuses an archive when a jar has another path, size or time; so do we, before it does."""
    seen = hashlib.sha256()
    for part in (str(java.executable), java.version, *MODULE_OPTIONS):
        seen.update(f"{part}\n".encode())
    for jar in class_path(jars):
        status = jar.stat() if jar.exists() else None
        seen.update(f"{jar}|{status and (status.st_size, status.st_mtime_ns)}\n".encode())
    return seen.hexdigest()[:20]


def _remove_old(folder: Path) -> None:
    newest_first = sorted(folder.glob("[!.]*.jsa"), key=lambda file: file.stat().st_mtime, reverse=True)
    for old in newest_first[ARCHIVES_KEPT:]:
        old.unlink(missing_ok=True)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
