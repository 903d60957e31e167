"""Files wherever they lie: local paths and those with a scheme."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError

if TYPE_CHECKING:
    from pyarrow import fs


def file_system(path: str) -> tuple[fs.FileSystem, str]:
    """The file system of a path, and the path as that knows it."""
    from pyarrow import fs  # noqa: PLC0415  slow to import, and who only reads declarations needs it not

    if "://" in path:
        return _remote(path)
    return fs.LocalFileSystem(), path.rstrip("/") or "/"


def _remote(path: str) -> tuple[fs.FileSystem, str]:
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import fs  # noqa: PLC0415

    try:
        files, root = fs.FileSystem.from_uri(re.sub("^s3[an]://", "s3://", path))  # Hadoop's names for it
    except pa.ArrowInvalid as failure:
        raise ArgumentError(
            "path.unknown_scheme",
            f"Nothing here can read a path that begins with {path.partition('://')[0]}://.",
            "Copy it to a local path, or to s3://, gs:// or hdfs://.",
        ) from failure
    except OSError as failure:
        raise ArgumentError(
            "path.out_of_reach",
            f"{path} cannot be reached: {failure}.",
            "Look at its address, the network and the login.",
        ) from failure
    return files, root


def is_folder(files: fs.FileSystem, path: str) -> bool:
    from pyarrow import fs  # noqa: PLC0415

    return bool(files.get_file_info(path).type == fs.FileType.Directory)


def is_hidden(name: str) -> bool:
    """Readers of tables and datasets skip such names."""
    return name.startswith(("_", "."))
