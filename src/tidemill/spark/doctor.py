"""What the engine needs on this machine: each check says what is, and what to do. Starts no Spark."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from tidemill.errors import TidemillError
from tidemill.formats import FORMATS
from tidemill.spark import cache_folder, jar_folder
from tidemill.spark.jars import archive_path, find_java, formats_with_jars, jar_paths, missing_jars, why_not_built
from tidemill.spark.jvm import driver_memory, machine_mib

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tidemill.formats.traits import FormatTraits

OLDEST_PYTHON = (3, 11)
TESTED_JAVA = (17, 21)
SPARK = "4.1."
LEAST_MIB = 3 * 1024


class Health(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at: what is, and what to do unless all is well."""

    name: str
    health: Health
    what: str
    remedy: str = ""


def examine(warehouse: Path) -> list[Check]:
    """All checks, in the order in which a user would fix them."""
    looks: tuple[tuple[str, Callable[[], Check]], ...] = (
        ("python", _python),
        ("java", _java),
        ("pyspark", _pyspark),
        *((traits.name, partial(_format, traits)) for traits in FORMATS.values() if traits.spark.package),
        ("jars", _jars),
        ("archive", _archive),
        ("cache", lambda: _folder("cache", cache_folder(), "name another folder in TIDEMILL_HOME")),
        ("warehouse", lambda: _folder("warehouse", warehouse, "choose another folder for the tables")),
        ("memory", _memory),
    )
    return [_look(name, look) for name, look in looks]


def _look(name: str, look: Callable[[], Check]) -> Check:
    try:
        return look()
    except TidemillError as error:
        return Check(name, Health.FAIL, error.problem, error.remedy)


def _python() -> Check:
    what = f"{platform.python_version()} ({sys.executable})"
    if sys.version_info < OLDEST_PYTHON:
        return Check("python", Health.FAIL, what, "Use Python 3.11 or later.")
    return Check("python", Health.OK, what)


def _java() -> Check:
    java = find_java()
    what = f"{java.version} ({java.executable})"
    if java.major > max(TESTED_JAVA):
        return Check("java", Health.WARN, what, "Spark 4.1 is made for Java 17 and 21; set JAVA_HOME to one of them.")
    return Check("java", Health.OK, what)


def _pyspark() -> Check:
    return _package("pyspark", "pyspark", lambda found: found.startswith(SPARK), f"{SPARK}x")


def _format(traits: FormatTraits) -> Check:
    wanted = traits.spark.version
    return _package(traits.name, traits.spark.package, lambda found: found == wanted, wanted)


def _package(name: str, package: str, fits: Callable[[str], bool], wanted: str) -> Check:
    remedy = f"Install {package} {wanted} into this Python: pip install --force-reinstall tidemill."
    try:
        found = version(package)
    except PackageNotFoundError:
        return Check(name, Health.FAIL, "not installed", remedy)
    return Check(name, Health.OK, found) if fits(found) else Check(name, Health.FAIL, found, remedy)


def _jars() -> Check:
    missing = missing_jars()
    if not missing:
        formats = [f"{traits.spark.title} {traits.spark.version}" for traits in formats_with_jars()]
        return Check("jars", Health.OK, f"{', '.join(formats)} in {jar_folder()}")
    names = ", ".join(jar.file for jar in missing)
    return Check("jars", Health.WARN, f"not in {jar_folder()}: {names}", "Fetch them: tidemill setup.")


def _archive() -> Check:
    java = find_java()
    archive = archive_path(java, jar_paths())
    if archive.exists():
        return Check("archive", Health.OK, str(archive))
    if reason := why_not_built(java, jar_paths()):
        return Check("archive", Health.WARN, f"could not be built: {reason}", "Try again: tidemill setup --again.")
    what = "none for this Java and these jars: Spark starts slowly"
    return Check("archive", Health.WARN, what, "Build it: tidemill setup.")


def _folder(name: str, folder: Path, otherwise: str) -> Check:
    """Writable, or yet to be made in a folder that is."""
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK):
        return Check(name, Health.OK, str(folder.absolute()))
    if nearest.is_file():
        return Check(name, Health.FAIL, f"{nearest} is a file, not a folder", f"{otherwise.capitalize()}.")
    return Check(name, Health.FAIL, f"{folder} cannot be written", f"Make it writable, or {otherwise}.")


def _memory() -> Check:
    what = f"{machine_mib() / 1024:.1f} GiB, of which Spark takes {driver_memory()}"
    if machine_mib() < LEAST_MIB:
        return Check("memory", Health.WARN, what, "Large changes may need more: Spark is at ease from 4 GiB on.")
    return Check("memory", Health.OK, what)
