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
