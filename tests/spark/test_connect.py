"""What keeps the way to Spark Connect open: it has no JVM to reach into, no context and no RDDs."""

from __future__ import annotations

import ast
from pathlib import Path

import tidemill

_CLASSIC = {"_jvm", "_jdf", "_jsc", "_jsparkSession", "_sc", "sparkContext", "rdd", "newSession"}
SOURCES = Path(tidemill.__file__).parent


def test_only_the_engine_touches_what_classic_sessions_alone_have():
    found = [
        f"{file.relative_to(SOURCES)}:{node.lineno} {node.attr}"
        for file in SOURCES.rglob("*.py")
        if file.parent != SOURCES / "spark"
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in _CLASSIC
    ]
    assert found == []


def test_only_the_engine_knows_that_java_answers_and_nobody_builds_a_merge_by_the_jvm():
    """py4j is how classic sessions talk to their JVM, and Delta's builders are made on it: a MERGE is SQL text."""
    assert {(room, module) for room, module in _imports() if module == "py4j"} == {("spark", "py4j")}
    assert [pair for pair in _imports() if pair[1] == "delta"] == []


def _imports() -> list[tuple[str, str]]:
    """The rooms, and the packages from outside that their modules import."""
    found = []
    for file in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found += [(file.relative_to(SOURCES).parts[0], name.partition(".")[0]) for name in names]
    return found
