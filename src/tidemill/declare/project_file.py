"""Where a project is: in the folder of its `tidemill.toml`, or in one pipeline file that stands alone."""

from __future__ import annotations

import ast
from pathlib import Path

PROJECT_FILE = "tidemill.toml"
ALONE = (".sql", ".py")  # files that can be run by themselves: a pipeline, or functions that keep tables


def find_project(start: Path | str = ".") -> Path | None:
    """The project file in the folder of `start`, or in the nearest folder above."""
    start = Path(start).absolute()
    if start.name == PROJECT_FILE and start.is_file():
        return start
    return next((file for folder in (start, *start.parents) if (file := folder / PROJECT_FILE).is_file()), None)


def files_alone(folder: Path) -> tuple[Path, ...]:
    """The files of a folder that can be run by themselves, sorted by name; Python files are parsed and not run."""
    found = sorted(each for each in folder.iterdir() if each.suffix in ALONE and each.is_file())
    return tuple(each for each in found if each.suffix == ".sql" or _has_tables(each))


def is_project(start: Path | str = ".") -> bool:
    """Whether a command finds a project here: a project file here or above, or pipeline files in this folder."""
    folder = Path(start)
    return find_project(folder) is not None or (folder.is_dir() and bool(files_alone(folder)))


def _has_tables(file: Path) -> bool:
    """Whether one of its functions is decorated as a table."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return False
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return any(_is_table(each) for function in functions for each in function.decorator_list)


def _is_table(decorator: ast.expr) -> bool:
    match decorator:
        case ast.Call(func=called):
            return _is_table(called)
        case ast.Attribute(value=ast.Name(id="tidemill"), attr="table") | ast.Name(id="table"):
            return True
        case _:
            return False
