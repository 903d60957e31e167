"""Files wherever they lie: local paths and those with a scheme."""

from __future__ import annotations

from pyarrow import fs


def file_system(path: str) -> tuple[fs.FileSystem, str]:
    """The file system of a path, and the path as that knows it."""
    if "://" in path:
        files, root = fs.FileSystem.from_uri(path)
        return files, root
    return fs.LocalFileSystem(), path.rstrip("/") or "/"


def is_folder(files: fs.FileSystem, path: str) -> bool:
    return bool(files.get_file_info(path).type == fs.FileType.Directory)


def is_hidden(name: str) -> bool:
    """Readers of tables and datasets pass over such names."""
    return name.startswith(("_", "."))
