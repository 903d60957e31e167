"""What the engine needs on this machine: Java, the jars that table formats and databases need, fetched once and
checked, and a start-up archive.

Jars of formats come with the engine, a database's driver when the first source or export asks for it. The archive has
classes of Spark and of the default table format in a file that the JVM maps as it is, which halves the time of a
session start. It fits one Java and one set of jars, so its name is made of those: one that does not fit is never used.
Everything works without it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.errors import EngineError
from tidemill.formats import DEFAULT_FORMAT, FORMATS, spark_support
from tidemill.formats.traits import Jar
from tidemill.spark import archive_folder, disk_full, jar_folder, lack_of_room, make_folder, spark_home

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidemill.formats.traits import FormatTraits

OLDEST = 17
REMEDY = (
    f"Install a JDK {OLDEST} or later (apt install openjdk-{OLDEST}-jdk-headless, "
    f"or brew install openjdk@{OLDEST}), and set JAVA_HOME if it is not on the PATH."
)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that can run Spark: its program, and its version in full (`17.0.15+6-Debian`)."""

    executable: Path
    version: str

    @property
    def major(self) -> int:
        return _major(self.version)


def find_java() -> Java:
    """The Java in JAVA_HOME, or else the first on the PATH; starts a JVM only if no `release` file tells."""
    executable = _executable()
    version = _version_in_release_file(executable) or _version_by_asking(executable)
    if version is None:
        raise EngineError("engine.java_missing", f"{executable} is not a working Java.", REMEDY)
    if _major(version) < OLDEST:
        raise EngineError(
            "engine.java_too_old",
            f"Java {version} ({executable}) is too old: Spark needs {OLDEST} or later.",
            REMEDY,
        )
    return Java(executable, version)


def _executable() -> Path:
    if home := os.environ.get("JAVA_HOME"):
        executable = Path(home) / "bin" / "java"
        if not os.access(executable, os.X_OK):
            raise EngineError("engine.java_missing", f"JAVA_HOME is {home}, and there is no Java.", REMEDY)
        return executable
    on_path = shutil.which("java")
    if on_path is None:
        raise EngineError(
            "engine.java_missing",
            "Java was not found: JAVA_HOME is not set, and there is no java on the PATH.",
            REMEDY,
        )
    return Path(on_path).resolve()


def _major(version: str) -> int:
    """17 of `17.0.15`, 8 of `1.8.0_392`."""
    numbers = re.findall(r"\d+", version)
    return int(numbers[1] if numbers[0] == "1" and len(numbers) > 1 else numbers[0])


def _version_in_release_file(executable: Path) -> str | None:
    """Every JDK has a file `release` in its home; a shim or a wrapper script has none beside it."""
    try:
        text = (executable.resolve().parent.parent / "release").read_text(encoding="utf-8")
    except OSError:
        return None
    found = dict(re.findall(r'^(JAVA_\w*VERSION)="(\d[^"]*)"', text, re.MULTILINE))
    return found.get("JAVA_RUNTIME_VERSION") or found.get("JAVA_VERSION")


def _version_by_asking(executable: Path) -> str | None:
    try:
        answer = subprocess.run(  # noqa: S603 - the user's own Java
            [executable, "-version"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(\d[^"]*)"', answer.stderr + answer.stdout)
    return found.group(1) if found and answer.returncode == 0 else None


PAUSES = (1.0, 4.0)  # seconds between the tries; networks fail now and then


def format_jars() -> tuple[Jar, ...]:
    """The jars of the table formats that are known."""
    return spark_support().jars


def formats_with_jars() -> list[FormatTraits]:
    """The formats that Spark needs jars for."""
    return [traits for traits in FORMATS.values() if traits.spark.jars]


POSTGRES = Jar(
    "org.postgresql",
    "postgresql",
    "42.7.14",
    "73914527305a40cce504b0d3d90b23caf565136912d607ae8ae7c5895512332c",
)
DRIVERS = (POSTGRES,)


def jar_paths(jars: Sequence[Jar] | None = None) -> list[Path]:
    """Where the jars are, or will be; those of formats unless others are given."""
    return [jar_folder() / jar.file for jar in (format_jars() if jars is None else jars)]


def missing_jars(jars: Sequence[Jar] | None = None) -> list[Jar]:
    return [jar for jar in (format_jars() if jars is None else jars) if not _is_in(jar_folder(), jar)]


def ensure_jars(jars: Sequence[Jar] | None = None) -> list[Path]:
    """The jars' paths; those that are not there yet are fetched."""
    missing = missing_jars(jars)
    if missing:
        java = find_java()
        for jar in missing:
            _fetch(jar, java)
    return jar_paths(jars)


def _is_in(folder: Path, jar: Jar) -> bool:
    """Whether the folder holds this very jar, whole."""
    try:
        with (folder / jar.file).open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest() == jar.sha256
    except OSError:
        return False


def drivers_at_hand() -> list[Path]:
    """The drivers of databases that were fetched before; none of them is needed."""
    return jar_paths([jar for jar in DRIVERS if _is_in(jar_folder(), jar)])


def _fetch(jar: Jar, java: Java) -> None:
    settings = _ivy_settings(jar)
    reason = "unknown"
    for pause in (*PAUSES, None):
        reason = _try_to_fetch(jar, java, settings)
        if not reason:
            return
        if full := lack_of_room(reason):
            title = _title_of(jar)
            what = f"{title}'s jars" if title else f"the jar {jar.file}"
            after = "TIDEMILL_HOME names another folder."
            raise disk_full(f"Fetching {what}", full, jar_folder(), after)
        if pause is not None:
            time.sleep(pause)
    raise _unavailable(reason, jar)


def _ivy_settings(jar: Jar) -> list[str]:
    file = os.environ.get("TIDEMILL_IVY_SETTINGS")
    if not file:
        return []
    if not Path(file).is_file():
        raise _unavailable(f"TIDEMILL_IVY_SETTINGS names {file}, which is not a file", jar)
    return ["-settings", file]


def _try_to_fetch(jar: Jar, java: Java, settings: list[str]) -> str:
    """Fetches into a folder of this try's own, then renames: processes that fetch at once do not meet.

    The answer is the reason why it failed, or empty.
    """
    folder = jar_folder()
    try:
        make_folder(folder)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder, ignore_cleanup_errors=True) as own:
            done = subprocess.run(  # noqa: S603 - the user's own Java
                _ivy_command(jar, java, Path(own), settings),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                check=False,
            )
            if done.returncode != 0 or not (Path(own) / jar.file).exists():
                return _reason(done.stdout)
            if not _is_in(Path(own), jar):
                return f"what came as {jar.file} has another SHA-256 than the released jar"
            (Path(own) / jar.file).replace(folder / jar.file)
    except OSError as error:
        return f"{folder} cannot be written ({error.strerror or error})"
    return ""


def _ivy_command(jar: Jar, java: Java, own: Path, settings: list[str]) -> list[str]:
    ivy = next(iter(sorted((spark_home() / "jars").glob("ivy-*.jar"))), None)
    if ivy is None:
        raise EngineError(
            "engine.pyspark_missing",
            f"the PySpark in {spark_home()} has no jars.",
            "Install it again: pip install --force-reinstall pyspark.",
        )
    return [
        *(str(java.executable), f"-Divy.default.ivy.user.dir={own / 'ivy'}", "-jar", str(ivy)),
        *settings,
        *("-cache", str(own / "cache"), "-confs", "default"),
        *("-dependency", jar.organisation, jar.module, jar.version, "-notransitive"),
        *("-retrieve", str(own / "[artifact]-[revision].[ext]")),
    ]


def _reason(output: str) -> str:
    """The first line of Ivy's report that says what went wrong, without its tables and banners."""
    _, _, errors = output.partition(":::: ERRORS")
    lines = [line.strip() for line in (errors or output).splitlines()]
    reasons = [
        re.sub(r"^\w+Handler: | url=\S+$", "", line)
        for line in lines
        if re.search(r"fail|not found|exception|denied|unknown host|timed out|error", line, re.IGNORECASE)
    ]
    return next(iter(reasons), "") or "; ".join(line for line in lines[-3:] if line)


def _title_of(jar: Jar) -> str | None:
    """The table format that a jar belongs to, as people call it."""
    return next((traits.spark.title for traits in FORMATS.values() if jar in traits.spark.jars), None)


def _unavailable(reason: str, wanted: Jar) -> EngineError:
    of_format = next((traits.spark for traits in FORMATS.values() if wanted in traits.spark.jars), None)
    what, jars = (f"{of_format.title}'s jars", of_format.jars) if of_format else (f"The jar {wanted.file}", (wanted,))
    names = " and ".join(f"{jar.organisation}:{jar.module}:{jar.version}" for jar in jars)
    files = " and ".join(jar.file for jar in jars)
    again = "run `tidemill setup` again" if of_format else "run again"
    return EngineError(
        "engine.jars_unavailable",
        f"{what} could not be fetched: {reason}.",
        f"Check the network and {again}; or name a mirror in an Ivy settings file "
        f"(TIDEMILL_IVY_SETTINGS); or take {names} from any Maven repository and put {files} "
        f"into {jar_folder()}.",
    )


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


def class_path(extra_jars: Sequence[Path]) -> list[Path]:
    """Jars in a fixed order: a start-up archive fits only the class path it was made with."""
    return [*sorted((spark_home() / "jars").glob("*.jar")), *extra_jars]


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
