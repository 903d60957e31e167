"""Finds the Java that Spark will run on, and says plainly when there is none or it is too old."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tidemill.errors import EngineError

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
