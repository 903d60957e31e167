"""Where a project is, and which Spark does its work."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tidemill.model.variables import secrets_in
from tidemill.model.window import SESSION_ZONE, zone_named

if TYPE_CHECKING:
    from datetime import tzinfo

    from tidemill.errors import Origin

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


LOCAL = "local[*]"


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """`remote` is the address of a Spark Connect server, `master` that of a cluster; never both.

    `conf` wins over Tidemill's own settings.
    """

    master: str = LOCAL
    remote: str | None = None
    conf: dict[str, str] = field(default_factory=dict, repr=False)  # it may hold passwords
    origin: Origin | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        """The Spark, as a user should see it: an address may hold a token behind its host."""
        if self.remote is not None:
            return f"Spark Connect at sc://{urlsplit(self.remote).netloc.partition(';')[0]}"
        return "embedded Spark" if is_local(self.at) else f"Spark at {self.at}"

    @property
    def secrets(self) -> frozenset[str]:
        """What no text may show: the address's token, and passwords and keys by the names of their settings."""
        return secrets_in({"remote": self.remote, **self.conf})

    @property
    def zone(self) -> tzinfo:
        """Where its days begin, as far as that is declared."""
        return zone_named(self.conf.get(SESSION_ZONE, "UTC"))

    @property
    def at(self) -> str:
        """The master, wherever it was given."""
        return self.conf.get("spark.master", self.master)


def is_local(master: str) -> bool:
    """Whether a master is this very process, and no cluster."""
    return master == "local" or master.startswith("local[")
