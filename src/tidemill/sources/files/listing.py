"""Which files paths and patterns name, found without Spark: what there is, how large it is, whether it changed."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pyarrow import fs

from tidemill.errors import ConnectorError, MissingFileError, TidemillError
from tidemill.formats.filesystem import file_system, is_hidden
from tidemill.formats.registry import table_in
from tidemill.model import local_path
from tidemill.sources.kinds import tables_by_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MAGIC = re.compile(r"[*?\[{]")
_BRACES = re.compile(r"\{([^{}]*)\}")
_SPECIAL = re.compile(r"([*?\[\]{}\\])")


@dataclass(frozen=True, slots=True)
class Root:
    """A file or folder that a path names; `path` is as the user's file system has it, with its scheme."""

    files: fs.FileSystem
    info: fs.FileInfo
    scheme: str = ""

    @property
    def path(self) -> str:
        return f"{self.scheme}{self.info.path}"

    @property
    def is_folder(self) -> bool:
        return bool(self.info.type == fs.FileType.Directory)

    def inside(self) -> list[fs.FileInfo]:
        """All files that readers do not skip."""
        if not self.is_folder:
            return [self.info]
        found = self.files.get_file_info(fs.FileSelector(self.info.path, recursive=True))
        return [each for each in found if each.type == fs.FileType.File and not any(map(_is_skipped, self.parts(each)))]

    def for_spark(self, file: fs.FileInfo | None = None) -> str:
        """The path, or that of a file inside, as it stands: Spark would read special characters as a pattern."""
        return _SPECIAL.sub(r"\\\1", f"{self.scheme}{file.path}" if file else self.path)

    def parts(self, file: fs.FileInfo) -> list[str]:
        """The names from the root to the file."""
        return [part for part in file.path[len(self.info.path) :].split("/") if part]


@dataclass(frozen=True)
class Listing:
    """The files that paths name, with `*`, `**`, `?`, `[…]` and `{a,b}` in them; one that names none is an error."""

    paths: tuple[str, ...]
    error: type[TidemillError] = ConnectorError

    @cached_property
    def roots(self) -> tuple[Root, ...]:
        """Each once, however many paths and patterns name it or a folder around it."""
        named = {root.path: root for path in self.paths for root in self._roots_at(path)}
        folders = {path for path, root in named.items() if root.is_folder}
        return tuple(root for path, root in named.items() if folders.isdisjoint(_around(path)))

    @cached_property
    def files(self) -> list[fs.FileInfo]:
        return [file for _, file in self.placed]

    @cached_property
    def placed(self) -> list[tuple[Root, fs.FileInfo]]:
        found = [(root, file) for root in self.roots for file in root.inside()]
        for root, file in found:
            if isinstance(root.files, fs.LocalFileSystem) and not os.access(file.path, os.R_OK):
                raise self._forbidden(file.path)  # Spark would say that it does not exist
        return found

    def _roots_at(self, path: str) -> list[Root]:
        try:
            found = _found(path)
        except PermissionError as failure:
            raise self._forbidden(path) from failure
        if not found:
            table = tables_by_path()
            raise self._absent(
                "source.missing",
                f"There is nothing at {path}.",
                f"Give the path of a file, a folder or a {table}.",
            )
        return found

    @property
    def _absent(self) -> type[TidemillError]:
        return MissingFileError if self.error is ConnectorError else self.error

    def _forbidden(self, path: str) -> TidemillError:
        return self._absent(
            "source.forbidden",
            f"{path} may not be read: permission denied.",
            "Allow the user who runs this to read it.",
        )

    @property
    def size(self) -> int:
        return sum(file.size or 0 for file in self.files)

    @property
    def nested(self) -> bool:
        """Whether files lie in folders that are no partitions (`day=1/`), which Spark would skip."""
        return any("=" not in part for root, file in self.placed for part in root.parts(file)[:-1])

    @property
    def in_partitions(self) -> bool:
        """Whether files lie in folders of partitions (`day=1/`), whose names are columns too."""
        return any("=" in part for root, file in self.placed for part in root.parts(file)[:-1])

    def check(self) -> None:
        """Files that Spark would skip silently, or could not read for their names, are an error."""
        for root in self.roots:
            if not root.is_folder and _is_skipped(root.info.base_name):
                raise self.error(
                    "source.hidden", f"{root.path} is hidden: readers skip such names.", "Give it another name."
                )
            self._check_partitions(root)
        colon = next((file.path for file in self.files if ":" in file.base_name), None)
        if colon:
            raise self.error(
                "source.bad_name", f"Spark cannot read {colon}: its name has a colon.", "Give it another name."
            )

    def _check_partitions(self, root: Root) -> None:
        files = {tuple(part.partition("=")[0] for part in root.parts(f)[:-1] if "=" in part): f for f in root.inside()}
        if len(files) > 1:
            listed = [f"{file.path} in {'/'.join(names) or 'none'}" for names, file in files.items()]
            raise self.error(
                "source.uneven_partitions",
                f"Not all files of {root.path} lie in the same folders of partitions: {', '.join(sorted(listed)[:2])}.",
                "Move them so that all do or none does, or name some of them with a pattern.",
            )

    @property
    def table_format(self) -> str | None:
        """The format of the table that one of the paths is; None where all of them are files and folders of files."""
        found = (table_in(root.files, root.info.path) for root in self.roots if root.is_folder)
        return next(filter(None, found), None)

    def for_spark(self) -> list[str]:
        """The paths as they stand: Spark would take special characters in them for a pattern."""
        return [root.for_spark() for root in self.roots]

    @property
    def base(self) -> str | None:
        """The one folder that files are looked for in: partitions are the folders below it."""
        folders = [root.for_spark() for root in self.roots if root.is_folder]
        return folders[0] if len(folders) == len(self.roots) == 1 else None

    def digest(self, *more: str) -> str:
        """Differs whenever a file came, went or was written."""
        seen = hashlib.sha256("\n".join(more).encode())
        for file in sorted(self.files, key=lambda each: str(each.path)):
            seen.update(f"{file.path}\0{file.size}\0{file.mtime_ns}\n".encode())
        return seen.hexdigest()[:32]


def _is_skipped(name: str) -> bool:
    return is_hidden(name) and not (name.startswith("_") and "=" in name)  # a partition may be called _day=1


def _around(path: str) -> list[str]:
    """The folders that a path lies in."""
    return [path[: place.start()] for place in re.finditer("/", path)]


def _found(path: str) -> list[Root]:
    if path.startswith("file:"):
        path = str(local_path(path, escaped=True))
    files, root = file_system(_beginning(path))
    scheme = path[: path.find(root)] if "://" in path and root in path else ""
    literal = files.get_file_info(path[len(scheme) :].rstrip("/") or "/")
    if literal.type != fs.FileType.NotFound:
        return [Root(files, literal, scheme)]
    patterns = _without_braces(path[len(scheme) :])
    return [Root(files, info, scheme) for pattern in patterns for info in _match(files, root, pattern)]


def _beginning(path: str) -> str:
    """The part of a pattern that names a folder."""
    magic = _MAGIC.search(path)
    return path if magic is None else path[: magic.start()].rpartition("/")[0] or "/"


def _without_braces(pattern: str) -> Iterator[str]:
    braces = _BRACES.search(pattern)
    if braces is None:
        yield pattern
        return
    for choice in braces[1].split(","):
        yield from _without_braces(pattern[: braces.start()] + choice + pattern[braces.end() :])


def _match(files: fs.FileSystem, root: str, pattern: str) -> list[fs.FileInfo]:
    """What the pattern names, folder by folder, in order."""
    level = [files.get_file_info(root)]
    for part in [part for part in pattern[len(root.rstrip("/")) :].split("/") if part]:
        level = [info for folder in level for info in _children(files, folder, part)]
    return sorted((info for info in level if info.type != fs.FileType.NotFound), key=lambda info: str(info.path))


def _children(files: fs.FileSystem, folder: fs.FileInfo, part: str) -> Iterable[fs.FileInfo]:
    if folder.type != fs.FileType.Directory:
        return []
    if part == "**":
        return [folder, *_folders(files, folder)]
    if not _MAGIC.search(part):
        info = files.get_file_info(f"{folder.path.rstrip('/')}/{part}")
        return [info] if info.type != fs.FileType.NotFound else []
    inside, shell = files.get_file_info(fs.FileSelector(folder.path)), part.replace("[^", "[!")
    return [info for info in inside if fnmatch.fnmatchcase(info.base_name, shell) and not _is_skipped(info.base_name)]


def _folders(files: fs.FileSystem, folder: fs.FileInfo) -> Iterator[fs.FileInfo]:
    """All folders inside, at any depth, that readers do not skip."""
    for info in files.get_file_info(fs.FileSelector(folder.path)):
        if info.type == fs.FileType.Directory and not _is_skipped(info.base_name):
            yield info
            yield from _folders(files, info)
