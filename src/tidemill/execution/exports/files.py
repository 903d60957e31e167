"""Exports to files: written whole in a hidden folder beside the target, then moved into place."""

from __future__ import annotations

import bz2
import contextlib
import csv
import gzip
import os
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from pyspark.sql import Observation
from pyspark.sql import functions as F

from tidemill.errors import ExportError, SchemaError
from tidemill.execution.exports.options import Options, place_of
from tidemill.formats import DEFAULT_FORMAT
from tidemill.model.query import FILE_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame

    from tidemill.model.query import Export

try:
    import fcntl
except ImportError:  # Windows has no such lock
    fcntl = None  # type: ignore[assignment]


_BEFORE = "before"


@contextlib.contextmanager
def workplace(target: Path) -> Iterator[Path]:
    """An empty folder on the target's own disk, removed at the end.

    What a killed export of this target has left is removed first; the old target, where it had just been moved
    away, goes back. Workplaces of exports that still run are known by their lock, which the kernel frees.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target.parent):
        for left in target.parent.glob(f".{_literal(target.name)}.tidemill-*"):
            _clear(left, target)
        own = target.parent / f".{target.name}.tidemill-{uuid.uuid4().hex}"
        own.mkdir()
        lock = _lock(own)
    try:
        yield own
    finally:
        shutil.rmtree(own, ignore_errors=True)
        os.close(lock)


def swap(new: Path, target: Path, place: Path) -> None:
    """`new` becomes the target; the old one is kept in the workplace until then."""
    before = place / _BEFORE
    if target.exists():
        target.rename(before)
    try:
        new.rename(target)
    except OSError:
        if before.exists():
            before.rename(target)
        raise


def _clear(left: Path, target: Path) -> None:
    lock = os.open(left, os.O_RDONLY)
    try:
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return  # its export still runs
    else:
        if (left / _BEFORE).exists() and not target.exists():
            (left / _BEFORE).rename(target)
        shutil.rmtree(left, ignore_errors=True)
    finally:
        os.close(lock)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One at a time, among threads and processes of this machine."""
    lock = _lock(folder)
    try:
        yield
    finally:
        os.close(lock)


def _lock(folder: Path) -> int:
    """Waits for the folder; closing the descriptor frees it."""
    descriptor = os.open(folder, os.O_RDONLY)
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def _literal(name: str) -> str:
    """The name with nothing in it that a pattern would read as more."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)


_COMPRESSED = {".gz": "gzip", ".bz2": "bzip2", ".zst": "zstd"}
_OPENED: dict[str, Callable[..., IO[str]]] = {".gz": gzip.open, ".bz2": bz2.open}
_SINGLE = frozenset({".tsv", ".txt", ".jsonl", ".ndjson", *(f".{kind}" for kind in FILE_KINDS)})
_LINES = frozenset({"csv", "json"})
# Spark would cut spaces off texts, escape quotes as no other reader expects, and leave out fields that are NULL.
_DEFAULTS = {
    "csv": {"header": "true", "escape": '"', "ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"},
    "json": {"ignoreNullFields": "false"},
}


def write_files(rows: DataFrame, export: Export) -> tuple[int, str]:
    """How many rows were written, and where: one file where the target ends like one, else a folder of files."""
    writing = _Writing.of(export)
    return writing.one_file(rows) if writing.is_one_file else writing.folder(rows)


@dataclass(frozen=True, slots=True)
class _Writing:
    export: Export
    target: Path
    kind: str
    partition_by: tuple[str, ...]
    options: dict[str, str]

    @classmethod
    def of(cls, export: Export) -> _Writing:
        options, kind = Options(export), export.kind.lower()
        partitions = options.names("partition_by")
        path = _local(export)
        writing = cls(export, path, kind, partitions, _defaults(kind, path, options.left()))
        writing.check()
        return writing

    @property
    def is_one_file(self) -> bool:
        return _is_one_file(self.export, self.target)

    @property
    def appends(self) -> bool:
        return self.export.mode.appends

    def check(self) -> None:
        if self.is_one_file and self.partition_by:
            raise self.export.wrong(
                "export.one_file", "is one file, which has no partitions", "Name a folder, or drop partition_by."
            )
        if self.is_one_file and self.appends and (self.kind not in _LINES or self.target.suffix.lower() == ".zst"):
            raise self.export.wrong(
                "export.one_file", f"cannot append to a {self.kind.upper()} file", "Name a folder, or use MODE REPLACE."
            )

    def one_file(self, rows: DataFrame) -> tuple[int, str]:
        joins = self.appends and self.target.exists()
        options = {"maxRecordsPerFile": "0"} | ({"header": "false"} if joins else {})
        if joins:
            self._check_header(rows.columns)
        with workplace(self.target) as place:
            count = self._write(rows.coalesce(1), place / "new", options)
            part = self._only_part(place / "new")
            with locked(self.target.parent):
                whole = self._joined(part, place / "joined") if joins else part
                whole.replace(self.target)
        return count, str(self.target)

    def folder(self, rows: DataFrame) -> tuple[int, str]:
        with workplace(self.target) as place:
            self._refuse_foreign()
            count = self._write(rows, place / "new", {})
            with locked(self.target.parent):
                if self.appends and self.target.exists():
                    _move_in(place / "new", self.target)
                else:
                    swap(place / "new", self.target, place)
        return count, str(self.target)

    def _write(self, rows: DataFrame, path: Path, more: dict[str, str]) -> int:
        counted = Observation()
        writer = rows.observe(counted, F.count(F.lit(1)).alias("rows")).write
        if self.partition_by:
            writer = writer.partitionBy(*self.partition_by)
        writer.format(self.kind).options(**(self.options | more)).mode("errorifexists").save(str(path))
        return int(counted.get["rows"])

    def _only_part(self, folder: Path) -> Path:
        parts = list(_data_files(folder))
        if len(parts) != 1:
            raise ExportError(
                "export.failed", f"The export {self.export} gave {len(parts)} files for one.", "Name a folder instead."
            )
        return parts[0]

    def _joined(self, part: Path, joined: Path) -> Path:
        """The lines that are there, then the new ones, as a file of its own."""
        with joined.open("wb") as both, part.open("rb") as new:
            with self.target.open("rb") as old:
                shutil.copyfileobj(old, both)
                if self.target.suffix.lower() not in _OPENED and not _ends_a_line(self.target):
                    both.write(b"\n")
            shutil.copyfileobj(new, both)
        return joined

    def _check_header(self, columns: list[str]) -> None:
        """The columns of the file that is there, which the new lines must have."""
        if self.kind != "csv" or self._option("header") != "true":
            return
        opened = _OPENED.get(self.target.suffix.lower(), open)
        separator = self._option("sep") or self._option("delimiter") or ","
        with opened(self.target, "rt", encoding="utf-8", newline="") as lines:
            header = next(csv.reader(lines, delimiter=separator), columns)
        if header != columns:
            raise SchemaError(
                "export.other_columns",
                f"{self.target} has the columns {', '.join(header)}, and the export {', '.join(columns)}.",
                "Make the query give the same columns, or use MODE REPLACE.",
            )

    def _option(self, name: str) -> str | None:
        return next((value for key, value in self.options.items() if key.lower() == name), None)

    def _refuse_foreign(self) -> None:
        """A folder with anything but an export in it is not ours to replace."""
        if not self.target.exists() or self.appends:
            return
        foreign = [self.target] if self.target.is_file() else list(_foreign(self.target, self.kind))
        if foreign:
            raise ExportError(
                "export.not_an_export",
                f"{self.target} holds what no export of {self.kind.upper()} files has written: {foreign[0].name}.",
                "Give the export a folder of its own.",
            )


def folder_of(export: Export) -> Path:
    """Where the files of an export go that cannot be one file."""
    path = _local(export)
    if _is_one_file(export, path):
        raise export.wrong("export.one_file", "is one file, which cannot be merged into", "Name a folder.")
    return path


def _local(export: Export) -> Path:
    path = place_of(export)
    if "://" in path:
        raise export.wrong(
            "export.not_local",
            "goes to an object store, where files cannot be moved into place in one go",
            f"Use TYPE {DEFAULT_FORMAT.upper()} there, or a path of this machine.",
        )
    return Path(path)


def _is_one_file(export: Export, path: Path) -> bool:
    return not export.target.endswith("/") and _suffix(path) in _SINGLE


def _defaults(kind: str, target: Path, given: dict[str, str]) -> dict[str, str]:
    names = {name.lower() for name in given}
    compression = _COMPRESSED.get(target.suffix.lower())
    own = _DEFAULTS.get(kind, {}) | ({"compression": compression} if compression else {})
    return {name: value for name, value in own.items() if name.lower() not in names} | given


def _suffix(target: Path) -> str:
    """The ending that tells the kind, also behind one of compression."""
    return (target.with_suffix("") if target.suffix.lower() in _COMPRESSED else target).suffix.lower()


def _data_files(folder: Path) -> Iterator[Path]:
    """What Spark has written, without its marks."""
    return (file for file in sorted(folder.rglob("*")) if file.is_file() and not file.name.startswith(("_", ".")))


def _foreign(folder: Path, kind: str) -> Iterator[Path]:
    for each in folder.rglob("*"):
        hidden = any(part.startswith((".", "_")) for part in each.relative_to(folder).parts)
        if not hidden and not ("=" in each.name if each.is_dir() else f".{kind}" in each.name):
            yield each


def _move_in(new: Path, folder: Path) -> None:
    """All files of an export join those that are there; when one cannot, none does. Spark's names are unique."""
    moved: list[Path] = []
    try:
        for file in _data_files(new):
            place = folder / file.relative_to(new)
            place.parent.mkdir(parents=True, exist_ok=True)
            moved.append(file.rename(place))
    except OSError:
        for file in moved:
            file.unlink(missing_ok=True)
        raise


def _ends_a_line(file: Path) -> bool:
    with file.open("rb") as content:
        content.seek(0, 2)
        if content.tell() == 0:
            return True
        content.seek(-1, 2)
        return content.read(1) == b"\n"
