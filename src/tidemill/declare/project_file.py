"""Where a project is: in the folder of its `tidemill.toml`."""

from __future__ import annotations

from pathlib import Path

PROJECT_FILE = "tidemill.toml"
ALONE = (".sql", ".py")  # files that can be run by themselves: a pipeline, or functions that keep tables


def find_project(start: Path | str = ".") -> Path | None:
    """The project file in the folder of `start`, or in the nearest folder above."""
    start = Path(start).absolute()
    if start.name == PROJECT_FILE and start.is_file():
        return start
    return next((file for folder in (start, *start.parents) if (file := folder / PROJECT_FILE).is_file()), None)
