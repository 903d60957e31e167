"""Python files with functions of tables: loaded as modules that stand for themselves, and called in their own place."""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemill.models.errors import ModelError
from tidemill.models.sidecar import alone, failed, parsed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import ModuleType

    from tidemill.declare.text import Text


def declares_tables(text: Text) -> bool:
    """Whether a Python file may: it imports tidemill itself. It is not run."""
    try:
        tree = parsed(text)
    except ModelError:
        return "tidemill" in text.content
    return any(_imports_tidemill(node) for node in ast.walk(tree))


def _imports_tidemill(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return any(each.name == "tidemill" for each in names)
        case ast.ImportFrom(module="tidemill"):
            return True
        case _:
            return False


def load_module(text: Text, folders: Sequence[Path]) -> ModuleType:
    """Runs the file, which may import what stands in `folders`. Raises `ModelError` where that fails.

    It is no module that others can import, so that Spark sends its functions to workers by value.
    """
    file = Path(text.file).absolute()
    name = f"tidemill table functions {file}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None  # noqa: S101  a file that ends in .py has a loader
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    with alone(file.parent), importable(folders):
        sys.modules[name] = module
        try:
            code = compile(text.content, text.file, "exec", dont_inherit=True)
            exec(code, module.__dict__)  # noqa: S102  it is the user's own
        except (Exception, SystemExit) as failure:  # whatever a user's code may raise
            raise failed(text, failure) from failure
        finally:
            del sys.modules[name]
    return module


def in_its_place(function: Callable[..., Any], folders: Sequence[Path]) -> Callable[..., Any]:
    """The function, which finds the modules beside it whenever it is called, and while what it yields is taken."""

    @functools.wraps(function)
    def call(*given: Any) -> Any:
        with importable(folders):
            found = function(*given)
        return _taken(found, folders) if hasattr(found, "__next__") else found

    return call


def _taken(found: Iterator[Any], folders: Sequence[Path]) -> Iterator[Any]:
    with importable(folders):
        yield from found


@contextlib.contextmanager
def importable(folders: Sequence[Path]) -> Iterator[None]:
    """Modules in these folders can be imported."""
    places = [str(folder.absolute()) for folder in folders]
    sys.path[:0] = places
    try:
        yield
    finally:
        for place in places:
            sys.path.remove(place)
