"""The start-up archive: classes of Spark and of the default table format in a file that the JVM maps as it is.

It halves the time of a session start. It fits one Java and one set of jars, so its name is made of those: one
that does not fit is never used. Everything works without it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from tidemill.model.format import DEFAULT_FORMAT, FORMATS
from tidemill.spark.jvm import MODULE_OPTIONS, class_path
from tidemill.spark.places import archive_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tidemill.spark.jars import Java

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
