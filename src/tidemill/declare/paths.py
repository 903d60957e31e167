"""Paths as users write them."""

from __future__ import annotations

from pathlib import Path


def absolute(path: str | Path, folder: Path | None = None) -> str:
    """The path as it is from anywhere, from `folder` or the current one on; URLs stay as they are.

    Spark writes the address of a local file with one slash: `file:/lake/orders`.
    """
    if str(path).startswith("file:/") and "://" not in str(path):
        return f"file://{str(path).removeprefix('file:')}"
    return str(path) if "://" in str(path) else str((folder or Path.cwd()).absolute() / at_home(path))


def on_this_machine(path: str) -> Path | None:
    """The path as a path of this machine, also where it is written as `file://…`; None for other addresses."""
    plain = path.removeprefix("file://").removeprefix("localhost/")
    return None if "://" in plain else Path("/", plain) if plain != path else Path(path)


def at_home(path: str | Path) -> Path:
    """The path with `~` as the folder that it stands for; where nobody is called so, `~name` is a name."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)
