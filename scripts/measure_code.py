"""Measures the code of src/tidemill: how large it is, and the signs that its concepts are one.

.venv/bin/python scripts/measure_code.py            # seconds, starts no Spark
.venv/bin/python scripts/measure_code.py --merge    # also counts the modules that a real `tidemill merge` loads
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tempfile
import tokenize
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "tidemill"
STRATEGIES = ("declare/strategies.py", "model/strategy.py")
ROOMS_OF_FORMATS = {"formats", "stores", "dataset"}
FRONT_ENDS = {"frontends", "project", "language", "models", "typing.py"}  # the last: what a model's metadata may say
_FORMAT = re.compile(r"(?<!time)delta|parquet", re.IGNORECASE)
_FILES = "sources"  # where Parquet is a type of files, beside CSV, JSON and ORC, and no table format
_TABLE_FORMAT = re.compile(r"(?<!time)delta", re.IGNORECASE)
_COMMANDS = "cli"  # whose help is prose for users: a sentence there may name what it is about, a key or a name may not
_LOADED = re.compile(r"^import '(tidemill[\w.]*)' #", re.MULTILINE)  # also those that a registry names
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures the code of src/tidemill.")
    parser.add_argument(
        "--merge", action="store_true", help="count the modules that `tidemill merge` loads; needs Spark"
    )
    arguments = parser.parse_args()
    for name, value in measures().items():
        _say(name, value)
    if arguments.merge:
        _say("modules that `tidemill merge` loads", len(modules_of_a_merge()))


def measures() -> dict[str, int]:
    files = [File(path) for path in sorted(PACKAGE.rglob("*.py"))]
    classes = strategy_classes(files)
    asked = {file.path: file.asked_about(classes) for file in files}
    return {
        "files": len(files),
        "files that are more than a docstring": sum(bool(file.code_lines) for file in files),
        "lines": sum(file.lines for file in files),
        "lines of code": sum(file.code_lines for file in files),
        "imports inside functions": sum(file.local_imports for file in files),
        "isinstance checks on strategies": sum(asked.values()),
        "files with such checks": sum(map(bool, asked.values())),
        "files that name a format, outside of formats and front ends": sum(file.names_a_format for file in files),
    }


@dataclass(frozen=True)
class File:
    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())

    @property
    def room(self) -> str:
        return self.path.relative_to(PACKAGE).parts[0]

    @cached_property
    def code_lines(self) -> int:
        """Lines without blank ones, comments, docstrings and imports."""
        lines: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type not in _NO_CODE:
                lines.update(range(token.start[0], token.end[0] + 1))
        for node in (*self._docstrings(), *self._imports()):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        return len(lines - {node.lineno for node in ast.walk(self.tree) if _is_for_types(node)})

    @property
    def local_imports(self) -> int:
        functions = (n for n in ast.walk(self.tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
        inside = {n for f in functions for n in ast.walk(f) if isinstance(n, ast.Import | ast.ImportFrom)}
        return len(inside)

    def asked_about(self, classes: set[str]) -> int:
        """How often `isinstance` asks whether something is one of these classes."""
        calls = (n for n in ast.walk(self.tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == "isinstance")
        names = ({n.id for n in ast.walk(call.args[1]) if isinstance(n, ast.Name)} for call in calls)
        return sum(bool(found & classes & self._strategies_known) for found in names)

    @property
    def names_a_format(self) -> bool:
        """Whether its code names one; documentation and the names that users import do not count."""
        if self.room in ROOMS_OF_FORMATS | FRONT_ENDS:
            return False
        said = {id(node.value) for node in ast.walk(self.tree) if isinstance(node, ast.Expr)}  # also of fields
        words = {word for node in ast.walk(self.tree) if id(node) not in said for word in _words(node)}
        if self.room == _COMMANDS:
            words = {word for word in words if len(word.split()) == 1}
        named = _TABLE_FORMAT if self.room == _FILES else _FORMAT
        return any(map(named.search, words - public_names()))

    @cached_property
    def _strategies_known(self) -> set[str]:
        """Names that this file imports from the module of strategies; statements have classes of the same names."""
        modules = tuple(f"tidemill.{path.removesuffix('.py').replace('/', '.')}" for path in STRATEGIES)
        found = (n for n in self._imports() if isinstance(n, ast.ImportFrom) and n.module in modules)
        return {alias.asname or alias.name for node in found for alias in node.names}

    def _imports(self) -> Iterator[ast.Import | ast.ImportFrom]:
        return (n for n in ast.walk(self.tree) if isinstance(n, ast.Import | ast.ImportFrom))

    def _docstrings(self) -> Iterator[ast.Expr]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
                first = node.body[0]
                if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                    yield first


@cache
def public_names() -> frozenset[str]:
    """What users import from `tidemill`: these names are promises, and stay as they are."""
    tree = File(PACKAGE / "__init__.py").tree
    lists = (n.value for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "__all__")
    return frozenset(name for found in lists for name in ast.literal_eval(found))


def strategy_classes(files: list[File]) -> set[str]:
    """The classes of the module that declares strategies."""
    found = [file for file in files if str(file.path.relative_to(PACKAGE)) in STRATEGIES]
    return {node.name for file in found for node in file.tree.body if isinstance(node, ast.ClassDef)}


def modules_of_a_merge() -> set[str]:
    """Our modules that a first and a second merge of three rows import, in processes of their own."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "orders.csv"
        source.write_text("id,amount\n1,10\n2,20\n3,30\n", encoding="utf-8")
        first = _merged(source)
        source.write_text("id,amount\n1,11\n4,40\n", encoding="utf-8")
        return first | _merged(source)


def _merged(source: Path) -> set[str]:
    command = [sys.executable, "-v", "-m", "tidemill", "merge", str(source), "./orders", "--on", "id"]
    ran = subprocess.run(command, cwd=source.parent, check=False, capture_output=True, text=True)
    if ran.returncode:
        sys.exit("\n".join(line for line in ran.stderr.splitlines() if not line.startswith(("#", "import "))))
    return set(_LOADED.findall(ran.stderr))


def _words(node: ast.AST) -> tuple[str, ...]:
    """The words that stand at this place of the code: a name, or a text."""
    match node:
        case ast.Constant(value=str(text)):
            return (text,)
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return (name,)
        case ast.ImportFrom(module=str(module), names=names):
            return (module, *(alias.name for alias in names))
        case ast.Import(names=names):
            return tuple(alias.name for alias in names)
        case _:
            return ()


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _say(name: str, value: int) -> None:
    sys.stdout.write(f"{value:>8,}  {name}\n")


if __name__ == "__main__":
    main()
