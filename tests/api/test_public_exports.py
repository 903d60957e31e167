"""Every type that a public call takes or returns can be imported from a public module, and is documented there.

Types are followed through signatures, properties and fields, as an editor does: by the annotations in the source.
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
import typing
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from mypy import api as mypy

import tidemill
import tidemill.declarations
import tidemill.errors
import tidemill.results
import tidemill.testing
import tidemill.typing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

ROOT = Path(__file__).parents[2]
PACKAGE = Path(tidemill.__file__).parent
PARTS = (tidemill.declarations, tidemill.results)
DOCUMENTED = (tidemill, *PARTS, tidemill.errors, tidemill.typing, tidemill.testing)
CALLS = [name for name in tidemill.__all__ if name != "__version__"]

Home = tuple[str, str]


@cache
def _names(module: str) -> dict[str, Home | str]:
    """What the names of a module mean: a class in its home, or the text of an alias."""
    tree = ast.parse(Path(str(import_module(module).__file__)).read_text())
    found: dict[str, Home | str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(home), names=names) if home.startswith("tidemill"):
                found |= {each.asname or each.name: (home, each.name) for each in names}
            case ast.ClassDef(name=name):
                found[name] = (module, name)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found.setdefault(name, ast.unparse(value))
            case ast.AnnAssign(
                target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias"), value=ast.expr() as value
            ):
                found.setdefault(name, ast.unparse(value))
    return found


def _types(annotation: object, module: str, seen: frozenset[str] = frozenset()) -> Iterator[Home]:
    """The classes of ours in an annotation, aliases resolved."""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "None")
    for node in ast.walk(ast.parse(text, mode="eval")):
        if not isinstance(node, ast.Name) or node.id in seen:
            continue
        match _names(module).get(node.id):
            case (home, name) if (home, name) == (module, node.id):
                yield home, name
            case (home, name):
                yield from _types(name, home, seen)
            case str() as alias:
                yield from _types(alias, module, seen | {node.id})


def _annotations(thing: Any) -> Iterator[tuple[object, str]]:
    """Those of a function, or of the public fields, properties and methods of a class."""
    if inspect.isfunction(thing):
        yield from ((each, thing.__module__) for each in thing.__annotations__.values())
    for kind in thing.__mro__ if inspect.isclass(thing) else ():
        if not kind.__module__.startswith("tidemill"):
            continue
        fields = vars(kind).get("__annotations__", {})
        yield from ((each, kind.__module__) for name, each in fields.items() if not name.startswith("_"))
        for base in getattr(kind, "__orig_bases__", ()):
            yield from ((each, kind.__module__) for each in typing.get_args(base))
        for name, member in vars(kind).items():
            called = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            if not name.startswith("_") and inspect.isfunction(called):
                yield from _annotations(called)


def _reached() -> dict[Home, str]:
    """All classes that a user can meet, with the place where he meets them first."""
    left, found = [getattr(tidemill, name) for name in CALLS], dict[Home, str]()
    while left:
        thing = left.pop()
        for annotation, module in _annotations(thing):
            for home in _types(annotation, module):
                if home not in found:
                    found[home] = f"{thing.__qualname__}: {annotation}"
                    left += [each] if (each := getattr(import_module(home[0]), home[1], None)) else []
    return found


def test_every_type_that_a_public_call_takes_or_returns_is_public():
    public = {(each.__module__, each.__qualname__) for module in DOCUMENTED for each in _classes(module)}
    reached = {home: place for home, place in _reached().items() if home[1] != "OfArrow"}  # a shape, and no class
    assert ("tidemill.model.record", "Record") in reached
    assert {home: place for home, place in reached.items() if home not in public} == {}


def _classes(module: ModuleType) -> list[type]:
    names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    return [each for name in names if inspect.isclass(each := getattr(module, name))]


@pytest.mark.parametrize("module", [tidemill, *PARTS], ids=lambda module: module.__name__)
def test_each_export_is_there_once_for_python_and_for_type_checkers(module: ModuleType):
    assert module.__all__ == sorted(set(module.__all__))
    imported = [name for name, _ in _imports(module)]
    assert sorted(imported) == sorted(set(module.__all__) - {"__version__"})
    for name, home in _imports(module):
        assert getattr(module, name) is getattr(import_module(home), name), name


def _imports(module: ModuleType) -> list[tuple[str, str]]:
    """What the source of a module imports of ours: what type checkers know."""
    tree = ast.parse(Path(str(module.__file__)).read_text())
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return [(each.name, node.module) for node in found for each in node.names if (node.module or "").startswith("tide")]


def test_no_name_is_public_in_two_modules():
    names = [name for module in (tidemill, *PARTS) for name in module.__all__]
    assert sorted(names) == sorted(set(names))


def test_mypy_knows_every_export(tmp_path: Path):
    """In strict mode, as a user's own check sees an installed package: it is typed, and it says what it exports."""
    assert (PACKAGE / "py.typed").exists()
    lines = [f"from {module.__name__} import {name}" for module in (tidemill, *PARTS) for name in module.__all__]
    lines += ["import tidemill", 'tidemill.Project.load("shop").run().steps[0].inserted + 1', "tidemill.NoSuchName"]
    (tmp_path / "user.py").write_text("\n".join(lines))
    said, _, _ = mypy.run(["--strict", "--config-file=", "--ignore-missing-imports", "--follow-imports=silent",
                           f"--cache-dir={ROOT / '.mypy_cache' / 'exports'}", str(tmp_path / "user.py")])  # fmt: skip
    assert re.findall(r"user\.py:(\d+): error: (.*?)  \[", said) == [
        (str(len(lines)), 'Module has no attribute "NoSuchName"')
    ], said


@pytest.mark.parametrize("name", CALLS)
def test_help_shows_an_example_of_every_public_call_and_type(name: str):
    said = getattr(tidemill, name).__doc__ or ""
    assert "\n    >>> " in said, said


@pytest.mark.parametrize("module", PARTS, ids=lambda module: module.__name__)
def test_help_says_what_every_part_is(module: ModuleType):
    assert "    from tidemill" in (module.__doc__ or "")
    for each in _classes(module):
        assert not (each.__doc__ or f"{each.__name__}(").startswith(f"{each.__name__}("), each


def test_importing_tidemill_loads_neither_spark_nor_what_only_results_need():
    code = "import sys, tidemill; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"pyspark", "pyarrow", "deltalake", "tidemill.verify.result"} & set(loaded)
